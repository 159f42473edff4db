"""Tests that call the emulated cloud in process see what they would see over its socket."""

import json

import pytest
import requests

import gputrain_emulator
from gputrain_emulator import faults
from tests.support.in_process import in_process

OBJECTS = "storage/v1/b/my-bucket/o"
ZONE = "compute/v1/projects/my-project/zones/us-central1-a"
REQUESTS = (
    ("GET", ZONE, None),
    ("HEAD", ZONE, None),
    ("GET", f"{ZONE}?fields=name,region", None),
    ("GET", f"{ZONE}?fields=nothing", None),
    ("GET", f"{ZONE}/instances/gone", None),
    ("GET", "compute/v1/projects/my-project/aggregated/machineTypes?filter=name%3Da2-highgpu-1g", None),
    ("POST", "compute/v1/projects/my-project/zones/us-central1-a/instances", {"colour": "blue"}),
    ("POST", "upload/storage/v1/b/my-bucket/o?uploadType=media&name=a&ifGenerationMatch=7", "text"),
    ("GET", f"{OBJECTS}/kept?alt=media", None),
    ("HEAD", f"{OBJECTS}/kept?alt=media", None),
    ("GET", f"{OBJECTS}/gone", None),
    ("PATCH", "no/such/path", None),
    ("POST", "batch/storage/v1", "--b--"),
    ("GET", "_emulator/health", None),
)


@pytest.fixture
def cloud():
    with gputrain_emulator.start() as running:
        running.add_bucket("my-bucket")
        yield running


@pytest.fixture
def ask(cloud):
    """Sends a request to the cloud as its owner."""
    cloud.credentials.apply(headers := {})

    def send(verb, path, body=None):
        sent = json.dumps(body) if isinstance(body, dict) else body
        return requests.request(verb, f"{cloud.server.url}/{path}", data=sent, headers=headers, timeout=60)

    return send


def test_an_answer_in_process_is_the_one_over_the_socket(cloud, ask):
    ask("POST", "upload/storage/v1/b/my-bucket/o?uploadType=media&name=kept", "words")
    over_the_socket = [_seen(ask(*request)) for request in REQUESTS]
    with in_process(cloud):
        cloud.server.stop()
        called = [_seen(ask(*request)) for request in REQUESTS]
    different = [one for one in zip(REQUESTS, over_the_socket, called, strict=True) if one[1] != one[2]]
    assert different == []


def test_a_fault_of_the_wire_strikes_in_process_too(cloud, ask):
    with in_process(cloud):
        cloud.fail("compute.zones.get", faults.DropBeforeCommit())
        with pytest.raises(requests.ConnectionError):
            ask("GET", ZONE)
        assert ask("GET", ZONE).ok


def _seen(answer):
    headers = {name.lower(): value for name, value in answer.headers.items()}
    kept = {name: headers.get(name) for name in ("content-type", "date", "etag", "x-goog-generation")}
    length = answer.request.method == "HEAD" and headers["content-length"]
    return answer.status_code, answer.reason, kept, length, answer.content
