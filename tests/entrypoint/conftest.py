"""Agents for the tests of this folder."""

import time

import pytest

from tests.patience import PATIENCE_S

from .nodes import Cluster


@pytest.fixture
def cluster(tmp_path):
    """Agents on loopback addresses of their own, ended with the test."""
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


@pytest.fixture
def until():
    """Wait for something to become true, and fail with a message when it does not."""

    def wait(is_true, what="it", within=PATIENCE_S):
        deadline = time.monotonic() + within
        while not is_true():
            assert time.monotonic() < deadline, f"{what} did not happen within {within} s"
            time.sleep(0.01)

    return wait
