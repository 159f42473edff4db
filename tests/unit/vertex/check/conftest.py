"""An emulated cloud that runs real ranks."""

from dataclasses import replace

import pytest

import gputrain_emulator
from gputrain_emulator.live import LiveMode
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex


@pytest.fixture
def cloud():
    with gputrain_emulator.start(wall_clock=True) as running:
        running.attach(LiveMode(running.world, allow_unconfined=True))
        running.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        service = running.world.part(Vertex)
        service.settings = replace(service.settings, provision_s=0.5, start_s=0.05, error_delay_s=1.0)
        yield running
