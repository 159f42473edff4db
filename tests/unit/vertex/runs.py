"""Jobs whose records lie in the emulated bucket; a launch, a restart and a cancel as a trainer makes them."""

import json

from gputrain.google import Objects
from gputrain.planning import candidates
from gputrain.runtime.contract import ENDED, SCHEMA
from gputrain.spec import TrainingSpec
from tests.support.attempts import Process

REGIONS = ["us-central1", "europe-west4", "asia-southeast1"]


class Runs(Process):
    """One process: a backend, and the jobs that it submits, looks at and cancels."""

    def __init__(self, backend, code, now, sleep):
        super().__init__(backend, now, sleep, script="train.py", source_dir=code, gpu="L4:2")

    def plan(self, spec):
        """Nothing is asked beforehand."""
        return candidates(spec, [self.backend.supply]).candidates

    def give_up_at(self, spec):
        """It does not wait for room: who reconciles does."""

    def reconcile(self, job_id="bert"):
        super().reconcile(job_id)
        return self.record(job_id)

    def until(self, holds, job_id="bert", rounds=100, every_s=30.0):
        """The record, reconciled again and again until something holds of it."""
        for _ in range(rounds):
            record = self.reconcile(job_id)
            if holds(record):
                return record
            self.sleep(every_s)
        raise AssertionError(record)

    def until_over(self, job_id="bert", **pace):
        return self.until(lambda record: record.has_ended, job_id, **pace)

    def request(self, record):
        """What launches the record's attempt, once more."""
        spec = TrainingSpec.from_dict(record.spec)
        (candidate, *_) = self.plan(spec)
        return self.backend.build_request(record, spec, record.attempt, candidate, self.code(record))


def tell(backend, job, result, rank=0):
    """Write the status in which a container of a custom job reports its end."""
    labels = job.document["labels"]
    folder = f"jobs/{labels['gputrain-job']}/{labels['gputrain-attempt']}"
    status = {"schema": SCHEMA, "phase": ENDED, "node_rank": rank, "result": result}
    objects = Objects(backend._access, "my-bucket")
    objects.write(f"{folder}/status-{rank}.json", json.dumps(status).encode(), if_generation=None)
