"""How the points of an experiment ended, and what is asked of their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from gputrain import causes
from gputrain.errors import GputrainError, RequestError, StoppedError
from gputrain.experiments.book import ExperimentRecord, Retried
from gputrain.experiments.points import Point
from gputrain.job import Job, Result
from gputrain.job.stopping import StopEvent
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import make_job_id
from gputrain.tables import Shown

TO_RETRY = (State.FAILED, State.EXPIRED)
"""How a job ends that `Experiment.retry_failed` submits once more."""
ANEW = "map what is still wanted under another name="


class Submits(Protocol):
    """What an experiment needs of its trainer."""

    def submit(
        self, entry: TrainingSpec, *, idempotency_key: str | None = None, stop: StopEvent | None = None
    ) -> Job: ...

    def jobs(self, *, name: str = "") -> Iterable[Job]: ...


@attrs.define(eq=False)
class OnlyWatches:
    """The trainer of an experiment that cannot submit here: jobs that others have submitted are found."""

    trainer: Submits
    refusal: RequestError

    def submit(self, entry: TrainingSpec, *, idempotency_key: str | None = None, **_: Any) -> Any:
        """The job of that key. RequestError: there is none that began."""
        for job in self.jobs(name=make_job_id(entry, idempotency_key)):
            if not never_began(job):
                return job
        raise self.refusal

    def jobs(self, *, name: str = "") -> Iterable[Any]:
        """Those of the trainer."""
        return self.trainer.jobs(name=name)


@attrs.frozen(kw_only=True)
class PointOutcome(Shown):
    """How one point ended."""

    point: Point
    job: Job | None
    """None: it could not be submitted."""
    error: GputrainError | None
    """Why there is no result; None where there is one."""
    value: Result | None = attrs.field(repr=False)

    @property
    def result(self) -> Result:
        """The result. Raises the error, where there is one."""
        if self.error is not None:
            raise self.error
        assert self.value is not None
        return self.value


def never_began(job: Job) -> bool:
    """Whether whoever submitted it died before it could ask for machines."""
    return job.failure is not None and job.failure.kind == causes.UNSTARTED.kind


def fault_of(call: Callable[[], object]) -> GputrainError | None:
    """Make a call; the error where that did not work."""
    try:
        call()
    except GputrainError as error:
        return error
    return None


def may_cost(book: ExperimentRecord, base: TrainingSpec, listed: Iterable[Job]) -> Sequence[float | None]:
    """US dollars that each point may still come to, over all of its jobs; None: nobody knows.

    What ended and is not retried has cost what it has cost; anything else may yet use its whole limit.
    """
    found = {job.id: job for job in listed}
    told: list[float | None] = []
    for (spec, key), point, own in zip(book.asks(base), book.points, book.limits_usd):
        job, before = found.get(make_job_id(spec, key)), book.retries(point).used_usd
        limit = base.max_cost if own is None else own
        cost = None if job is None or job.cost_usd is None else before + job.cost_usd
        if job is not None and job.state.is_terminal and job.state not in TO_RETRY and cost is not None:
            told.append(cost)
        else:  # more than its limit, where a platform was slow to stop it
            told.append(None if limit is None else max(limit, cost or before))
    return told


def retried(book: ExperimentRecord, number: int, job: Job) -> Retried:
    """What its book says of a point whose job is to be made once more."""
    before, limit = book.retries(book.points[number]), book.limits_usd[number]
    # a cost that nobody can tell may be the whole share: rather too little is spent than too much. Nobody
    # can tell it of a job whose machines ran to their limit without a word of their ranks
    is_told = job.cost_usd is not None and (job.state is not State.EXPIRED or job.started_at is not None)
    used = (job.cost_usd if is_told else limit) or 0.0
    return Retried(times=before.times + 1, used_usd=before.used_usd + used)


def of(
    rows: Sequence[tuple[Point, Job | None]], errors: Mapping[int, GputrainError]
) -> tuple[PointOutcome, ...]:
    """How each point ended: its job did, or it got none, and why."""
    return tuple(_of(point, job, errors.get(number)) for number, (point, job) in enumerate(rows))


def _of(point: Point, job: Job | None, error: GputrainError | None) -> PointOutcome:
    value = None
    if job is not None:
        try:
            value = job.result()
        except GputrainError as why:
            error = why
    return PointOutcome(point=point, job=job, error=error, value=value)


def cancelled() -> RequestError:
    """Why a point of a cancelled experiment has no job."""
    return RequestError("it was not submitted: the experiment was cancelled", fix=ANEW)


def stopped(name: str, why: str) -> StoppedError:
    """Why nobody waits for an experiment any more."""
    if not why:
        return StoppedError(f"the waiting for {name} was stopped; its jobs go on")
    what = f"{name} is not watched here any more, and its jobs go on"
    return StoppedError(what, why=why, fix=f"take it up again: trainer.experiment({name!r}).wait()")
