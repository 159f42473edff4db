"""A process that submits jobs, looks at them and takes their next steps, as a trainer does."""

from datetime import datetime, timezone

from gputrain.jobstore import JobRecord, JobStore
from gputrain.orchestration.launcher import act, submit
from gputrain.orchestration.look import Context, cancel, look
from gputrain.orchestration.options import candidates_left, option_of, remaining
from gputrain.planning import candidates, rank
from gputrain.spec import TrainingSpec


class Process:
    """It has a backend of its own, and remembers nothing of other processes."""

    def __init__(self, backend, now, sleep, **fields):
        """``fields``: of every spec, unless a submit has others."""
        self.backend, self.sleep, self.fields = backend, sleep, fields
        self.context = Context(
            jobs=JobStore(backend.documents),
            backends={backend.name: backend},
            code=self.code,
            candidates_left=self._left,
            refresh=tuple,
            now=lambda: datetime.fromtimestamp(now(), timezone.utc),
            sleep=sleep,
        )

    def spec(self, **fields):
        return TrainingSpec(**{**self.fields, **fields})

    def plan(self, spec):
        """The places in the order in which they are asked."""
        found = candidates(spec, [self.backend.supply]).candidates
        return rank(found, self.backend.availability(found))

    def first(self, job_id, spec):
        """A record without an attempt, and its plan."""
        plan = self.plan(spec)
        return JobRecord(job_id=job_id, spec=spec.to_dict(), options=tuple(map(option_of, plan))), plan

    def submit(self, job_id="bert", **fields):
        spec = self.spec(**fields)
        return submit(self.context, *self.first(job_id, spec), self.give_up_at(spec))

    def give_up_at(self, spec):
        """Until when a submit waits for room."""
        longest = spec.max_wait_duration
        return None if longest is None else self.context.now() + longest

    def record(self, job_id="bert"):
        return self.context.jobs.read(job_id).record

    def status(self, job_id="bert"):
        return self.backend.inspect_many([self.record(job_id)])[job_id]

    def reconcile(self, job_id="bert"):
        return act(self.context, look(self.context, job_id))

    def cancel(self, job_id="bert", grace_s=30):
        return cancel(self.context, job_id, grace_s)

    def code(self, record, _backend=""):
        bundle = self.backend.package(TrainingSpec.from_dict(record.spec), record.job_id)
        self.backend.upload(bundle)
        return bundle

    def _left(self, record):
        spec = remaining(record)
        return () if spec is None else candidates_left(record, spec, [self.backend.supply])
