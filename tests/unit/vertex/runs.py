"""Jobs whose records lie in the emulated bucket; a launch, a restart and a cancel as a trainer makes them."""

import json
from datetime import datetime, timezone

from gputrain.entrypoint import contract
from gputrain.jobstore import JobRecord, JobStore
from gputrain.orchestration.context import Context
from gputrain.orchestration.launcher import reconcile, submit
from gputrain.orchestration.options import candidates_left, option_of
from gputrain.orchestration.steps import cancel
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec

REGIONS = ["us-central1", "europe-west4", "asia-southeast1"]


class Runs:
    """One process: a backend, and the jobs that it submits, looks at and cancels."""

    def __init__(self, backend, code, now, sleep):
        self.backend, self.code, self.sleep = backend, code, sleep
        self.context = Context(
            jobs=JobStore(self.backend.documents),
            backends={"vertex": self.backend},
            code=self._sent,
            candidates_left=lambda one: candidates_left(one, self._spec(one), [backend.supply]),
            refresh=tuple,
            now=lambda: datetime.fromtimestamp(now(), timezone.utc),
            sleep=sleep,
        )

    def _spec(self, record):
        return TrainingSpec.from_dict(record.spec)

    def _sent(self, record, _name):
        bundle = self.backend.package(self._spec(record), record.job_id)
        self.backend.upload(bundle)
        return bundle

    def submit(self, job_id="bert", **fields):
        spec = TrainingSpec(**{"script": "train.py", "source_dir": self.code, "gpu": "L4:2", **fields})
        plan = candidates(spec, [self.backend.supply]).candidates
        first = JobRecord(job_id=job_id, spec=spec.to_dict(), options=tuple(map(option_of, plan)))
        return submit(self.context, first, plan, None)

    def record(self, job_id="bert"):
        return self.context.jobs.read(job_id).record

    def status(self, job_id="bert"):
        return self.backend.inspect_many([self.record(job_id)])[job_id]

    def reconcile(self, job_id="bert"):
        reconcile(self.context, job_id)
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
        (candidate, *_) = candidates(self._spec(record), [self.backend.supply]).candidates
        bundle = self.context.code(record, "vertex")
        return self.backend.build_request(record, self._spec(record), record.attempt, candidate, bundle)

    def cancel(self, grace_s=30.0, job_id="bert"):
        return cancel(self.context, job_id, grace_s)


def result(**document):
    """The last line of an agent."""
    return contract.RESULT_MARKER + json.dumps({contract.R_NODE_RANK: 0, **document})
