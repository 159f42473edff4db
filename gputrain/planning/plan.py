"""`Plan`: the ways a spec could run, best first, and the ways it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import attrs

from gputrain.errors import NoFitError
from gputrain.planning.candidates import Candidate, Refusal, Wanted, with_fact
from gputrain.planning.offers import Fact
from gputrain.planning.warnings import warnings
from gputrain.quota import Verdict
from gputrain.spec import TrainingSpec, format_duration
from gputrain.tables import Table

JobT = TypeVar("JobT")
STALE_AFTER = timedelta(minutes=10)
SHOWN_CANDIDATES = 12
_ORDER = (Verdict.FITS, Verdict.UNKNOWN, Verdict.SHORT)


def rank(wanted: Wanted, facts: Mapping[Candidate, Fact]) -> tuple[Candidate, ...]:
    """The candidates with their facts: the user's order of GPUs, models, backends and regions stands, and
    within one region the zones go by quota verdict, then by the provider's advice, then by price.
    """
    known = [with_fact(one, facts[one]) if one in facts else one for one in wanted.candidates]
    groups: dict[tuple[object, ...], int] = {}
    for one in known:
        groups.setdefault(_choice(one), len(groups))
    return tuple(sorted(known, key=lambda one: (groups[_choice(one)], *_merit(one))))


def _choice(one: Candidate) -> tuple[object, ...]:
    return one.gpu, one.gpu_count, one.provisioning_model, one.backend, one.region_rank


def _merit(one: Candidate) -> tuple[float, ...]:
    advice = 0.5 if one.fact.obtainability is None else one.fact.obtainability
    price = float("inf") if one.price_usd_h is None else one.price_usd_h
    return _ORDER.index(one.fact.verdict), -advice, price


@attrs.frozen(kw_only=True)
class Plan(Generic[JobT]):
    """Every way the spec could run, best first, and why each other one was refused.

    Made by ``trainer.plan``; nothing has been created or uploaded. `submit` starts the job.
    It shows itself as a table: in a terminal, in a notebook, and by ``print``.
    """

    spec: TrainingSpec
    candidates: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...]
    made_at: datetime
    requests_of: Callable[[Plan[JobT]], tuple[Mapping[str, Any], ...]] = attrs.field(eq=False, repr=False)
    submit_with: Callable[[Plan[JobT]], JobT] = attrs.field(eq=False, repr=False)

    def submit(self) -> JobT:
        """Start the job on the best candidate that has room.

        Raises:
            NoFitError: no candidate is left; it carries the refusals.
            CapacityError, AccessError, ...: as the backend answers.
        """
        self.check_fits()
        return self.submit_with(self)

    def check_fits(self) -> None:
        """Raise NoFitError, with what would work, unless there is a candidate."""
        if self.candidates:
            return
        asked = self.asked_for
        lines = [f"{one.backend}: {one.subject}: {one.why}" for one in asked]
        fixes = dict.fromkeys(one.fix for one in asked if one.fix)
        raise NoFitError(
            f"nothing can run {self.spec.title} as asked:\n  " + "\n  ".join(lines),
            fix="; or ".join(fixes),
            refusals=asked,
        )

    @property
    def asked_for(self) -> tuple[Refusal, ...]:
        """The refusals of what the spec asked for, each once."""
        return tuple(dict.fromkeys(one for one in self.refusals if one.asked_for))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does not forbid a candidate but should be known: an image that cannot run its GPU, say."""
        return warnings(self.spec, self.candidates)

    @property
    def requests(self) -> tuple[Mapping[str, Any], ...]:
        """What would be sent for the best candidate: pure data, before anything is sent."""
        self.check_fits()
        return self.requests_of(self)

    def is_stale(self, now: datetime) -> bool:
        """True when the facts are older than ten minutes: quota and capacity may have changed since."""
        return now - self.made_at > STALE_AFTER

    def explain(self) -> str:
        """The plan in plain words."""
        lines = []
        if self.candidates:
            best = self.candidates[0]
            lines.append(f"{self.spec.title} would run on {best.gpus} ({best.machine_type}) at {best.place}.")
            lines.append(_cost_sentence(best))
            if len(self.candidates) > 1:
                lines.append(f"If there is no room, {len(self.candidates) - 1} more ways are tried in order.")
        else:
            lines.append(f"{self.spec.title} cannot run as asked.")
        lines += [f"Warning: {one}." for one in self.warnings]
        lines += [_refusal_sentence(one) for one in self.asked_for]
        return "\n".join(lines)

    @property
    def table(self) -> Table:
        """The candidates as a table, the best dozen of them."""
        shown = self.candidates[:SHOWN_CANDIDATES]
        hidden = len(self.candidates) - len(shown)
        caption = [f"and {hidden} more"] if hidden else []
        caption += filter(None, [_source_line(shown)])
        return Table(
            title=f"Plan for {self.spec.title}",
            columns=(
                "#",
                "backend",
                "place",
                "machine",
                "runs on",
                "model",
                "quota",
                "$/h",
                "at most $",
                "for",
            ),
            rows=[_row(number, one) for number, one in enumerate(shown, start=1)],
            right=("#", "$/h", "at most $"),
            caption="; ".join(caption),
        )

    @property
    def refusal_table(self) -> Table:
        """The refusals of what the spec asked for, with what would work."""
        rows = [(one.backend, one.subject, one.why, one.fix) for one in self.asked_for]
        return Table(title="Refused", columns=("backend", "what", "why", "what would work"), rows=rows)

    def _parts(self) -> Sequence[Table]:
        warned = Table(title="Warnings", columns=("what to know",), rows=[(one,) for one in self.warnings])
        parts = (self.table, warned, self.refusal_table)
        return tuple(part for part in parts if part.rows) or (self.table,)

    def __str__(self) -> str:
        return "\n\n".join(str(part) for part in self._parts())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": "".join(part._repr_html_() for part in self._parts())}

    def __rich_console__(self, console: Any, options: Any) -> Any:
        yield from self._parts()


def _row(number: int, one: Candidate) -> tuple[str, ...]:
    model = one.provisioning_model.value if one.provisioning_model else "own"
    verdict = "" if one.provisioning_model is None else one.fact.verdict.value
    cost = "unknown" if one.cost_at_most_usd is None else f"{one.cost_at_most_usd:,.2f}"
    price = "unknown" if one.price is None else f"{_at_least(one)}{one.price_usd_h:,.2f}"
    duration = format_duration(one.max_run_duration)
    return (
        str(number),
        one.backend,
        one.place,
        one.machine_type,
        one.gpus,
        model,
        verdict,
        price,
        cost,
        duration,
    )


def _at_least(one: Candidate) -> str:
    return "" if one.price is None or one.price.is_whole else "≥ "


def _cost_sentence(one: Candidate) -> str:
    ends = f"it ends after {format_duration(one.max_run_duration)} at the latest"
    if one.price is None:
        return f"Its price is unknown; {ends}."
    if one.price.usd_h == 0:
        return f"It costs nothing here; {ends}."
    source = f"({one.price.source}, {one.price.date})"
    if one.cost_at_most_usd is None:
        left_out = " and ".join(one.price.leaves_out)
        return f"It costs ${one.price_usd_h:,.2f} an hour {source} and, unknown, {left_out}; {ends}."
    return f"It costs ${one.price_usd_h:,.2f} an hour {source}, at most ${one.cost_at_most_usd:,.2f}; {ends}."


def _refusal_sentence(one: Refusal) -> str:
    remedy = f" What would work: {one.fix}." if one.fix else ""
    return f"Not {one.subject} on {one.backend}: {one.why}.{remedy}"


def _source_line(shown: Sequence[Candidate]) -> str:
    priced = [one.price for one in shown if one.price and one.price.usd_h]
    notes = dict.fromkeys(f"prices of {price.date}" for price in priced)
    notes |= dict.fromkeys(f"without {name}" for price in priced for name in price.leaves_out)
    return ", ".join(notes)
