"""Ctrl-C in a submit to the cloud, on a real clock: said at once, over within 2 s of the second one."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import gputrain_emulator
from gputrain_emulator.faults import Delay, Trickle
from tests import present
from tests.unit.trainer.conftest import L4

CLIENT = """
import json, logging, sys, time
from google.oauth2.credentials import Credentials
from gputrain import Trainer
from gputrain.backends import registry
from gputrain.gcp import Endpoints
order = json.loads(sys.argv[1])
backend = registry.find(order["kind"])(
    "my-project", regions=["us-central1"], bucket="gs://my-bucket",
    endpoints=Endpoints(**order["endpoints"]), credentials=Credentials(token=order["token"]),
)
print("ready", flush=True)
try:
    print(Trainer(backend).submit(order["script"], **order["spec"], idempotency_key="k").uri, flush=True)
except KeyboardInterrupt as stop:
    print("interrupted:", stop, flush=True)
"""


PROMPT_S = 10.0
"""Far less than what it must not wait for. 2 s are promised: `tests/laws/test_struck_clients.py` counts what
a client waits for, which no busy machine makes longer."""


class Client:
    """A submit in a process of its own; each line that it says with the moment at which it came."""

    def __init__(self, cloud, kind, script):
        from gputrain.gcp import Api

        order = {
            "kind": kind, "script": script, "spec": L4, "token": cloud.world.callers.issue(cloud.owner),
            "endpoints": {api.value: getattr(cloud.endpoints, api.value, "") for api in Api},
        }  # fmt: skip
        words = [sys.executable, "-c", CLIENT, json.dumps(order)]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        self.said = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.said.append((time.monotonic(), line.strip()))

    def press(self):
        os.kill(self.process.pid, signal.SIGINT)
        return time.monotonic()

    def end(self):
        self.process.wait(timeout=60)
        self._reader.join(timeout=10)
        return time.monotonic()

    def moment_of(self, words):
        return next(at for at, line in self.said if words in line)


@pytest.fixture
def cloud():
    with gputrain_emulator.start(wall_clock=True) as running:
        running.add_bucket("my-bucket", location="us-central1")
        yield running


def holds(wanted):
    """Wait until that is so."""
    deadline = time.monotonic() + 60
    while not wanted():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text("print('hello')\n")
    return str(tmp_path / "train.py")


@pytest.mark.parametrize(
    ("kind", "create", "undo"),
    [
        ("compute", "compute.zoneOperations.get", "compute.instances.delete"),
        ("vertex", "aiplatform.customJobs.create", "aiplatform.customJobs.cancel"),
    ],
)
def test_what_is_withdrawn_is_said_at_once_and_a_second_ctrl_c_ends_it(cloud, script, kind, create, undo):
    present.backend(kind)
    cloud.fail(undo, Delay(seconds=30), times=None)
    if kind == "vertex":
        cloud.fail(create, Trickle(seconds=40))  # the job is made, its answer drips
    else:
        cloud.compute.settings.provision_s = 300.0
    client = Client(cloud, kind, script)
    holds(lambda: cloud.vertex.jobs or any(one.method == create for one in cloud.requests))
    first = client.press()
    holds(lambda: any("withdrawing" in line for _, line in client.said))
    time.sleep(0.5)  # its undoing is on its way
    second = client.press()
    ended = client.end()
    assert client.moment_of("withdrawing") - first < PROMPT_S
    assert ended - second < PROMPT_S
    (told,) = [line for _, line in client.said if line.startswith("interrupted:")]
    assert "it may be there: end it with gputrain.attach(" in told
    assert cloud.compute.vms or cloud.vertex.jobs
