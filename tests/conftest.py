"""Shared by all tests: state goes to a folder of the test, and nothing is shown."""

import itertools
import os
import signal
import sys
from pathlib import Path

import pytest

from tests import distributions, present

os.environ["GPUTRAIN_CATALOG"] = os.devnull  # the tables built in, whatever this machine's user has refreshed
_HOMES = itertools.count()

FAST = ("house", "unit", "security", "contract", "examples", "simulation/test_first_schedules.py")
"""Folders and files of what `make test` runs; all the rest is `make check`'s."""
EXAMPLES = ("[train_plain_ddp.py]", "[vertex_two_nodes.py]", "[ladder_story.py]")
"""Of the examples, one of each platform."""
SLOW = (
    "contract/test_stacks.py",
    "examples/test_notebooks.py",
    "house/test_docs.py",
    "house/test_wheel.py",
    "security/test_bill_of_materials.py",
    "security/test_what_is_read.py",
    "security/test_where_ranks_meet.py",
    "unit/cli/test_cli_page.py",
    "unit/compute/test_compute_live.py",
    "unit/compute/test_compute_watch.py",
    "unit/compute/test_recipes.py",
    "unit/keeper/test_packages.py",
    "unit/local/test_local_requirements.py",
    "unit/local/test_local_silence.py",
    "unit/test_removal.py",
    "unit/test_types.py",
    "unit/vertex/test_vertex_live.py",
    "unit/vertex/test_vertex_memory.py",
)
"""Files of those folders that take long: they start clouds, build wheels, watch memory, or many jobs, wait
for what agents tell every 15 s, make environments, read hostile logs to their ends, start ranks that meet by
torch, run pages of the docs, or have a type checker read all."""
THOROUGH = (
    "security/test_canaries.py",
    "unit/cli/test_streams.py",
    "unit/compute/test_compute_budgets.py",
    "unit/compute/test_compute_gang_steps.py",
    "unit/compute/test_compute_leaves_nothing.py",
    "unit/compute/test_compute_queue.py",
    "unit/compute/test_compute_queue_ends.py",
    "unit/compute/test_compute_queue_steps.py",
    "unit/experiments/test_blind.py",
    "unit/local/test_local_faults.py",
    "unit/local/test_local_struck.py",
    "unit/refresh/test_refresh_road.py",
    "unit/staging/test_container_side.py",
    "unit/trainer/test_ctrl_c.py",
    "unit/trainer/test_hostile_record.py",
    "unit/vertex/test_vertex_killed.py",
)
"""Files that go through all that may befall a thing, step by step: of `make check` and of `make mutants`."""


@pytest.hookimpl(trylast=True)  # on top of the hook that pytest sets
def pytest_configure(config):
    """A finalizer that runs while a document of a test stands at the recursion limit fails by that alone."""
    # Whoever is started in the background ignores it, and all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    told = sys.unraisablehook

    def hook(unraisable):
        if not issubclass(unraisable.exc_type, RecursionError):
            told(unraisable)

    sys.unraisablehook = hook
    config.add_cleanup(lambda: setattr(sys, "unraisablehook", told))


def pytest_collection_modifyitems(items):
    """Mark as slow what a person does not wait for: by its path; of the contract all worlds but `Local`."""
    here = Path(__file__).parent
    for item in items:
        path = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        world = getattr(item, "callspec", None) and item.callspec.params.get("road")
        is_kept = _is_quick(path)
        if path.startswith("contract"):
            is_kept = is_kept and world == "local"
        elif path.startswith("examples"):
            is_kept = is_kept and (item.name.endswith(EXAMPLES) or "fits_on_a_page" in item.name)
        if not is_kept:
            item.add_marker("slow")


def _is_quick(path):
    return path.startswith(FAST) and path not in SLOW + THOROUGH


def pytest_ignore_collect(collection_path, config):
    """A test of a backend that is not in this tree is left out, and a folder whose conftest needs it.

    So is a file of which all is slow where nothing slow is wanted: its imports would be waited for.
    """
    path = collection_path.relative_to(Path(__file__).parent).as_posix()
    if "not slow" in config.option.markexpr and path.endswith(".py") and not _is_quick(path):
        return True
    file = collection_path / "conftest.py" if collection_path.is_dir() else collection_path
    if present.ABSENT and file.suffix == ".py" and file.exists() and present.needs(file) & present.ABSENT:
        return True
    return None


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's own jobs: its home is made when something is kept there."""
    monkeypatch.setenv("GPUTRAIN_HOME", str(tmp_path_factory.getbasetemp() / f"home-{next(_HOMES)}"))


@pytest.fixture(scope="session")
def slurmlike(tmp_path_factory):
    """A folder in which somebody else's distribution is installed, that brings a backend."""
    return distributions.install("gputrain_slurmlike", tmp_path_factory.mktemp("site"))


@pytest.fixture
def slurmlike_here(slurmlike, monkeypatch):
    """The same on this process's path."""
    monkeypatch.syspath_prepend(slurmlike)
    return slurmlike
