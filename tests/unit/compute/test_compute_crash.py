"""A client that dies at any step leaves one gang or none, and nothing that bills for ever."""

import itertools

import pytest

from gputrain.backends.compute import ComputeEngine
from gputrain.emulator.storage import Storage
from gputrain.gcp.credentials import LockedCredentials
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from tests.road import Road

LIMIT_S = 3600


class Mortal(LockedCredentials):
    """Credentials of a client that dies before its n-th call: whatever came before is done."""

    def __init__(self, inner, calls):
        super().__init__(inner)
        self.left = calls

    def before_request(self, request, method, url, headers):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        super().before_request(request, method, url, headers)


def submit(make, code, count, **settings):
    spec = TrainingSpec(script=code, gpu="L4:1", num_nodes=count, max_run_duration=f"{LIMIT_S}s")
    return Road(make(**settings)).submit(spec, job_id="law-1")


@pytest.mark.parametrize("count", [1, 2, 8])
def test_whenever_the_client_dies_the_next_one_makes_or_finds_one_gang(cloud, make, code, count):
    cloud.quota("NVIDIA_L4_GPUS", 1000)
    cloud.quota("GPUS_ALL_REGIONS", 1000)
    for calls in itertools.count():
        before = len(cloud.ledger.events("create", "/instances/"))
        died = False
        try:
            submit(make, code, count, credentials=Mortal(cloud.credentials, calls))
        except KeyboardInterrupt:
            died = True
        ref = submit(make, code, count)
        backend = ComputeEngine.for_ref(ref)
        assert backend.name == "compute"
        assert len(cloud.compute.vms) == count
        assert len(cloud.ledger.events("create", "/instances/")) - before == count
        assert make().observe(ref).state is State.PROVISIONING
        make().cancel(ref)
        cloud.clock.advance(300)
        assert make().observe(ref).state is State.CANCELLED
        assert not cloud.compute.vms
        _forget(cloud)
        if not died:
            break
    assert calls > 8


def _forget(cloud):
    """Empty the bucket, so that the same job can be submitted as a new one."""
    objects = cloud.world.part(Storage).objects
    for stored in list(objects.walk("my-bucket")):
        objects.delete("my-bucket", stored.name)


@pytest.mark.parametrize("count", [1, 8])
def test_a_client_that_dies_for_ever_leaves_nothing_that_bills(cloud, make, code, count):
    cloud.quota("NVIDIA_L4_GPUS", 1000)
    cloud.quota("GPUS_ALL_REGIONS", 1000)
    for calls in itertools.count():
        try:
            submit(make, code, count, credentials=Mortal(cloud.credentials, calls))
            break
        except KeyboardInterrupt:
            cloud.clock.advance(LIMIT_S + 900)
            assert not cloud.compute.vms
            assert not cloud.compute.resources["disks"]
            _forget(cloud)
    assert calls > 8
