"""The tables that requests are read by are those of Google's own clients and documents."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from gputrain_emulator import Cloud, messages, services
from gputrain_emulator.record import Record
from gputrain_emulator.routes import Routes
from tests.each import each

HOME = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("tables", HOME / "scripts" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_what_the_tool_makes_of_these_clients(tool: Any) -> None:
    written = (HOME / "gputrain_emulator" / "data" / "routes.tsv").read_text()
    if tool.sources() not in written.partition("\n")[0]:
        pytest.skip(f"the tables are not made from {tool.sources()}")
    for name, text in tool.tables().items():
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
        ("GET", "/v1beta1/projects/p/locations/l/customJobs", "locations.customJobs.list of v1beta1"),
        ("POST", "/v1beta1/projects/p/locations/l/customJobs/1:cancel", "customJobs.cancel of v1beta1"),
        ("GET", "/compute/v1/projects/p/global/routes", "compute.routes.list"),
        ("PUT", "/v1/projects/p/topics/t", "pubsub.projects.topics.create of v1"),
        ("GET", "/v1/projects/p/zones/z/clusters", "container.projects.zones.clusters.list of v1"),
        ("GET", "/v1/projects/p/locations", "aiplatform.projects.locations.list"),
    ],
)  # fmt: skip
def test_what_google_serves_and_we_do_not_is_a_501_by_name(
    cloud: Cloud, verb: str, path: str, method: str
) -> None:
    reply = requests.request(verb, cloud.endpoints.url + path, timeout=10)
    assert reply.status_code == 501
    assert method in reply.json()["error"]["message"]


def test_a_service_loaded_for_its_first_path_answers_it_as_when_all_are_loaded() -> None:
    whole = services.all_routes()
    whole.load()
    assert len(whole.methods) > 100
    for method in whole.methods.values():
        path = re.sub(r"\{[^}=]*=([^}]*)\}", r"\1", method.template).replace("**", "x").replace("*", "x")
        path = re.sub(r"\{[^}]*\}", "x", path)
        first = Routes(services.HOMES)
        assert first.match(method.verb, path, method.marks) == whole.match(method.verb, path, method.marks)


POOL = messages.message("google.cloud.aiplatform.v1.WorkerPoolSpec")


def test_a_record_holds_every_field_of_its_message() -> None:
    pool = Record(POOL, {})
    assert pool.replica_count == 0
    assert pool.machine_spec.accelerator_type == "ACCELERATOR_TYPE_UNSPECIFIED"
    assert pool.container_spec.env == []
    assert pool.is_empty()
    with pytest.raises(AttributeError, match="no field banana"):
        _ = pool.banana


@pytest.mark.parametrize(
    ("document", "empty"),
    [({"replicaCount": "0"}, True), ({"machineSpec": {}}, False), ({"replicaCount": "1"}, False)],
)
def test_a_record_is_empty_when_nothing_is_set_to_more_than_its_default(document: Any, empty: bool) -> None:
    assert Record(POOL, document).is_empty() is empty


def test_a_record_knows_which_arm_of_a_oneof_is_set() -> None:
    assert Record(POOL, {"pythonPackageSpec": {}}).one_of("task") == "python_package_spec"
    assert Record(POOL, {}).one_of("task") == ""
