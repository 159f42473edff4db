"""`Plan`: the ways a spec could run, by what was read of each, best first, and the ways it cannot."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import attrs

from gputrain import catalog
from gputrain.display.table import Table, TableDisplay, TextDisplay
from gputrain.errors import FieldError, GputrainError, NoFitError
from gputrain.planning.attempts import few_places
from gputrain.planning.candidates import Candidate, Wanted
from gputrain.planning.explain import explain, warnings
from gputrain.planning.failover import is_open
from gputrain.planning.offers import Fact, Refusal
from gputrain.quota import Verdict
from gputrain.spec import Image, TrainingSpec, format_duration
from gputrain.times import picked

_MOST_SUBJECTS = 3
"""Of so many refusals for one reason what each is of is told."""


@attrs.frozen(kw_only=True)
class GcloudJob(TextDisplay):
    """A file and a command that together make the job that ``plan.submit()`` would make.

    By ``print``, and in a notebook, it shows itself as what a shell takes to write the one and run the other.
    """

    config: str
    """Content of the file ``config.yaml``."""
    command: tuple[str, ...]
    """The words of the command, run beside that file; ``shlex.join`` makes a line of them."""

    def __str__(self) -> str:
        return f"cat > config.yaml <<'END'\n{self.config}END\n{shlex.join(self.command)}"


STALE_AFTER = timedelta(minutes=10)
SHOWN_CANDIDATES = 12
LONGEST_FIX = 100
"""Characters of a remedy that still fits a cell."""


@attrs.frozen(kw_only=True, repr=False)
class Plan(TableDisplay):
    """Every way the spec could run, best first, and why each other one was refused: data, and nothing else.

    ``trainer.plan`` hands it over together with what can start it: it is the ``plan`` of a `PlannedJob`.
    It shows itself as a table: in a terminal, in a notebook, and by ``print``.
    """

    spec: TrainingSpec
    candidates: tuple[Candidate, ...]
    refusals: tuple[Refusal, ...]
    made_at: datetime
    faults: tuple[FieldError, ...] = ()
    """What is wrong with the code: `submit` would refuse it before anything is made."""
    notes: tuple[str, ...] = ()
    """What may be wrong with it; they are among the `warnings`."""
    builds: Image | None = None
    """The image that `submit` builds first; the spec names it already."""
    uploads: str = ""
    """How many files and bytes would be sent, and what an ignore file holds back; empty: nothing is sent."""
    outputs: str = ""
    """Where results of a job called JOB would lie; empty: not known."""
    late: tuple[Candidate, ...] = ()
    """Those that had no room a short while ago: `submit` asks them last."""
    shown_at: datetime | None = attrs.field(default=None, eq=False, repr=False)
    """By which it tells its age; None: it tells none."""
    sorted_by: str = attrs.field(default="order", eq=False)
    """Of its table: ``order``, in which `submit` tries the candidates, or ``price``."""
    shows_all: bool = attrs.field(default=False, eq=False)
    """Whether its table holds every candidate, or the first dozen."""

    def check_fits(self) -> None:
        """Raise NoFitError, with what would work, unless there is a candidate."""
        if self.candidates:
            return
        asked = self.asked_for
        lines = _told_once(asked)
        fixes = dict.fromkeys(one.fix for one in asked if one.fix)
        what = "\n  ".join([f"nothing can run {self.spec.title} as asked:", *lines])
        raise NoFitError(what, fix="; or ".join(fixes), refusals=asked)

    @property
    def best(self) -> Candidate:
        """The candidate that `submit` asks first: the first whose quota is not known to be too small.

        What had no room a short while ago comes after the others.

        Raises:
            NoFitError: there is none.
        """
        self.check_fits()
        return min(filter(is_open, self.candidates), key=self.late.__contains__, default=self.candidates[0])

    @property
    def asked_for(self) -> tuple[Refusal, ...]:
        """The refusals of what the spec asked for, each once."""
        return tuple(dict.fromkeys(one for one in self.refusals if one.asked_for))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does not forbid a candidate but should be known: an image that cannot run its GPU, say."""
        places = ", ".join(dict.fromkeys(one.place for one in self.late))
        late = [f"asked last, as there was no room a short while ago: {places}"] if places else []
        return (*self.notes, *late, *warnings(self.spec, self.candidates))

    def is_stale(self, now: datetime) -> bool:
        """True when the facts are older than ten minutes: quota and capacity may have changed since."""
        return now - self.made_at > STALE_AFTER

    @property
    def age(self) -> str:
        """When the facts were read, and until when they count."""
        until = self.made_at + STALE_AFTER
        read = f"facts read {self.made_at:%Y-%m-%d %H:%M} UTC"
        if self.shown_at is not None and self.is_stale(self.shown_at):
            return f"{read}, stale since {until:%H:%M}: submit() reads them anew"
        return f"{read}, good until {until:%H:%M}"

    def explain(self) -> str:
        """The plan in plain words: what would run where, at what price, by which quotas, and what cannot."""
        return "\n".join(explain(self))

    @property
    def table(self) -> Table:
        """The candidates as a table, the best dozen of them; those without a known price are one row."""
        numbered = list(enumerate(self.candidates, start=1))
        if self.sorted_by == "price":
            numbered.sort(key=lambda one: _cheapest_first(one[1]))
        rows = list(_rows(numbered))
        shown = rows if self.shows_all else rows[:SHOWN_CANDIDATES]
        caption = [f"{len(rows) - len(shown)} more with --all"] if len(shown) < len(rows) else []
        caption += filter(None, [_source_line(self.candidates), self.age, self.uploads])
        below = [f"outputs: {self.outputs}" if self.outputs else "", self.cheapest_elsewhere]
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
            rows=shown,
            right=("#", "$/h", "at most $"),
            caption="\n".join(filter(None, ["; ".join(caption), *below])),
        )

    @property
    def cheapest_elsewhere(self) -> str:
        """The cheapest region that was not asked for, in a sentence; empty where no price is known."""
        asked = {one.region for one in self.candidates}
        found: set[tuple[float, str]] = set()
        for one in self.candidates:
            if one.gpu is None or one.provisioning_model is None or one.price is None:
                continue
            with suppress(GputrainError):  # a backend of somebody else's may sell what the catalog lacks
                (shape,) = catalog.shapes(one.gpu, one.gpu_count, machine_type=one.machine_type)
                found |= {
                    (
                        price.usd_h * one.num_nodes,
                        f"{price.region}, {one.gpus}, {price.provisioning_model}",
                    )
                    for price in catalog.prices(shape)
                    if price.is_whole
                    and price.region not in asked
                    and price.provisioning_model is one.provisioning_model
                }
        if not found:
            return ""
        usd_h, where = min(found)
        return f"cheapest region that was not asked for: {where}, ${usd_h:,.2f}/h"

    @property
    def refusal_table(self) -> Table:
        """The refusals of what the spec asked for, with what would work; a long recipe stands below, once."""
        recipes = list(dict.fromkeys(one.fix for one in self.asked_for if len(one.fix) > LONGEST_FIX))
        marks = {recipe: f"[{number}] below" for number, recipe in enumerate(recipes, start=1)}
        rows = [(one.backend, one.subject, one.why, marks.get(one.fix, one.fix)) for one in self.asked_for]
        return Table(
            title="Refused",
            columns=("backend", "what", "why", "what would work"),
            rows=rows,
            caption="\n".join(
                f"[{number}] " + recipe.replace("\n", "\n    ")
                for number, recipe in enumerate(recipes, start=1)
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON types: times in ISO 8601, prices in US dollars, unknown is None."""
        return {
            "title": self.spec.title,
            "made_at": self.made_at.isoformat(),
            "candidates": [one.to_dict() for one in self.candidates],
            "refusals": [picked(one, "backend subject why fix") for one in self.asked_for],
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
        rows = [(one.field, one.value, one.expected, one.fix) for one in self.faults]
        wrong = Table(title="Faults of the code", columns=("what", "is", "allowed", "fix"), rows=rows)
        parts = (self.table, wrong, warned, self.refusal_table)
        return tuple(part for part in parts if part.rows) or (self.table,)


def _cheapest_first(one: Candidate) -> float:
    return float("inf") if one.price_usd_h is None else one.price_usd_h


def _rows(numbered: Sequence[tuple[int, Candidate]]) -> Iterator[tuple[str, ...]]:
    """A row for each candidate; those of one kind whose price is unknown share one, with their places."""
    groups: dict[object, list[tuple[int, Candidate]]] = {}
    for number, one in numbered:
        kind = (one.backend, one.gpus, one.provisioning_model, one.fact.verdict, one.max_run_duration)
        groups.setdefault(number if one.price else kind, []).append((number, one))
    for group in groups.values():
        number, one = group[0]
        others = {each.machine_type for _, each in group} - {one.machine_type}
        row = list(_row(number, one))
        row[2] = few_places([each for _, each in group])
        row[3] += f" and {len(others)} more" if others else ""
        yield tuple(row)


def _row(number: int, one: Candidate) -> tuple[str, ...]:
    model = one.provisioning_model.value if one.provisioning_model else "own"
    verdict = "" if one.provisioning_model is None else one.fact.verdict.value
    cost = "unknown" if one.cost_at_most_usd is None else f"{one.cost_at_most_usd:,.2f}"
    least = "≥ " if one.price and not one.price.is_whole else ""
    price = "unknown" if one.price is None else f"{least}{one.price_usd_h:,.2f}"
    where = (one.backend, one.place, one.machine_type, one.gpus)
    return (str(number), *where, model, verdict, price, cost, format_duration(one.max_run_duration))


def _told_once(asked: Sequence[Refusal]) -> Iterator[str]:
    """A line for each reason, with what it is said of: a wrong region is one reason for all there is."""
    subjects: dict[tuple[str, str], list[str]] = {}
    for one in asked:
        subjects.setdefault((one.backend, one.why), []).append(one.subject)
    for (backend, why), each in subjects.items():
        more = f" and {len(each) - _MOST_SUBJECTS} more" if len(each) > _MOST_SUBJECTS else ""
        yield f"{backend}: {', '.join(each[:_MOST_SUBJECTS])}{more}: {why}"


def _source_line(shown: Sequence[Candidate]) -> str:
    priced = [one.price for one in shown if one.price and one.price.usd_h]
    notes = dict.fromkeys(f"prices of {price.date}" for price in priced)
    notes |= dict.fromkeys(f"without {name}" for price in priced for name in price.leaves_out)
    return ", ".join(notes)


_ORDER = (Verdict.FITS, Verdict.UNKNOWN, Verdict.SHORT)


def weigh(wanted: Wanted, facts: Mapping[Candidate, Fact]) -> Wanted:
    """The candidates with their facts, best first; a place that lacks the machine becomes a refusal."""
    ranked = rank(wanted, facts)
    gone = [one for one in ranked if one.fact.absent_why]
    return Wanted(
        candidates=tuple(one for one in ranked if not one.fact.absent_why),
        refusals=(*wanted.refusals, *_absent(gone)),
    )


def rank(wanted: Wanted, facts: Mapping[Candidate, Fact]) -> tuple[Candidate, ...]:
    """The candidates with their facts: the user's order of GPUs, models, backends and regions stands, and
    within one region the zones go by quota verdict, then by the provider's advice, then by price.
    """
    known = [attrs.evolve(one, fact=facts[one]) if one in facts else one for one in wanted.candidates]
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


def _absent(gone: Sequence[Candidate]) -> Iterator[Refusal]:
    """One refusal for all places that lack a machine for the same reason."""
    places: dict[Refusal, list[Candidate]] = {}
    for one in gone:
        sold = f" as {one.provisioning_model.value}" if one.provisioning_model else ""
        subject = f"{one.gpus} on {one.machine_type}{sold}"
        why = one.fact.absent_why
        refusal = Refusal(backend=one.backend, subject=subject, why=why, fix="allow more regions")
        places.setdefault(refusal, []).append(one)
    for refusal, found in places.items():
        yield attrs.evolve(refusal, subject=f"{refusal.subject} in {few_places(found)}")
