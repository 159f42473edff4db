"""One suite, every backend: each is a world in which scripts run for real."""

from importlib import import_module

import pytest

WORLDS = {
    "local": ("processes", "this_machine", ()),
    "slurm": ("partitions", "cluster", pytest.mark.check),
    "compute": ("clouds", "compute", pytest.mark.check),
    "vertex-rest": ("clouds", "vertex", pytest.mark.check),
    "compute-booted": ("clouds", "compute_that_boots", pytest.mark.machines),
}
"""The module and the function that gives the road, and its tier, none for `make test`."""


@pytest.fixture(params=[pytest.param(name, marks=marks) for name, (*_, marks) in WORLDS.items()])
def road(request, tmp_path):
    """The road over each backend in turn, with an empty world of its own."""
    if request.param == "slurm":
        request.getfixturevalue("slurmlike_here")  # before its module is imported
    module, world, _ = WORLDS[request.param]
    with getattr(import_module(f"tests.contract.{module}"), world)(tmp_path) as found:
        yield found
