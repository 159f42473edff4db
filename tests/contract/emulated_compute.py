"""Compute Engine for the contract suite: the emulator in live mode; its VMs boot the real startup script."""

from contextlib import contextmanager

from gputrain import ComputeEngine
from tests.contract.clouds import MACHINE, CloudRoad, live_cloud


class ComputeRoad(CloudRoad):
    """Virtual machines of one region."""

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
        self.forget(job)


@contextmanager
def world(_name, _folder):
    """The road in a cloud of its own."""
    with live_cloud() as cloud:
        yield ComputeRoad(cloud)
