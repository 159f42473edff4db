"""Vertex AI for the contract suite: the emulator in live mode; its replicas are processes of this machine."""

from contextlib import contextmanager
from dataclasses import replace

import gputrain_emulator
from gputrain.backends.vertex import VertexAI
from gputrain_emulator.live import LiveMode
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex
from tests.road import Road


class VertexRoad(Road):
    """The road of specs that name no GPU: Vertex AI sells nothing without, so each rank is given one."""

    def candidate(self, spec):
        return super().candidate(spec.replace(gpu=f"L4:{spec.nproc_per_node or 1}"))


@contextmanager
def vertex(transport):
    """A backend over one transport, in a cloud of its own in which machines come at once."""
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.attach(LiveMode(cloud.world, allow_unconfined=True))
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        service = cloud.world.part(Vertex)
        service.settings = replace(
            service.settings, provision_s=0.05, start_s=0.05, cancel_s=5.0, error_delay_s=1.0
        )

        class Emulated(VertexAI):
            @classmethod
            def for_ref(cls, ref):
                return cls(
                    ref.project, ref.place, bucket="gs://my-bucket", transport=transport,
                    endpoints=cloud.endpoints, credentials=cloud.credentials,
                )  # fmt: skip

        yield Emulated(
            "my-project", "us-central1", bucket="gs://my-bucket", transport=transport,
            endpoints=cloud.endpoints, credentials=cloud.credentials,
        )  # fmt: skip
        assert not cloud.dispatcher.failures


@contextmanager
def world(name, _folder):
    """The road over the transport that the name ends with."""
    with vertex(name.removeprefix("vertex-")) as backend:
        yield VertexRoad(backend)
