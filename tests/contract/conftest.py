"""One suite, every backend: each is a world in which scripts run for real."""

import pytest

from gputrain.backends.local import Local
from tests.road import Road


@pytest.fixture(params=["local"])
def backend(request, tmp_path):
    """Each backend in turn, with an empty world of its own."""
    return {"local": lambda: Local(gpus=0, root=tmp_path / "jobs")}[request.param]()


@pytest.fixture
def road(backend):
    return Road(backend)


@pytest.fixture
def script(tmp_path):
    """Writes a script and gives its path."""

    def write(text, name="train.py"):
        path = tmp_path / "code" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    return write
