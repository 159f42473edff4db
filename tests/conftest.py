"""Shared by all tests: state goes to a folder of the test, and nothing is shown."""

import os

import pytest

from tests import distributions

os.environ["GPUTRAIN_CATALOG"] = os.devnull  # the tables built in, whatever this machine's user has refreshed


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
