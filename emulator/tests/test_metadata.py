"""The metadata server, asked by hand and by google-auth itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
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
        self.minted: list[list[str]] = []
        account = Account(email=EMAIL, scopes=(SCOPE,), mint=self.mint)
        self.metadata = Metadata(read=self.read, accounts={EMAIL: account})
        self.server = MetadataServer(self.metadata)

    def mint(self, scopes: Any) -> tuple[str, int]:
        self.minted.append(list(scopes))
        return "token-of-the-vm", 3599

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


ASK = """
import google.auth, google.auth.transport.requests
credentials, project = google.auth.default(scopes=["scope-a", "scope-b"])
credentials.refresh(google.auth.transport.requests.Request())
print(type(credentials).__module__, project, credentials.token, credentials.service_account_email)
"""


def test_google_auth_finds_its_token_and_project_here(machine: Machine, tmp_path: Path) -> None:
    environment = {
        "GCE_METADATA_HOST": machine.server.host,
        "GCE_METADATA_IP": machine.server.host,
        "HOME": str(tmp_path),  # no credentials of this computer's user
        "PATH": "/usr/bin:/bin",
    }
    said = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.split() == ["google.auth.compute_engine.credentials", "proj", "token-of-the-vm", EMAIL]
    assert machine.minted == [["scope-a", "scope-b"]]
