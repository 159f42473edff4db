"""Replicas of Vertex AI in a real engine: the image is on this computer, and nothing is pulled."""

import subprocess
from dataclasses import replace

import pytest

import gputrain_emulator
from gputrain import State, Trainer, VertexAI
from gputrain_emulator.live import LiveMode
from gputrain_emulator.vertex import Vertex
from tests.machines.containers import engine
from tests.machines.containers.conftest import NAME
from tests.machines.containers.test_compute_containers import MEET, said
from tests.patience import until

SAVE = """
import os, signal, time
def save(*_):
    with open("/gcs/my-bucket/saved", "w") as file:
        file.write(str(os.listdir("/etc")))
    os._exit(75)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def local_image(images, tmp_path_factory):
    """A `docker` first on PATH whose engine has the image."""
    name = f"{images.removeprefix('http://')}/{NAME}:1"
    with engine.running(tmp_path_factory.mktemp("engine")) as programs, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(programs), prepend=":")
        subprocess.run(["docker", "pull", "--quiet", name], check=True, capture_output=True)
        yield name


@pytest.fixture
def submit(local_image, tmp_path):
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.attach(LiveMode(cloud.world))
        cloud.add_bucket("my-bucket")
        service = cloud.world.part(Vertex)
        quick = {"provision_s": 0.05, "start_s": 0.05, "error_delay_s": 0.5, "cancel_s": 5.0}
        service.settings = replace(service.settings, **quick)
        backend = VertexAI(
            cloud.project, "us-central1", bucket="gs://my-bucket",
            endpoints=cloud.endpoints, credentials=cloud.credentials,
        )  # fmt: skip

        def send(text, **fields):
            (tmp_path / "train.py").write_text(text)
            return Trainer(backend).submit(str(tmp_path / "train.py"), image=local_image, **fields)

        yield send
        assert not cloud.dispatcher.failures


def test_replicas_run_in_the_image_and_find_each_other(submit):
    values = {"SPACES": " a  b ", "LINES": "one\ntwo", "HASH": "#1", "QUOTES": '"it\'s"'}
    check = f"import os\nassert {{name: os.environ[name] for name in {list(values)}}} == {values}\n"
    job = submit(check + MEET, gpu="L4:2", num_nodes=2, env=values)
    assert job.wait(timeout=100) is State.SUCCEEDED, said(job)
    assert said(job).count("image: made of this computer's files /usr/bin/python3 kept") == 4
    assert said(job).count("rank 0 met rank") == 3


def test_a_cancel_lets_the_rank_save_under_gcs(submit):
    job = submit(SAVE, gpu="L4:1")
    until(lambda: "ready" in said(job))
    job.cancel()
    assert job.wait(timeout=60) is State.CANCELLED
    again = submit("print('found', open('/gcs/my-bucket/saved').read())", gpu="L4:1")
    assert again.wait(timeout=60) is State.SUCCEEDED, said(again)
    assert "'image'" in said(again)  # what only the image has in /etc
