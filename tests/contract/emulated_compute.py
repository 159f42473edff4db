"""Compute Engine for the contract suite: the emulator in live mode; its VMs boot the real startup script."""

from contextlib import contextmanager

import gputrain_emulator
from gputrain.backends.compute import ComputeEngine
from gputrain_emulator.live import LiveMode
from gputrain_emulator.storage import Storage
from tests.road import Road


class ComputeRoad(Road):
    """The road of specs that say only what to run: a GPU for each rank stands for the machine."""

    def candidate(self, spec):
        return super().candidate(spec.replace(gpu=f"L4:{spec.nproc_per_node or 1}"))


@contextmanager
def live_cloud(userland=""):
    """An emulated cloud in which VMs are processes of this machine and come at once.

    userland: the image that they boot; without one they stand in for it.
    """
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.attach(LiveMode(cloud.world, userland=userland))
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        quick = cloud.compute.settings
        quick.provision_s = quick.staging_s = quick.delete_s = quick.quick_s = quick.rollback_s = 0.1
        yield cloud
        assert not cloud.dispatcher.failures


@contextmanager
def compute(userland=""):
    """A backend in a cloud of its own."""
    with live_cloud(userland) as cloud:
        reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "poll_s": 0.2}

        class Emulated(ComputeEngine):
            @classmethod
            def for_ref(cls, ref):
                return cls(ref.project, regions=["us-central1"], bucket="gs://my-bucket", **reach)

        yield Emulated("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach)


@contextmanager
def world(_name, _folder):
    """The road in a cloud of its own."""
    with compute() as backend:
        yield ComputeRoad(backend)
