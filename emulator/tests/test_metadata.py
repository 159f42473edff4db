"""The metadata server, asked by hand; `test_live_vms` has google-auth ask it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from gputrain_emulator.metadata import Account, Metadata, MetadataServer
from tests.each import each

EMAIL = "trainer@proj.iam.gserviceaccount.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class Machine:
    """A tree that a test may change, behind a server."""

    def __init__(self) -> None:
        self.instance: dict[str, Any] = {
            "attributes": {"startup-script": "echo hi", "fooBar": "1"},
            "id": 42,
            "name": "vm-1",
            "machineType": "projects/1/machineTypes/a2-highgpu-1g",
            "networkInterfaces": [{"ip": "10.128.0.2", "dnsServers": ["169.254.169.254"]}],
            "preempted": "FALSE",
            "tags": ["a", "b"],
        }
        account = Account(email=EMAIL, scopes=(SCOPE,), mint=lambda: ("token-of-the-vm", 3599))
        self.metadata = Metadata(read=self.read, accounts={EMAIL: account})
        self.server = MetadataServer(self.metadata)

    def read(self) -> dict[str, Any]:
        project = {"projectId": "proj", "numericProjectId": 1, "attributes": {}}
        universe = {"universeDomain": "googleapis.com"}
        return {"instance": self.instance, "project": project, "universe": universe}

    def get(self, path: str, **headers: str) -> requests.Response:
        flavour = {"Metadata-Flavor": "Google", **headers}
        return requests.get(
            f"http://{self.server.host}{path}", headers=flavour, timeout=10, allow_redirects=False
        )


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    yield machine
    machine.server.close()


V1 = "/computeMetadata/v1/"


def test_the_header_is_demanded_and_given(machine: Machine) -> None:
    bare = requests.get(f"http://{machine.server.host}{V1}instance/id", timeout=10)
    assert bare.status_code == 403
    assert "Missing Metadata-Flavor:Google header" in bare.text
    assert machine.get(V1 + "instance/id").headers["Metadata-Flavor"] == "Google"


@each(
    ("path", "text"),
    [
        ("instance/id", "42"),
        ("instance/machine-type", "projects/1/machineTypes/a2-highgpu-1g"),
        ("instance/attributes/startup-script", "echo hi"),
        ("instance/network-interfaces/0/ip", "10.128.0.2"),
        ("instance/tags", '["a", "b"]'),
        ("instance/tags?alt=json", '["a", "b"]'),
        ("instance/name?alt=json", '"vm-1"'),
        ("instance/service-accounts/default/scopes", SCOPE + "\n"),
        ("project/project-id", "proj"),
        ("project/numeric-project-id", "1"),
    ],
)
def test_a_value_reads_as_google_prints_it(machine: Machine, path: str, text: str) -> None:
    answer = machine.get(V1 + path)
    assert (answer.status_code, answer.text) == (200, text)


def test_a_token_is_for_who_has_the_account(machine: Machine) -> None:
    accounts = f"{V1}instance/service-accounts"
    token = {"access_token": "token-of-the-vm", "expires_in": 3599, "token_type": "Bearer"}
    assert machine.get(f"{accounts}/default/token?scopes=a,b").json() == token
    assert machine.get(f"{accounts}/other@example.com/token").status_code == 404


def test_recursive_reads_a_whole_branch_with_googles_keys(machine: Machine) -> None:
    branch = machine.get(V1 + "instance/?recursive=true").json()
    assert branch["networkInterfaces"][0]["dnsServers"] == ["169.254.169.254"]
    assert branch["serviceAccounts"]["default"]["email"] == EMAIL
    assert branch["attributes"]["fooBar"] == "1"


@pytest.mark.parametrize(
    "path", [V1 + "instance/nothing", V1 + "instance/id/deeper", "/computeMetadata/v2/x"]
)
def test_what_is_not_there_is_404(machine: Machine, path: str) -> None:
    assert machine.get(path).status_code == 404


def test_a_waiting_client_is_told_of_the_change_it_waits_for(machine: Machine) -> None:
    etag = machine.get(V1 + "instance/preempted").headers["ETag"]
    path = f"{V1}instance/preempted?wait_for_change=true&last_etag={etag}"
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(machine.get, path)
        machine.instance["tags"] = []
        machine.metadata.changed()  # another value: nobody who waits for `preempted` is woken for good
        machine.instance["preempted"] = "TRUE"
        machine.metadata.changed()
        answer = waiting.result(10)
    assert answer.text == "TRUE"
    assert answer.headers["ETag"] != etag
