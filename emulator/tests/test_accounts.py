"""Tokens, projects, permissions, API switches and secrets."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import google.auth.transport.requests
import requests
from google.cloud import resourcemanager_v3

from gputrain_emulator import Cloud
from gputrain_emulator.world import Accounts
from tests.each import each

JWT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


WRONG_CLOCK = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe."


def an_assertion(**claims: Any) -> str:
    """A service account's JWT, unsigned: the emulator reads its claims only."""
    now = int(time.time())
    whole = {"iss": "robot@p.iam.gserviceaccount.com", "iat": now, "exp": now + 3600, **claims}
    part = base64.urlsafe_b64encode(json.dumps(whole).encode()).decode().rstrip("=")
    return f"{base64.urlsafe_b64encode(b'{}').decode()}.{part}.c2ln"


def ask(cloud: Cloud, **form: str) -> requests.Response:
    return requests.post(cloud.endpoints.token_uri, data=form, timeout=10)


def test_a_refresh_token_becomes_an_access_token(cloud: Cloud) -> None:
    credentials = cloud.credentials
    credentials.token = None
    credentials.refresh(google.auth.transport.requests.Request())
    assert cloud.world.callers.find(f"Bearer {credentials.token}").email == cloud.owner.email


def test_a_service_accounts_jwt_becomes_its_token(cloud: Cloud) -> None:
    reply = ask(cloud, grant_type=JWT, assertion=an_assertion()).json()
    assert (reply["token_type"], reply["expires_in"]) == ("Bearer", 3599)
    who = cloud.world.callers.find(f"Bearer {reply['access_token']}")
    assert who.email == "robot@p.iam.gserviceaccount.com"


NOW = int(time.time())


@each(
    ("form", "error", "words"),
    [
        ({}, "invalid_request", "Required parameter is missing"),
        ({"grant_type": "password"}, "unsupported_grant_type", "password"),
        ({"grant_type": "refresh_token"}, "invalid_grant", "expired or revoked"),
        ({"grant_type": JWT}, "invalid_grant", "must be in the form"),
        ({"grant_type": JWT, "assertion": "a.b.c"}, "invalid_grant", "must be in the form"),
        ({"grant_type": JWT, "assertion": an_assertion(iss="nobody")}, "invalid_grant", "audience"),
        ({"grant_type": JWT, "assertion": an_assertion(exp=NOW + 7200)}, "invalid_grant", WRONG_CLOCK),
        ({"grant_type": JWT, "assertion": an_assertion(exp="soon")}, "invalid_grant", WRONG_CLOCK),
        ({"grant_type": JWT, "assertion": an_assertion(iat=NOW + 3600)}, "invalid_grant", WRONG_CLOCK),
        ({"grant_type": JWT, "assertion": an_assertion(exp=NOW - 3600)}, "invalid_grant", WRONG_CLOCK),
    ],
)
def test_bad_grants_are_refused_in_googles_words(
    cloud: Cloud, form: dict[str, str], error: str, words: str
) -> None:
    reply = ask(cloud, **form)
    assert (reply.status_code, reply.json()["error"]) == (400, error)
    assert words in reply.json()["error_description"]


def test_a_project_has_an_id_and_a_number_in_both_versions(cloud: Cloud) -> None:
    number = cloud.world.projects[cloud.project].number
    root = cloud.endpoints.resourcemanager
    assert requests.get(f"{root}/v1/projects/{cloud.project}", timeout=10).json()["projectNumber"] == number
    client = resourcemanager_v3.ProjectsClient(
        credentials=cloud.credentials, transport="rest", client_options=cloud.client_options
    )
    assert client.get_project(name=f"projects/{cloud.project}").name == f"projects/{number}"
    assert requests.get(f"{root}/v1/projects/nobody", timeout=10).status_code == 403


def test_permissions_are_tested_for_the_caller(cloud: Cloud) -> None:
    some = cloud.caller("some@example.com", ["compute.instances.create"])
    client = resourcemanager_v3.ProjectsClient(
        credentials=cloud.credentials_of(some), transport="rest", client_options=cloud.client_options
    )
    held = client.test_iam_permissions(
        resource=f"projects/{cloud.project}",
        permissions=["compute.instances.create", "aiplatform.customJobs.create"],
    )
    assert list(held.permissions) == ["compute.instances.create"]
    url = f"{cloud.endpoints.resourcemanager}/v1/projects/{cloud.project}:testIamPermissions"
    for wrong in ([], ["compute.*"], ["x"], ["a.b.c"] * 101):
        assert requests.post(url, json={"permissions": wrong}, timeout=10).status_code == 400


def test_a_service_account_is_there_or_not(cloud: Cloud) -> None:
    root = f"{cloud.endpoints.iam}/v1/projects/{cloud.project}/serviceAccounts"
    email = "robot@my-project.iam.gserviceaccount.com"
    assert requests.get(f"{root}/{email}", timeout=10).json()["email"] == email
    asked = {"permissions": ["iam.serviceAccounts.actAs"]}
    held = requests.post(f"{root}/{email}:testIamPermissions", json=asked, timeout=10)
    assert held.json() == asked
    cloud.world.part(Accounts).missing.add(email)
    gone = requests.get(f"{root}/{email}", timeout=10)
    assert (gone.status_code, gone.json()["error"]["status"]) == (404, "NOT_FOUND")


def test_apis_are_seen_and_switched(cloud: Cloud) -> None:
    root = f"{cloud.endpoints.serviceusage}/v1/projects/{cloud.project}/services"
    cloud.enable_api("compute", enabled=False)
    assert requests.get(f"{root}/compute.googleapis.com", timeout=10).json()["state"] == "DISABLED"
    names = [f"projects/{cloud.project}/services/{host}.googleapis.com" for host in ("compute", "storage")]
    batch = requests.get(f"{root}:batchGet", params={"names": names}, timeout=10).json()["services"]
    assert [one["state"] for one in batch] == ["DISABLED", "ENABLED"]
    switched = requests.post(f"{root}/compute.googleapis.com:enable", json={}, timeout=10).json()
    assert (switched["done"], switched["response"]["service"]["state"]) == (True, "ENABLED")
    on = requests.get(root, params={"filter": "state:ENABLED", "pageSize": 3}, timeout=10).json()
    assert len(on["services"]) == 3
    assert on["nextPageToken"]


def test_a_secret_has_versions(cloud: Cloud) -> None:
    cloud.enable_api("secretmanager")
    for data in (b"first", b"second"):
        cloud.world.part(Accounts).add_secret("hf", data)
    root = f"{cloud.endpoints.url}/v1/projects/{cloud.project}/secrets/hf/versions"
    for version, data in (("1", b"first"), ("latest", b"second")):
        payload = requests.get(f"{root}/{version}:access", timeout=10).json()["payload"]
        assert base64.b64decode(payload["data"]) == data
    assert requests.get(f"{root}/3:access", timeout=10).status_code == 404
    stranger = cloud.world.callers.issue(cloud.caller("stranger@example.com", []))
    held = requests.get(f"{root}/1:access", headers={"Authorization": f"Bearer {stranger}"}, timeout=10)
    assert held.status_code == 403
    assert b"first" not in held.content
