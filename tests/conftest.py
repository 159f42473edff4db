"""Shared by all tests: state goes to a folder of the test, and nothing is shown."""

import os

import pytest

os.environ["GPUTRAIN_CATALOG"] = os.devnull  # the tables built in, whatever this machine's user has refreshed


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's own jobs."""
    monkeypatch.setenv("GPUTRAIN_HOME", str(tmp_path_factory.mktemp("home")))
