"""`PlannedJob`: a plan in the hands of the trainer that can start it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from gputrain.code import folder_of
from gputrain.code.bundle import Survey, check, survey
from gputrain.display.table import Table, TableDisplay
from gputrain.job import Job
from gputrain.job.watcher import StopEvent
from gputrain.planning import Candidate, GcloudJob, Plan, Refusal
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import make_job_id
from gputrain.trainer.planner import Planner


class PlannedJob(TableDisplay):
    """What ``trainer.plan`` gives: a `Plan` to look at, and the job that `submit` makes of it.

    Nothing has been created or uploaded. A pickled copy is the `Plan` alone: all that can be looked at.

    >>> from gputrain import Trainer
    >>> planned = Trainer().plan("examples/train_plain_ddp.py", nproc_per_node=2)
    >>> planned.best.backend
    'local'
    """

    def __init__(self, plan: Plan, planner: Planner, job_id: str) -> None:
        self._plan = plan
        self.planner = planner
        self._job_id = job_id

    @property
    def plan(self) -> Plan:
        """The plan as data, as old as it is now."""
        return attrs.evolve(self._plan, shown_at=self.planner.now())

    def submit(self, *, idempotency_key: str | None = None, stop: StopEvent | None = None) -> Job:
        """Start the job on the best candidate that has room. Twice is once: it is the same job.

        A stale plan reads the facts of its candidates anew first; the order of choices stays what it was
        (GPUs, provisioning models, backends, regions), and within a region the zones are ranked again.

        Args:
            idempotency_key: as for `Trainer.submit`: the same job for the same key, in any process.
            stop: as for `Trainer.submit`.

        Raises:
            NoFitError: no candidate is left; it carries the refusals.
            NoPlacementError: no place had room; it carries the ledger of what was tried.
            QuotaExceededError: every quota is too small; nothing was tried.
            AccessError, RequestError, TransientError: as the only place that was tried answers.
        """
        job_id = self._job_id if idempotency_key is None else make_job_id(self.spec, idempotency_key)
        return self.planner.submit(self._plan, job_id, has_key=idempotency_key is not None, stop=stop)

    @property
    def requests(self) -> tuple[Mapping[str, Any], ...]:
        """What would be sent for the best candidate, as it goes over the wire; nothing is sent or uploaded.

        Raises:
            NoFitError: no candidate is left.
            SpecError: the code is not there, or something in its folder cannot travel.
        """
        return self.planner.requests(self._plan, self._job_id)

    def to_gcloud(self) -> GcloudJob:
        """The best candidate's job as a ``config.yaml`` and a gcloud command.

        Its code is uploaded, as the file names it; no job is made.

        Raises:
            NoFitError: no candidate is left.
            SpecError: gcloud has no such jobs on the backend of the best candidate.
            AccessError, RequestError: the bucket does not take the code.
        """
        return self.planner.gcloud(self._plan, self._job_id)

    def bundle(self) -> Survey:
        """What of the code would travel, and what stays behind and by which rule.

        Raises:
            SpecError: something in the folder cannot travel, as `submit` would say.
        """
        if self.spec.runs_image:
            return Survey(folder="", files=(), behind=())
        return check(survey(folder_of(self.spec)))

    @property
    def spec(self) -> TrainingSpec:
        """What was asked for."""
        return self._plan.spec

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every way it could run, best first."""
        return self._plan.candidates

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Every way it cannot, and why."""
        return self._plan.refusals

    @property
    def best(self) -> Candidate:
        """The candidate that `submit` asks first. Raises NoFitError where there is none."""
        return self._plan.best

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does not forbid it but should be known."""
        return self._plan.warnings

    def explain(self) -> str:
        """The plan in plain words."""
        return self.plan.explain()

    @property
    def table(self) -> Table:
        """The candidates as a table, the best dozen of them."""
        return self.plan.table

    def __reduce__(self) -> tuple[Any, ...]:
        return _data, (self._plan,)

    def __repr__(self) -> str:
        return f"<PlannedJob {self._job_id} {self._plan!r}>"

    def _parts(self) -> Sequence[Table]:
        return self.plan._parts()


def _data(plan: Plan) -> Plan:
    return plan
