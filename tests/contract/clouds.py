"""Emulated clouds in live mode: their machines are processes of this machine, or boot, and come at once."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

import gputrain_emulator
from gputrain import ComputeEngine, VertexAI
from gputrain_emulator.live import USERLAND, LiveMode, why_no_userland
from tests.road import Road

MACHINE = "g2-standard-4"


@contextmanager
def live_cloud(userland="", **settings):
    """A cloud of its own.

    userland: the image that its virtual machines boot; without one they stand in for it.
    """
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.attach(LiveMode(cloud.world, userland=userland, **settings))
        cloud.add_bucket("my-bucket")
        times = cloud.compute.settings
        times.provision_s = times.staging_s = times.delete_s = times.quick_s = times.rollback_s = 0.1
        yield cloud
        assert not cloud.dispatcher.failures


class CloudRoad(Road):
    """Jobs on one service of a cloud. A spec that names no GPU is given one for each rank."""

    def __init__(self, cloud, **settings):
        self.cloud = cloud
        self.settings = {"bucket": "gs://my-bucket", **settings}
        super().__init__()
        self.environment = {"GPUTRAIN_ENDPOINT": cloud.url_of(cloud.owner)}

    def setup(self):
        settings = dict(self.settings)
        made = f"{self.KIND.__name__}('my-project', **{settings})"
        return f"import gputrain\ntrainer = gputrain.Trainer(gputrain.{made})"

    def preemptible(self):
        return {"max_restarts": 1, "provisioning_model": "spot"}

    def backend(self, tenant=""):
        own = {"bucket": f"{self.settings['bucket']}/{tenant}"} if tenant else {}
        reach = {"endpoints": self.cloud.endpoints, "credentials": self.cloud.credentials}
        return self.KIND("my-project", **{**self.settings, **own}, **reach)

    def fields(self, fields):
        return {"gpu": f"L4:{fields.get('nproc_per_node', 1)}", **fields}

    def movable(self):
        return {"machine_type": MACHINE}

    def living(self):
        return [meter.resource for meter in self.cloud.ledger.meters if meter.until is None]

    def begun(self):
        return len(self.cloud.ledger.meters)


class ComputeRoad(CloudRoad):
    """Virtual machines of one region."""

    WAITS_FOR_MACHINES = True
    KIND = ComputeEngine
    HAS_GPUS = True

    def __init__(self, cloud):
        super().__init__(cloud, regions=["us-central1"], poll_s=0.2)

    def preempt(self, _job):
        for vm in list(self.cloud.compute.vms.values()):
            self.cloud.preempt(vm.name)

    def exhaust(self, place):
        self.cloud.stock(place, MACHINE, 0)

    def delay(self):
        self.cloud.compute.settings.provision_s = 3.0

    def abandon(self, job):
        self.cloud.storage.objects.delete("my-bucket", f"records/{job.id}.json")


class VertexRoad(CloudRoad):
    """Custom jobs in two regions."""

    KIND = VertexAI

    def __init__(self, cloud):
        super().__init__(cloud, regions=["us-central1", "us-east4"])
        self._change(provision_s=0.05, start_s=0.05, cancel_s=5.0, error_delay_s=1.0)

    def preempt(self, _job):
        for one in list(self.cloud.vertex.jobs.values()):
            # new machines take longer than a look, as Google's do
            one.settings = replace(one.settings, provision_s=3.0)
            self.cloud.vertex.preempt(one)

    def exhaust(self, place):
        self._change(max_wait_s=0.5, capacity_retry_s=0.2)
        self.cloud.vertex.set_stock(MACHINE, 0, region=place)

    def delay(self):
        self._change(provision_s=60.0)

    def _change(self, **settings):
        self.cloud.vertex.settings = replace(self.cloud.vertex.settings, **settings)


@contextmanager
def compute(_folder):
    with live_cloud() as cloud:
        yield ComputeRoad(cloud)


@contextmanager
def compute_that_boots(_folder):
    """VMs with systemd and Google's agent; skipped, with the reason, where none can boot."""
    reason = why_no_userland(USERLAND)
    if reason is not None:
        pytest.skip(f"no machine to boot: {reason}")
    with live_cloud(USERLAND) as cloud:
        yield ComputeRoad(cloud)


@contextmanager
def vertex(_folder):
    with live_cloud(allow_unconfined=True) as cloud:
        yield VertexRoad(cloud)
