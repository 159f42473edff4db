"""The tables that requests are read by are those of Google's own clients and documents."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from gputrain_emulator import Cloud
from tests.each import each

HOME = Path(__file__).parents[1]


def test_the_tables_are_what_the_tool_makes_of_these_clients() -> None:
    tool = runpy.run_path(str(HOME / "scripts" / "tables.py"))
    sources = tool["sources"]()
    written = (HOME / "gputrain_emulator" / "data" / "routes.tsv").read_text()
    if sources not in written.partition("\n")[0]:
        pytest.skip(f"the tables are not made from {sources}")
    for name, text in tool["tables"]().items():
        shipped = (HOME / "gputrain_emulator" / "data" / name).read_text()
        assert shipped == text, f"{name} is old: run python emulator/scripts/tables.py"


def test_a_first_answer_loads_no_client_of_googles_and_no_service_beside_its_own() -> None:
    program = """
import gputrain_emulator, sys, urllib.request
with gputrain_emulator.start() as cloud:
    urllib.request.urlopen(f"{cloud.endpoints.url}/compute/v1/projects/my-project/zones/us-central1-a").read()
heavy = ("google.api_core", "google.auth", "google.protobuf", "google.cloud.compute_v1", "grpc", "requests")
heavy += tuple(f"gputrain_emulator.{name}" for name in ("storage", "vertex", "cloudbilling", "logging"))
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@each(
    ("verb", "path", "method"),
    [
        ("GET", "/compute/beta/projects/p/zones/z/instances", "compute.instances.list of compute/beta"),
        ("POST", "/compute/alpha/projects/p/zones/z/instances/i/start", "instances.start of compute/alpha"),
        ("POST", "/compute/v1/projects/p/zones/z/instances/i/suspend", "compute.instances.suspend"),
        ("GET", "/storage/v1/b/bucket/acl", "storage.acl.list"),
        ("POST", "/storage/v1/b/bucket/o/bulkRestore", "storage.o.bulkRestore"),
        ("GET", "/bucket/object", "storage.xml.get"),
        ("PUT", "/bucket/object?uploadId=1&partNumber=2", "storage.xml.put"),
        ("GET", "/v1beta1/projects/p/locations/l/customJobs", "aiplatform.customJobs.list of v1beta1"),
        ("POST", "/v1beta1/projects/p/locations/l/customJobs/1:cancel", "customJobs.cancel of v1beta1"),
        ("GET", "/compute/v1/projects/p/global/routes", "compute.routes.list"),
    ],
)  # fmt: skip
def test_what_google_serves_and_we_do_not_is_a_501_by_name(
    cloud: Cloud, verb: str, path: str, method: str
) -> None:
    reply = requests.request(verb, cloud.endpoints.url + path, timeout=10)
    assert reply.status_code == 501
    assert method in reply.json()["error"]["message"]
