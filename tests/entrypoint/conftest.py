"""Agents for the tests of this folder."""

import pytest

from tests import patience
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
        patience.until(is_true, seconds=within, shown=lambda: f"{what} did not happen within {within} s")

    return wait
