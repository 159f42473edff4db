"""`Plan`: the ways a spec could run, best first, why the others cannot, and the job that `submit` makes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs

from gputrain import catalog
from gputrain.code import folder_of
from gputrain.code.bundle import Survey, check, survey
from gputrain.display.table import Table, TableDisplay
from gputrain.errors import (
    CapacityError,
    FieldError,
    GputrainError,
    NoFitError,
    NoPlacementError,
    QuotaExceededError,
    RequestError,
    Scope,
)
from gputrain.planning import Candidate, Failover, GcloudJob, Outcome, Refusal, few_places, is_open
from gputrain.planning.explain import explain, shortages, warnings
from gputrain.planning.failover import StopReason
from gputrain.quota import deciding
from gputrain.spec import Image, TrainingSpec, format_duration
from gputrain.times import picked

if TYPE_CHECKING:
    from gputrain.job import Job
    from gputrain.job.watcher import StopEvent
    from gputrain.trainer.planner import Planner

STALE_AFTER = timedelta(minutes=10)
SHOWN_CANDIDATES = 12
LONGEST_FIX = 100
"""Characters of a fix that still fits a cell."""
_MOST_SUBJECTS = 3
"""Of so many refusals for one reason the subjects are named."""
_MORE_PLACES = "allow more GPU kinds, provisioning models or regions"
_WAIT = "give max_wait_duration to wait for room"
_COLUMNS = ("#", "backend", "place", "machine", "runs on", "model", "quota", "$/h", "at most $", "for")


@attrs.frozen(kw_only=True, repr=False)
class Plan(TableDisplay):
    """Every way a spec could run, best first, and why the others cannot. Nothing has been created.

    A plan compares, pickles and shows itself as a table. A pickled copy shows the same and submits nothing.

    >>> from gputrain import Trainer
    >>> plan = Trainer().plan("examples/train_plain_ddp.py", nproc_per_node=2)
    >>> plan.best.backend
    'local'
    """

    spec: TrainingSpec
    candidates: tuple[Candidate, ...]
    """Every way it could run, best first."""
    refusals: tuple[Refusal, ...]
    """Every way that the spec allows and no backend can run, and why."""
    made_at: datetime
    faults: tuple[FieldError, ...] = ()
    """What is wrong with the code: `submit` would refuse it."""
    notes: tuple[str, ...] = ()
    """What may be wrong with it; they are among the `warnings`."""
    builds: Image | None = None
    """The image that `submit` builds first; the spec names it already."""
    uploads: str = ""
    """How many files and bytes are uploaded, and what an ignore file leaves out; empty: nothing is sent."""
    outputs: str = ""
    """Where results of a job called JOB would lie; empty: not known."""
    late: tuple[Candidate, ...] = ()
    """Those that had no room a short while ago: `submit` tries them last."""
    sorted_by: str = attrs.field(default="order", eq=False)
    """Of its table: ``order``, in which `submit` tries the candidates, or ``price``."""
    shows_all: bool = attrs.field(default=False, eq=False)
    """Whether its table shows every candidate, or the first dozen."""
    job_id: str = attrs.field(default="", eq=False)
    """Of the job that `submit` makes without a key."""
    _planner: Planner | None = attrs.field(default=None, eq=False)

    def submit(self, *, idempotency_key: str | None = None, stop: StopEvent | None = None) -> Job:
        """Start the job on the best candidate that has room. Submitting twice gives the same job.

        A stale plan reads its facts anew first. The order of GPUs, provisioning models, backends and regions
        stays, and the zones of a region are ranked again.

        Args:
            idempotency_key: as for `Trainer.submit`: the same job for the same key, in any process.
            stop: as for `Trainer.submit`.

        Raises:
            NoFitError: no candidate is left; it carries the refusals.
            NoPlacementError: no place had room; it carries the ledger of what was tried.
            QuotaExceededError: every quota is too small; nothing was tried.
            AccessError, RequestError, TransientError: the error of the only place that was tried.
        """
        return self._starter.submit(self, idempotency_key, stop=stop)

    @property
    def requests(self) -> tuple[Mapping[str, Any], ...]:
        """The request body for the best candidate. Nothing is sent or uploaded.

        Raises:
            NoFitError: no candidate is left.
            SpecError: the code is not there, or something in its folder cannot be uploaded.
        """
        return (self._starter.request(self)[0].body,)

    def to_gcloud(self) -> GcloudJob:
        """The best candidate's job as a ``config.yaml`` and a gcloud command.

        Its code is uploaded, as the file names it; no job is made.

        Raises:
            NoFitError: no candidate is left.
            SpecError: gcloud has no such jobs on the backend of the best candidate.
            AccessError, RequestError: the bucket does not take the code.
        """
        return self._starter.gcloud(self)

    def bundle(self) -> Survey:
        """Which files of the code are uploaded, and which are left out by which rule.

        Raises:
            SpecError: something in the folder cannot be uploaded.
        """
        if self.spec.runs_image:
            return Survey(folder="", files=(), behind=())
        return check(survey(folder_of(self.spec)))

    @property
    def _starter(self) -> Planner:
        """What submits it. Raises RequestError for a pickled copy."""
        if self._planner is None:
            raise RequestError("a pickled plan cannot be submitted", fix="plan again with trainer.plan(...)")
        return self._planner

    def check_fits(self) -> None:
        """Raise NoFitError, with what would work, unless there is a candidate."""
        if self.candidates:
            return
        subjects: dict[tuple[str, str], list[str]] = {}  # a wrong region is one reason for many machines
        for one in self.refusals:
            subjects.setdefault((one.backend, one.why), []).append(one.subject)
        what = f"nothing can run {self.spec.title} as asked:"
        for (backend, why), each in subjects.items():
            more = f" and {len(each) - _MOST_SUBJECTS} more" if len(each) > _MOST_SUBJECTS else ""
            what += f"\n  {backend}: {', '.join(each[:_MOST_SUBJECTS])}{more}: {why}"
        fixes = dict.fromkeys(one.fix for one in self.refusals if one.fix)
        raise NoFitError(what, fix="; or ".join(fixes), refusals=self.refusals)

    @property
    def best(self) -> Candidate:
        """The candidate that `submit` tries first: the first whose quota is not known to be too small.

        Those that had no room a short while ago come last. Raises NoFitError where there is none.
        """
        self.check_fits()
        return min(filter(is_open, self.candidates), key=self.late.__contains__, default=self.candidates[0])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does not forbid a candidate but should be known: an image that cannot run its GPU, say."""
        places = ", ".join(dict.fromkeys(one.place for one in self.late))
        late = [f"asked last, as there was no room a short while ago: {places}"] if places else []
        return (*self.notes, *late, *warnings(self.spec, self.candidates))

    def is_stale(self, now: datetime) -> bool:
        """Whether its facts are older than ten minutes: quota and capacity may have changed since."""
        return now - self.made_at > STALE_AFTER

    @property
    def age(self) -> str:
        """When the facts were read, and until when they count."""
        until = self.made_at + STALE_AFTER
        read = f"facts read {self.made_at:%Y-%m-%d %H:%M} UTC"
        if self._planner is not None and self.is_stale(self._planner.now()):
            return f"{read}, stale since {until:%H:%M}: submit() reads them anew"
        return f"{read}, good until {until:%H:%M}"

    def explain(self) -> str:
        """The plan in sentences: what would run where, at what price, by which quotas, and what cannot."""
        return "\n".join(explain(self))

    @property
    def table(self) -> Table:
        """The candidates as a table, the best dozen of them; those without a known price share a row."""
        numbered = list(enumerate(self.candidates, start=1))
        if self.sorted_by == "price":
            numbered.sort(key=lambda one: float("inf") if (usd := one[1].price_usd_h) is None else usd)
        rows = list(_rows(numbered))
        shown = rows if self.shows_all else rows[:SHOWN_CANDIDATES]
        caption = [f"{len(rows) - len(shown)} more with --all"] if len(shown) < len(rows) else []
        caption += filter(None, [_price_sources(self.candidates), self.age, self.uploads])
        outputs = f"outputs: {self.outputs}" if self.outputs else ""
        below = [*shortages(self.candidates), outputs, self.cheapest_elsewhere]
        return Table(
            title=f"Plan for {self.spec.title}", columns=_COLUMNS, rows=shown,
            right=("#", "$/h", "at most $"), caption="\n".join(filter(None, ["; ".join(caption), *below])),
        )  # fmt: skip

    @property
    def cheapest_elsewhere(self) -> str:
        """The cheapest region that was not asked for, in a sentence; empty where no price is known."""
        asked = {one.region for one in self.candidates}
        found: set[tuple[float, str]] = set()
        for one in self.candidates:
            if one.gpu is None or one.provisioning_model is None or one.price is None:
                continue
            with suppress(GputrainError):  # somebody else's backend may sell what the catalog lacks
                (shape,) = catalog.shapes(one.gpu, one.gpu_count, machine_type=one.machine_type)
                for price in catalog.prices(shape):
                    is_of_model = price.provisioning_model is one.provisioning_model
                    if price.is_whole and price.region not in asked and is_of_model:
                        where = f"{price.region}, {one.gpus}, {price.provisioning_model}"
                        found.add((price.usd_h * one.num_nodes, where))
        if not found:
            return ""
        usd_h, where = min(found)
        return f"cheapest region that was not asked for: {where}, ${usd_h:,.2f}/h on Compute Engine"

    @property
    def refusal_table(self) -> Table:
        """The refusals of what the spec asked for, with what would work; a long fix stands below, once."""
        long = list(dict.fromkeys(one.fix for one in self.refusals if len(one.fix) > LONGEST_FIX))
        marks = {fix: f"[{number}] below" for number, fix in enumerate(long, start=1)}
        below, scripts = [], dict[str, tuple[int, str]]()
        for number, fix in enumerate(long, start=1):
            head, _, script = fix.partition("\n")
            region = next(iter(re.findall(r"--region (\S+)", script)), "")
            first, its_region = scripts.setdefault(script.replace(f" {region} ", " "), (number, region))
            if first != number:
                script = f"as [{first}]" + (f", with --region {region}" if region != its_region else "")
            below.append(f"[{number}] {head}\n{script}".rstrip().replace("\n", "\n    "))
        return Table(
            title="Refused", columns=("backend", "what", "why", "what would work"),
            rows=[(one.backend, one.subject, one.why, marks.get(one.fix, one.fix)) for one in self.refusals],
            caption="\n".join(below),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON types: times in ISO 8601, prices in US dollars, unknown is None."""
        return {
            "title": self.spec.title,
            "made_at": self.made_at.isoformat(),
            "candidates": [one.to_dict() for one in self.candidates],
            "refusals": [picked(one, "backend subject why fix") for one in self.refusals],
            **picked(self, "faults warnings uploads"),
            "outputs": self.outputs or None,
            "builds": None if self.builds is None else self.builds.to_dict(),
        }

    def __repr__(self) -> str:
        best = self.candidates[:1] and self.best
        first = f", best {best.place} {best.machine_type} by {best.backend}" if best else ""
        ways = "1 way" if len(self.candidates) == 1 else f"{len(self.candidates)} ways"
        return f"<Plan for {self.spec.title}: {ways}{first}>"

    def _parts(self) -> Sequence[Table]:
        warned = Table(title="Warnings", columns=("",), rows=[(f"- {one}",) for one in self.warnings])
        rows = [(one.field, one.problem or one.value, one.expected, one.fix) for one in self.faults]
        wrong = Table(title="Faults of the code", columns=("what", "is", "allowed", "fix"), rows=rows)
        parts = (self.table, wrong, warned, self.refusal_table)
        return tuple(part for part in parts if part.rows) or (self.table,)


def _rows(numbered: Sequence[tuple[int, Candidate]]) -> Iterator[tuple[str, ...]]:
    """A row for each candidate; those of one kind whose price is unknown share one, with their places."""
    groups: dict[object, list[tuple[int, Candidate]]] = {}
    for number, one in numbered:
        kind = (one.backend, one.gpus, one.provisioning_model, one.fact.verdict, one.max_run_duration)
        groups.setdefault(number if one.price else kind, []).append((number, one))
    for group in groups.values():
        number, one = group[0]
        others = {each.machine_type for _, each in group} - {one.machine_type}
        model = one.provisioning_model.value if one.provisioning_model else "own"
        least = "≥ " if one.price and not one.price.is_whole else ""
        yield (
            str(number),
            one.backend,
            few_places([each for _, each in group]),
            one.machine_type + (f" and {len(others)} more" if others else ""),
            one.gpus,
            model,
            "" if one.provisioning_model is None else one.fact.verdict.value,
            "unknown" if one.price is None else f"{least}{one.price_usd_h:,.2f}",
            "unknown" if one.cost_at_most_usd is None else f"{one.cost_at_most_usd:,.2f}",
            format_duration(one.max_run_duration),
        )


def _price_sources(shown: Sequence[Candidate]) -> str:
    priced = [one.price for one in shown if one.price and one.price.usd_h]
    notes = dict.fromkeys(f"prices of {price.date}" for price in priced)
    notes |= dict.fromkeys(f"without {name}" for price in priced for name in price.leaves_out)
    return ", ".join(notes)


def placement_error(plan: Plan, failover: Failover, reason: StopReason) -> GputrainError:
    """What to raise: the one answer there was, where there was one, or the whole story."""
    attempts = failover.attempts
    if reason is StopReason.REFUSED and attempts[-1].error is not None:
        return attempts[-1].error
    tries = attempts.tries
    if not tries:
        return _every_quota_short(plan, failover.candidates)
    only = tries[0]
    if len(tries) == 1 and only.error is not None and (only.outcome is not Outcome.NO_ROOM or only.is_final):
        return only.error
    error = NoPlacementError(
        f"no place for {plan.spec.title} after {len(tries)} tries: {reason.value}",
        why="\n".join(_story(failover)),
        fix="; or ".join(_fixes(plan, failover)),
        plan=plan,
        attempts=attempts,
    )
    error.__cause__ = attempts[-1].error
    return error


def _story(failover: Failover) -> Iterator[str]:
    yield "what was tried"
    table = str(failover.attempts.summary).splitlines()[1:]
    yield from (f"    {line}" for line in table)
    groups: dict[str, list[Candidate]] = {}
    for one in failover.untried:
        what = f"{one.gpus} by {one.backend}: {_why_not(one)}"
        groups.setdefault(what, []).append(one)
    for what, places in groups.items():
        yield f"    not tried: {few_places(places)} for {what}"


def _why_not(one: Candidate) -> str:
    if is_open(one):
        return "ruled out by an answer above, or time was up"
    reading = deciding(one.fact.readings)
    if reading is None:
        return one.fact.absent_why or "its quota is too small"
    return str(reading)


def _fixes(plan: Plan, failover: Failover) -> Iterator[str]:
    """What to do, the surest first, each once."""
    errors = [one.error for one in failover.attempts if one.error is not None]
    others = [one for one in errors if not isinstance(one, CapacityError)]
    yield from dict.fromkeys(one.fix for one in others if one.fix)
    if not errors or any(one.scope is not Scope.ACCOUNT for one in errors):  # else no place is better
        yield _MORE_PLACES
    if len(others) < len(errors):
        yield _WAIT if plan.spec.max_wait_duration is None else "wait longer: a higher max_wait_duration"


def _every_quota_short(plan: Plan, candidates: Sequence[Candidate]) -> GputrainError:
    """No place was tried, because each would refuse: the first one's quota, in figures."""
    readings = [found for one in candidates if (found := deciding(one.fact.readings)) is not None]
    if not readings:
        title = plan.spec.title
        return NoPlacementError(
            f"nowhere to try {title}: every place is ruled out", fix=_MORE_PLACES, plan=plan
        )
    first = readings[0]
    return QuotaExceededError(
        f"every quota is too small for {plan.spec.title}; nothing was tried",
        why="\n       ".join(dict.fromkeys(map(str, readings))),
        fix=f"{first.fix}, or {_MORE_PLACES}",
        metric=first.metric,
        limit=first.limit,
        usage=first.usage,
        need=first.need,
        where=first.where,
    )
