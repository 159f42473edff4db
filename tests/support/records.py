"""The record of one job, as a client writes it; two attempts that it may name."""

from gputrain.google.storage import BucketPrefix
from gputrain.jobstore import Attempt, BucketStore, JobRecord, JobStore, Option
from tests.support.clouds import client

OPTION = Option(backend="compute", place="us-central1-a", region="us-central1")
BETWEEN = JobRecord(job_id="bert", spec={})
OURS = BETWEEN.begin(Attempt(id="k3x9q2ab", option=OPTION, names=("bert",)))
OTHER = BETWEEN.begin(Attempt(id="p0f2m8dd", option=OPTION, names=("bert",)))


class Records:
    """Those of a place in an emulated cloud."""

    def __init__(self, cloud, place="gs://my-bucket"):
        self.access = client(cloud)
        self._jobs = JobStore(BucketStore(self.access, BucketPrefix.parse(place)))

    def write(self, record):
        there = self._jobs.read(record.job_id)
        self._jobs.swap(record, there.version if there else 0)
