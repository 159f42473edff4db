"""One suite, every backend: each is a world in which scripts run for real.

A world is imported when it is asked for, so that the suite of one backend needs no other.
"""

from importlib import import_module

import pytest

WORLDS = {
    "local": ("gputrain.backends.local", "tests.contract.this_machine", ()),
    "slurm": ("gputrain_slurmlike", "tests.contract.partitions", pytest.mark.check),
    "compute": ("gputrain.backends.compute", "tests.contract.emulated_compute", pytest.mark.check),
    "vertex-rest": ("gputrain.backends.vertex", "tests.contract.emulated_vertex", pytest.mark.check),
    "compute-booted": ("gputrain.backends.compute", "tests.contract.booted_compute", pytest.mark.machines),
}
"""What must be there, the module whose ``world`` gives the road, and its tier, none for `make test`."""


@pytest.fixture(params=[pytest.param(name, marks=marks) for name, (*_, marks) in WORLDS.items()])
def road(request, tmp_path):
    """The road over each backend in turn, with an empty world of its own."""
    if request.param == "slurm":
        request.getfixturevalue("slurmlike_here")
    needed, home, _ = WORLDS[request.param]
    pytest.importorskip(needed)
    with import_module(home).world(request.param, tmp_path) as found:
        yield found


@pytest.fixture
def script(tmp_path):
    """Writes a script and gives its path."""

    def write(text, name="train.py"):
        path = tmp_path / "code" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    return write
