"""A cloud of one's own: project, bucket, quota, and a backend that waits by moving the emulator's clock."""

import pytest

import gputrain_emulator
from gputrain.backends.vertex import VertexAI
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex.state import Vertex

REGION = "us-central1"


@pytest.fixture
def cloud():
    with gputrain_emulator.start() as running:
        running.world.part(Storage).add_bucket("my-bucket", location=REGION)
        yield running
        assert not running.dispatcher.failures


@pytest.fixture
def vertex(cloud):
    """The emulated Vertex AI, to arrange fates, stock and quota."""
    return cloud.world.part(Vertex)


@pytest.fixture
def make(cloud):
    """Makes backends; waiting moves the emulator's clock."""

    def build(**settings):
        given = {
            "project": "my-project",
            "region": None if "regions" in settings else REGION,
            "bucket": "gs://my-bucket",
            "service_account": "train@my-project.iam.gserviceaccount.com",
            "endpoints": cloud.endpoints,
            "credentials": cloud.credentials,
            "sleep": cloud.clock.advance,
            "now": cloud.clock.now,
        }
        return VertexAI(**{**given, **settings})

    return build


@pytest.fixture(params=["rest", "grpc"])
def backend(make, request):
    return make(transport=request.param)


@pytest.fixture
def code(tmp_path):
    """A folder with a script in it."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    return str(folder)
