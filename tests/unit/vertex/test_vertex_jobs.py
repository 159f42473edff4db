"""The calls to the job service, made by many at once."""

import gc
import subprocess
import sys

import pytest

from gputrain.backends.vertex import jobs

TENANTS = """
import gc, sys, threading
from google.oauth2.credentials import Credentials
from gputrain.backends.vertex.jobs import JobService
from gputrain.backends.vertex.settings import Transport
from gputrain.gcp import Access, Endpoints

sys.setswitchinterval(1e-5)
assert "google.cloud.aiplatform_v1" not in sys.modules
start, wrong = threading.Barrier(8), []

def tenant(number):
    endpoints = Endpoints(aiplatform="http://127.0.0.1:9")
    access = Access(project=f"p-{number}", credentials=Credentials(token="x"), endpoints=endpoints)
    jobs = JobService(access=access, transport=Transport.REST)
    start.wait()
    try:
        jobs._client("us-central1")
    except Exception as error:
        wrong.append(error)

threads = [threading.Thread(target=tenant, args=(number,)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(wrong, gc.isenabled())
"""


def test_tenants_that_start_at_once_each_get_a_whole_client():
    """Google's library imports itself in circles, and a second thread would find it half loaded."""
    done = subprocess.run([sys.executable, "-c", TENANTS], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[] True", done.stdout + done.stderr


@pytest.fixture
def collection():
    """Whether this process collects garbage is as it was, afterwards."""
    is_on = gc.isenabled()
    yield
    (gc.enable if is_on else gc.disable)()


@pytest.mark.parametrize(("begin", "is_on"), [(gc.enable, True), (gc.disable, False)], ids=["on", "off"])
def test_garbage_is_collected_after_the_library_was_loaded_as_before(collection, begin, is_on):
    begin()
    jobs._library.__wrapped__()
    assert gc.isenabled() is is_on
