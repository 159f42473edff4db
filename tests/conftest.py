"""Shared by all tests: state goes to a folder of the test, and nothing is shown."""

import os

import pytest

from tests import distributions, present

os.environ["GPUTRAIN_CATALOG"] = os.devnull  # the tables built in, whatever this machine's user has refreshed


def pytest_ignore_collect(collection_path):
    """A test of a backend that is not in this tree is left out, and a folder whose conftest needs it."""
    file = collection_path / "conftest.py" if collection_path.is_dir() else collection_path
    if present.ABSENT and file.suffix == ".py" and file.exists() and present.needs(file) & present.ABSENT:
        return True
    return None


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's own jobs."""
    monkeypatch.setenv("GPUTRAIN_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="session")
def slurmlike(tmp_path_factory):
    """A folder in which somebody else's distribution is installed, that brings a backend."""
    return distributions.install("gputrain_slurmlike", tmp_path_factory.mktemp("site"))


@pytest.fixture
def slurmlike_here(slurmlike, monkeypatch):
    """The same on this process's path."""
    monkeypatch.syspath_prepend(slurmlike)
    return slurmlike
