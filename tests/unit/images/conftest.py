"""A cloud with the APIs of images switched on, and trainers on it that wait by moving its clock."""

from functools import partial

import pytest

from gputrain import ComputeEngine, Trainer, VertexAI
from tests.support.clouds import REGION, emulated


@pytest.fixture
def cloud():
    with emulated() as running:
        for api in ("cloudbuild", "artifactregistry"):
            running.enable_api(api)
        yield running


@pytest.fixture(params=[VertexAI, partial(ComputeEngine, external_ip=True)], ids=["vertex", "compute"])
def backend(cloud, request):
    return request.param(
        "my-project", regions=[REGION], bucket="gs://my-bucket", endpoints=cloud.endpoints,
        credentials=cloud.credentials, sleep=cloud.clock.advance, now=cloud.clock.now,
    )  # fmt: skip


@pytest.fixture
def trainer(backend):
    return Trainer(backend)


@pytest.fixture
def context(tmp_path):
    """A folder with a Dockerfile and a file that it copies."""
    folder = tmp_path / "image"
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM nvidia/cuda:12.8.1-runtime-ubuntu24.04\nCOPY tool.py /\n")
    (folder / "tool.py").write_text("pass\n")
    return folder


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "code" / "train.py"
    path.parent.mkdir()
    path.write_text("print('hello')\n")
    return path
