"""Who may send what the emulator runs: no page of the web, and in live mode nobody without its token."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import requests

import gputrain_emulator
from emulator.tests.live_guests import until
from emulator.tests.test_strict_requests import vm
from gputrain_emulator import Cloud
from gputrain_emulator.live import job as live_job
from gputrain_emulator.vertex import Settings, Vertex

ZONE = "/compute/v1/projects/my-project/zones/us-central1-a"
VM = vm()
JOBS = "/v1/projects/my-project/locations/us-central1/customJobs"
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": "1",
    "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/i:1", "command": ["sh", "-c", "echo it ran"]},
}
JOB = {"displayName": "job", "jobSpec": {"workerPoolSpecs": [POOL]}}
CREATES = pytest.mark.parametrize(
    ("path", "body"), [(f"{ZONE}/instances", VM), (JOBS, JOB)], ids=["instances.insert", "customJobs.create"]
)
PAGES = pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}]
    + [{"Sec-Fetch-Site": site} for site in ("cross-site", "same-site")],
    ids=lambda headers: " ".join(headers.values()),
)


def post(cloud: Cloud, path: str, body: Any, **headers: str) -> requests.Response:
    """A POST that a browser sends without asking first: plain text, no token."""
    simple = {"Content-Type": "text/plain;charset=UTF-8", **headers}
    return requests.post(f"{cloud.endpoints.url}{path}", data=json.dumps(body), headers=simple, timeout=10)


@CREATES
@PAGES
def test_a_page_of_the_web_creates_nothing(
    cloud: Cloud, path: str, body: Any, headers: dict[str, str]
) -> None:
    refused = post(cloud, path, body, **headers)
    assert refused.status_code == 403
    assert "web pages" in refused.json()["error"]["message"]
    part = f"POST {path} HTTP/1.1\r\nContent-Type: application/json\r\n\r\n{json.dumps(body)}"
    whole = f"--b\r\nContent-Type: application/http\r\nContent-ID: <1>\r\n\r\n{part}\r\n--b--\r\n"
    batch = {"Content-Type": "multipart/mixed; boundary=b", **headers}
    url = f"{cloud.endpoints.url}/batch/compute/v1"
    assert requests.post(url, data=whole, headers=batch, timeout=10).status_code == 403
    assert not cloud.compute.vms
    assert not cloud.world.part(Vertex).jobs
    assert post(cloud, path, body).ok


@PAGES
def test_a_page_of_the_web_commands_and_reads_nothing(cloud: Cloud, headers: dict[str, str]) -> None:
    assert post(cloud, "/_emulator/ledger", {}, **headers).status_code == 403
    assert requests.get(f"{cloud.endpoints.url}{ZONE}", headers=headers, timeout=10).status_code == 403


@pytest.fixture
def live() -> Iterator[Cloud]:
    with gputrain_emulator.start(live=True) as cloud:
        yield cloud


@CREATES
def test_live_mode_runs_nothing_for_who_has_no_token(live: Cloud, path: str, body: Any) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"iss": live.owner.email}).encode()).decode()
    for token in ("", "Bearer nonsense", f"Bearer e30.{claims}.e30"):
        assert post(live, path, body, Authorization=token).status_code == 401
    assert post(live, "/_emulator/add_bucket", {"name": "mine"}).status_code == 401
    grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    form = {"grant_type": grant, "assertion": f"e30.{claims}.e30"}
    refused = requests.post(f"{live.endpoints.url}/token", data=form, timeout=10)
    assert (refused.status_code, refused.json()["error_description"]) == (400, "Invalid JWT Signature.")
    assert not live.compute.vms
    assert not live.world.part(Vertex).jobs


def test_a_token_and_an_address_that_holds_it_let_in(live: Cloud) -> None:
    bearer = {"Authorization": f"Bearer {live.world.callers.issue(live.owner)}"}
    assert requests.get(f"{live.endpoints.url}{ZONE}", headers=bearer, timeout=10).ok
    assert requests.get(f"{live.url_of(live.owner)}{ZONE}", timeout=10).ok
    live.add_bucket("bucket")
    url = f"{live.url_of(live.owner)}/upload/storage/v1/b/bucket/o?uploadType=resumable&name=x"
    session = requests.post(url, json={}, timeout=10).headers["Location"]
    assert requests.put(session, data=b"hello", timeout=10).ok
    media = f"{live.url_of(live.owner)}/storage/v1/b/bucket/o/x?alt=media"
    assert requests.get(media, timeout=10).content == b"hello"


def test_without_walls_nothing_runs_unless_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_job, "why_no_walls", lambda: "the kernel refuses namespaces")
    made = [sys.executable, "-c", "import tempfile; print('made', tempfile.mkdtemp(), flush=True)"]
    pool = {**POOL, "containerSpec": {**POOL["containerSpec"], "command": made}}
    for allowed in (False, True):
        with gputrain_emulator.start(live=True, allow_unconfined=allowed) as cloud:
            cloud.world.part(Vertex).settings = Settings(provision_s=0.02, start_s=0.02)
            token = cloud.world.callers.issue(cloud.owner)
            body = {"displayName": "job", "jobSpec": {"workerPoolSpecs": [pool]}}
            post(cloud, JOBS, body, Authorization=f"Bearer {token}")
            (job,) = cloud.world.part(Vertex).jobs.values()
            assert until(cloud, lambda job=job: job.ended is not None)
            body = {"resourceNames": [f"projects/{cloud.project}"]}
            told = post(cloud, "/v2/entries:list", body, Authorization=f"Bearer {token}").text
        folders = re.findall(r'"made (/[^"]+)"', told)
        assert len(folders) == allowed
        assert ("nothing would confine it here" in told) is not allowed
        assert not any(os.path.exists(folder) for folder in folders), "its temporary files go with it"


def test_the_command_prints_the_token_and_the_address_that_holds_it() -> None:
    command = [sys.executable, "-m", "gputrain_emulator", "--port", "0", "--live"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(4)]
        token = said[1].split("token: ")[1].strip()
        address = next(word for word in said[2].split() if word.startswith("GPUTRAIN_ENDPOINT="))
        assert address.endswith(f"/_emulator/as/{token}")
        assert requests.get(f"{address.partition('=')[2]}{ZONE}", timeout=10).ok
        process.terminate()
