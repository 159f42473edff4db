"""A VM whose job has a record: its code, its document, and what it writes."""

import json

from gputrain.backends.compute.request import metadata
from gputrain.code.bundle import pack
from gputrain.google.storage import BucketPrefix, upload
from gputrain.runtime import zipapp
from tests.patience import until
from tests.support.records import OTHER, OURS, Records

ATTEMPT = OURS.attempt.id
BUCKET = BucketPrefix.parse("gs://my-bucket")
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


class Job:
    """A job's record, its code, and the VM of one attempt."""

    def __init__(self, cloud, folder, image=None):
        self.cloud, self.image = cloud, image
        records = Records(cloud)
        self.access, self.write = records.access, records.write
        (folder / "train.py").write_text(TRAIN)
        self.code = pack(str(folder), made={".gputrain/agent.pyz": zipapp.build()})
        upload(self.access, BUCKET, "code/x.tar.gz", self.code.data)

    def boot(self, *argv):
        """Start the VM of the attempt."""
        name = f"bert-{ATTEMPT}-0"
        ends = self.cloud.endpoints
        order = {
            "storage": ends.storage, "secretmanager": ends.storage, "bucket": "my-bucket",
            "object": "code/x.tar.gz", "sha256": self.code.sha256, "argv": ["train.py", *argv],
        }  # fmt: skip
        job = {
            "schema": 1, "job_id": "bert", "record": "records/bert.json", "attempt": ATTEMPT,
            "names": [name], "zone": "us-central1-a", "project": "my-project", "max_run_s": 600,
            "gpus": 1, "driver_wait_s": 0, "boot_wait_s": 300, "is_queued": False, "image": self.image,
            "fabric": None, "python": None, "storage": ends.storage, "compute": ends.compute,
            "bucket": "my-bucket", "folder": "jobs/bert/", "checkpoints": "gs://my-bucket/jobs/bert/checkpoints",
            "output": "gs://my-bucket/jobs/bert/output", "order": order,
            "env": {"GPUTRAIN_JOB_ID": "bert", "GPUTRAIN_NUM_NODES": "1", "GPUTRAIN_NPROC_PER_NODE": "1"},
        }  # fmt: skip
        zone = f"{ends.compute}/compute/v1/projects/my-project/zones/us-central1-a"
        vm = {
            "name": name,
            "machineType": "zones/us-central1-a/machineTypes/g2-standard-4",
            "scheduling": {"onHostMaintenance": "TERMINATE", "automaticRestart": False},
            "disks": [{
                "boot": True, "autoDelete": True,
                "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"},
            }],
            "networkInterfaces": [{}],
            "serviceAccounts": [{
                "email": "gputrain@my-project.iam.gserviceaccount.com",
                "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
            }],
            "metadata": {"items": metadata({**job, "os_login": True})},
        }  # fmt: skip
        self.access.post(f"{zone}/instances", action="make a VM", json=vm)

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
