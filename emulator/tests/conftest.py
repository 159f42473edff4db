"""Emulated clouds for the tests of the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.cloud import storage

import gputrain_emulator
from emulator.tests import discovery
from emulator.tests.compute import Clients
from emulator.tests.vertex_jobs import client_of
from gputrain_emulator import Cloud
from gputrain_emulator.live import LiveMode
from gputrain_emulator.vertex import Settings, Vertex


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """A fresh cloud with a standing clock; the test fails if the emulator did, or spoke unlike Google."""
    with gputrain_emulator.start() as running:
        running.dispatcher.requests.keep_everything()
        yield running
        assert running.dispatcher.failures == []
        assert discovery.judge(running) == []


@pytest.fixture
def clients(cloud: Cloud) -> Clients:
    """Google's own clients of Compute Engine."""
    return Clients(cloud)


@pytest.fixture
def client(cloud: Cloud) -> Any:
    """Google's own client of custom jobs; other services' tests have one of theirs."""
    return client_of(cloud)


@pytest.fixture
def vertex(cloud: Cloud) -> Vertex:
    return cloud.world.part(Vertex)


@pytest.fixture
def live() -> Iterator[Cloud]:
    """A cloud whose guests are real, and quick to get their machines."""
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.attach(LiveMode(cloud.world, allow_unconfined=True))
        settings = cloud.compute.settings
        settings.provision_s = settings.staging_s = settings.delete_s = settings.quick_s = 0.02
        cloud.world.part(Vertex).settings = Settings(provision_s=0.02, start_s=0.02, cancel_s=10.0)
        yield cloud
        assert cloud.dispatcher.failures == []
        assert discovery.judge(cloud) == []


def storage_client_of(cloud: Cloud, credentials: Any = None) -> Any:
    """Google's own client of Cloud Storage, as the project's owner or somebody else."""
    return storage.Client(
        project=cloud.project,
        credentials=credentials or cloud.credentials,
        client_options={"api_endpoint": cloud.endpoints.storage},
    )


@pytest.fixture
def storage_client(cloud: Cloud) -> Any:
    return storage_client_of(cloud)


@pytest.fixture
def bucket(cloud: Cloud, storage_client: Any) -> Any:
    """The bucket ``bucket``, which is there."""
    cloud.add_bucket("bucket")
    return storage_client.bucket("bucket")
