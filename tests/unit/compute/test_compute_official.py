"""The official client: fed with what the plan shows, strictly, and absent from a process that watches."""

import subprocess
import sys
import uuid

import pytest

import gputrain_emulator
from gputrain.backends.compute import ComputeEngine
from gputrain.errors import RequestError
from gputrain.trainer import Trainer
from tests.support.clouds import settings

ZONE = "us-central1-a"


@pytest.mark.parametrize("change", [{"gpuTurbo": True}, {"count": "many"}])
def test_a_field_that_google_does_not_know_is_refused_before_anything_is_sent(cloud, backend, change):
    body = {"count": "1", "minCount": "1", "perInstanceProperties": {"vm-0": {}}}
    with pytest.raises(RequestError, match="takes no such request") as caught:
        backend._calls.start(ZONE, "bulkInsert", {**body, **change}, str(uuid.uuid4()))
    assert next(iter(change)) in caught.value.why
    assert not cloud.requests


WATCHER = """
import sys
from google.oauth2.credentials import Credentials
import gputrain
from gputrain.google import Endpoints
url, token, uri = sys.argv[1:]
reach = {"endpoints": Endpoints(compute=url, storage=url), "credentials": Credentials(token=token)}
backend = gputrain.ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach)
job = gputrain.Trainer(backend).attach(uri)
job.refresh(), list(job.logs())
print("google.cloud.compute_v1" in sys.modules)
"""


def test_a_process_that_only_watches_does_without_the_client(code):
    with gputrain_emulator.start() as cloud:
        cloud.add_bucket("my-bucket")
        backend = ComputeEngine(**settings(cloud, regions=["us-central1"]))
        job = Trainer(backend).submit(code, gpu="L4:1", max_run_duration="1h")
        words = [sys.executable, "-c", WATCHER, cloud.endpoints.url]
        words += [cloud.world.callers.issue(cloud.owner), job.uri]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "False"
