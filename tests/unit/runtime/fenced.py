"""A VM whose job has a record: its attempt, as a client launches it, and what it writes."""

import json
import time

import attrs

from gputrain.backends.compute import ComputeEngine
from tests.patience import until
from tests.support.attempts import Process
from tests.support.clouds import REGION, settings
from tests.support.records import OTHER, OURS, Records

ATTEMPT = OURS.attempt.id
TRAIN = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["GPUTRAIN_CHECKPOINT_DIR"])
def save(*_):
    (folder / "saved").write_text("whole")
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
(folder / "begun").write_text(os.environ["GPUTRAIN_ATTEMPT"])
if len(sys.argv) > 1:
    time.sleep(600)
"""


class Job(Process):
    """The VM of one attempt, and the record of its job."""

    def __init__(self, cloud, folder, image=None):
        clock = {"sleep": time.sleep, "now": time.time}
        own = {"regions": [REGION], "check_network": False, "driver_wait_s": 0, **clock}
        backend = ComputeEngine(**settings(cloud, **own))
        (folder / "train.py").write_text(TRAIN)
        fields = {"script": str(folder / "train.py"), "image": image, "max_run_duration": "10m"}
        super().__init__(backend, time.time, time.sleep, gpu="L4:1", **fields)
        self.cloud, self.write = cloud, Records(cloud).write

    def boot(self, *argv):
        """Launch the attempt, whatever the record says."""
        spec = self.spec(args=argv)
        record, (best, *_) = self.first("bert", spec)
        attempt = attrs.evolve(OURS.attempt, names=(f"bert-{ATTEMPT}-0",))
        self.backend.launch(self.backend.build_request(record, spec, attempt, best, self.code(record)))

    def objects(self, under="jobs/"):
        """The objects that the VM wrote, with their contents."""
        with self.cloud.world.lock:
            found = list(self.cloud.storage.objects.walk("my-bucket"))
            return {one.name: one.content.read() for one in found if one.name.startswith(under)}

    def written(self):
        """The names of what it wrote but its log, which may be sent at any moment before it is superseded."""
        return {name for name in self.objects() if "/logs/" not in name}

    def until(self, so):
        until(so, shown=self.objects)

    def ended(self):
        """The status in which the VM tells its end, once it has gone."""
        self.until(lambda: not self.cloud.compute.vms)
        return json.loads(self.objects()[f"jobs/bert/{ATTEMPT}/status-0.json"])

    def has_begun(self):
        return self.objects().get("jobs/bert/checkpoints/begun") == ATTEMPT.encode()

    def is_superseded_while_it_trains(self):
        """Its ranks are killed and save nothing, and only its end is written."""
        self.write(OURS)
        self.boot("for long")
        self.until(self.has_begun)
        before = self.written()
        self.write(OTHER)
        ended = self.ended()
        assert (ended["phase"], ended["why"]) == ("ended", "superseded")
        assert self.written() == before
