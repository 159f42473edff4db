"""Shared by all tests: state goes to a folder of the test, and nothing is shown."""

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """No test reads or writes the user's own jobs."""
    monkeypatch.setenv("GPUTRAIN_HOME", str(tmp_path_factory.mktemp("home")))
