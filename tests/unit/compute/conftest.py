"""A cloud of one's own: project, bucket, and a backend that waits by moving the emulator's clock."""

import pytest

from gputrain.backends.compute import ComputeEngine
from tests.support.clock import jumping
from tests.support.clouds import REGION, emulated
from tests.unit.steps import Steps


@pytest.fixture
def cloud():
    """The test fails if anything that was said departs from Google's published documents."""
    with emulated(is_judged=True) as running:
        yield running


@pytest.fixture
def make(cloud):
    """Makes backends; waiting moves the emulator's clock."""

    def build(**settings):
        given = {
            "project": "my-project",
            "regions": [REGION],
            "bucket": "gs://my-bucket",
            "endpoints": cloud.endpoints,
            "credentials": cloud.credentials,
            "sleep": jumping(cloud),
            "now": cloud.clock.now,
        }
        return ComputeEngine(**{**given, **settings})

    return build


@pytest.fixture
def backend(make):
    return make()


@pytest.fixture
def road(backend):
    return Steps(backend)


@pytest.fixture
def code(tmp_path):
    """The path of a script in a folder of its own."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    return str(folder / "train.py")
