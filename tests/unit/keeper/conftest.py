"""An emulated cloud with a bucket, as a VM reaches it."""

import pytest

from tests.support.vm import cloud_of_a_vm


@pytest.fixture
def cloud(monkeypatch):
    """An emulated cloud with an empty bucket, and a metadata server that speaks for a VM there."""
    with cloud_of_a_vm(monkeypatch) as cloud:
        yield cloud


@pytest.fixture
def at_once(monkeypatch):
    """A call that is not answered is not made again."""
    monkeypatch.setattr("gputrain.entrypoint.cloud.PAUSES_S", (0,))
