"""Shared by all tests: state goes to a folder of the test, and nothing is shown."""

import gc
import itertools
import json
import os
import signal
import sys

import pytest

from tests import distributions

os.environ["GPUTRAIN_CATALOG"] = os.devnull  # the tables built in, whatever this machine's user has refreshed
_HOMES = itertools.count()


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


def pytest_collection_finish():
    """What is loaded by now stays, so no round of the garbage collector need walk over it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's own jobs: its home is made when something is kept there."""
    monkeypatch.setenv("GPUTRAIN_HOME", str(tmp_path_factory.getbasetemp() / f"home-{next(_HOMES)}"))


@pytest.fixture
def script(tmp_path):
    """Writes a script into a folder of its own and gives its path."""

    def write(text="print('hello')\n", name="train.py"):
        path = tmp_path / "code" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture(scope="session")
def slurmlike(tmp_path_factory):
    """A folder in which somebody else's distribution is installed, that brings a backend."""
    return distributions.install("gputrain_slurmlike", tmp_path_factory.mktemp("site"))


@pytest.fixture
def slurmlike_here(slurmlike, monkeypatch):
    """The same on this process's path."""
    monkeypatch.syspath_prepend(slurmlike)
    return slurmlike


def pytest_terminal_summary(terminalreporter):
    """The figures of tests/house/test_sizes.py, beside their limits."""
    rows = [
        row
        for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ()))
        for name, value in getattr(report, "user_properties", ())
        if name == "house" and report.when == "call"
        for row in json.loads(value)
    ]
    if rows:
        terminalreporter.section("sizes and walk (tests/house/sizes.toml)", sep="-")
        for figure, value, limit in sorted(rows):
            terminalreporter.write_line(f"{figure:<24} {value:>8,} of {limit:>8,}")
