"""Emulated clouds for the tests of the emulator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import gputrain.emulator
from gputrain.emulator import Cloud
from tests.emulator import discovery


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """A fresh cloud with a standing clock; the test fails if the emulator did, or spoke unlike Google."""
    with gputrain.emulator.start() as running:
        running.dispatcher.log_bytes = 1 << 30
        yield running
        assert running.dispatcher.failures == []
        assert discovery.judge(running) == []
