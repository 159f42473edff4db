"""An emulated cloud whose machines are processes of this machine, and come at once."""

from contextlib import contextmanager

import gputrain_emulator
from gputrain_emulator.live import LiveMode
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

    def forget(self, job):
        self.cloud.storage.objects.delete("my-bucket", f"records/{job.id}.json")

    def read(self, beginning, end):
        """The texts of the objects in the bucket whose names begin and end so."""
        objects = self.cloud.storage.objects.walk("my-bucket")
        found = [one for one in objects if one.name.startswith(beginning) and one.name.endswith(end)]
        return [one.content.read().decode() for one in found]
