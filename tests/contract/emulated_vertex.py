"""Vertex AI for the contract suite: the emulator in live mode; its replicas are processes of this machine."""

from contextlib import contextmanager
from dataclasses import replace

from gputrain import VertexAI
from tests.contract.clouds import MACHINE, CloudRoad, live_cloud


class VertexRoad(CloudRoad):
    """Custom jobs in two regions."""

    KIND = VertexAI

    def __init__(self, cloud):
        super().__init__(cloud, regions=["us-central1", "us-east4"])
        self._change(provision_s=0.05, start_s=0.05, cancel_s=5.0, error_delay_s=1.0)

    def preempt(self, _job):
        for one in list(self.cloud.vertex.jobs.values()):
            # new machines take longer than a look, as Google's do
            one.life.settings = replace(one.life.settings, provision_s=3.0)
            self.cloud.vertex.preempt(one)

    def exhaust(self, place):
        self._change(max_wait_s=0.5, capacity_retry_s=0.2)
        self.cloud.vertex.set_stock(MACHINE, 0, region=place)

    def delay(self):
        self._change(provision_s=60.0)

    def _change(self, **settings):
        self.cloud.vertex.settings = replace(self.cloud.vertex.settings, **settings)


@contextmanager
def world(_name, _folder=None):
    with live_cloud(allow_unconfined=True) as cloud:
        yield VertexRoad(cloud)
