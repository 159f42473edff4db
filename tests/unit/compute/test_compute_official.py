"""The official client: fed with what the plan shows, strictly, and absent from a process that watches."""

import json
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

import gputrain_emulator
from gputrain.backends.compute import ComputeEngine
from gputrain.backends.compute.calls import Calls, message, plain
from gputrain.errors import RequestError, TransientError
from gputrain.gcp import Access
from gputrain.spec import TrainingSpec
from tests.unit.steps import Steps

GOLDEN = Path(__file__).parents[2] / "golden" / "compute"
ZONE = "us-central1-a"


def order(name):
    """The method and the body of a golden file, whose job document is spread out for its readers."""
    sent = json.loads((GOLDEN / f"{name}.json").read_text())
    resource = sent["resource"]
    _pack(resource.get("instanceProperties", resource))
    return sent["method"], resource


def _pack(instance):
    for item in instance["metadata"]["items"]:
        item["value"] = item["value"] if isinstance(item["value"], str) else json.dumps(item["value"])


def bodies(name):
    """All that is sent for a golden file: one body, or the three of a gang in the queue."""
    sent = json.loads((GOLDEN / f"{name}.json").read_text())
    if "template" not in sent:
        return [order(name)]
    parts = ("template", sent["template"]), ("group", sent["group"]), ("resizeRequests", sent["resource"])
    _pack(sent["template"]["properties"])
    return list(parts)


@pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.json")))
def test_the_client_sends_the_request_that_was_shown_and_nothing_else(name):
    for method, body in bodies(name):
        assert _numbers_as_text(plain(message(method, body))) == _numbers_as_text(body)


def _numbers_as_text(value):
    """Google's JSON takes a number for its text and the other way round."""
    if isinstance(value, dict):
        return {key: _numbers_as_text(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_numbers_as_text(one) for one in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.parametrize("change", [{"gpuTurbo": True}, {"count": "many"}])
def test_a_field_that_google_does_not_know_is_refused_before_anything_is_sent(cloud, backend, change):
    method, body = order("one-node")
    with pytest.raises(RequestError, match="takes no such request") as caught:
        backend._calls.start(ZONE, method, {**body, **change}, str(uuid.uuid4()))
    assert next(iter(change)) in caught.value.why
    assert not cloud.requests


def test_what_arrives_is_what_was_completed(cloud, road, code):
    spec = TrainingSpec(script=code, gpu="L4:1", num_nodes=2, max_run_duration="1h")
    request = road.backend.complete(road.request(spec, job_id="bert-1"))
    road.backend.create(request)
    (sent,) = [one for one in cloud.requests if one.method == "compute.instances.bulkInsert"]
    assert _numbers_as_text(json.loads(sent.body)) == _numbers_as_text(request.body["resource"])


def test_the_client_repeats_nothing_by_itself(cloud, make):
    pauses = []
    backend = make(sleep=pauses.append)
    cloud.fail("compute.zoneOperations.get", "C35", times=None)
    with pytest.raises(TransientError):
        backend._calls.operation(ZONE, "operation-1")
    assert len(cloud.requests) == len(pauses) + 1


def test_many_operations_under_way_are_looked_at_with_one_list(cloud):
    cloud.quota("NVIDIA_L4_GPUS", 100)
    cloud.quota("GPUS_ALL_REGIONS", 100)
    waits = threading.Barrier(8, action=lambda: cloud.clock.advance(60))
    access = Access(
        project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints, now=cloud.clock.now,
        sleep=lambda _: waits.wait(),  # all of them wait before any of them looks
    )  # fmt: skip
    calls = Calls(access=access)
    operations = []
    for number in range(8):
        _, body = order("one-node")
        body["perInstanceProperties"] = {f"many-{number}": {}}
        operations.append(calls.start(ZONE, "bulkInsert", body, str(uuid.uuid4())))
    before = len(cloud.requests)
    ends = []
    threads = [
        threading.Thread(target=lambda one=one: ends.append(calls.end_of(ZONE, one))) for one in operations
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one["status"] for one in ends] == ["DONE"] * 8
    seen = [one.method for one in cloud.requests[before:]]
    assert set(seen) <= {"compute.zoneOperations.list", "compute.zoneOperations.get"}
    assert len(seen) < 8


WATCHER = """
import sys
from google.oauth2.credentials import Credentials
import gputrain
from gputrain import ComputeEngine
from gputrain.backends.base import JobRef
from gputrain.gcp import Endpoints
url, token, uri = sys.argv[1:]
reach = {"endpoints": Endpoints(compute=url, storage=url), "credentials": Credentials(token=token)}
backend = ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach)
ref = JobRef.parse(uri)
backend.observe(ref), backend.logs(ref), backend.find()
print("google.cloud.compute_v1" in sys.modules)
"""


def test_a_process_that_only_watches_does_without_the_client(code):
    with gputrain_emulator.start() as cloud:
        cloud.add_bucket("my-bucket")
        backend = ComputeEngine(
            "my-project", regions=["us-central1"], bucket="gs://my-bucket", endpoints=cloud.endpoints,
            credentials=cloud.credentials, sleep=cloud.clock.advance, now=cloud.clock.now,
        )  # fmt: skip
        ref = Steps(backend).submit(TrainingSpec(script=code, gpu="L4:1", max_run_duration="1h"))
        words = [sys.executable, "-c", WATCHER, cloud.endpoints.url]
        words += [cloud.world.callers.issue(cloud.owner), ref.uri]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"
