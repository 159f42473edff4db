"""One suite, every backend: each is a world in which scripts run for real."""

import pytest

from gputrain.backends.local import Local
from tests.contract.emulated_compute import ComputeRoad, compute
from tests.contract.emulated_vertex import VertexRoad, vertex
from tests.road import Road


@pytest.fixture(params=["local", "vertex-rest", "vertex-grpc", "compute"])
def road(request, tmp_path):
    """The road over each backend in turn, with an empty world of its own."""
    if request.param == "local":
        yield Road(Local(gpus=0, root=tmp_path / "jobs"))
    elif request.param == "compute":
        with compute() as backend:
            yield ComputeRoad(backend)
    else:
        with vertex(request.param.removeprefix("vertex-")) as backend:
            yield VertexRoad(backend)


@pytest.fixture
def script(tmp_path):
    """Writes a script and gives its path."""

    def write(text, name="train.py"):
        path = tmp_path / "code" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    return write
