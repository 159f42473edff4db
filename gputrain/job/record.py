"""What was asked for a job, as its record tells in any process."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import Protocol

import attrs

from gputrain.backends.base import Backend, JobRef
from gputrain.catalog import Price, ProvisioningModel
from gputrain.errors import AccessError, RequestError, TransientError
from gputrain.lifecycle import Observation
from gputrain.planning import Attempt, Candidate, Ledger, Outcome
from gputrain.planning.candidates import paid_for
from gputrain.records import MADE, Ask, Record, RecordError
from gputrain.spec import TrainingSpec

log = logging.getLogger("gputrain")

SHORT_S = 1.0
"""A failed reading that took longer is not repeated for as long as it took: many fields ask, one by one."""

_COUNT = re.compile(r"\d{1,4}(?:/[1-9]\d{0,3})?")
_OUTCOMES = {one.value: one for one in Outcome}
_SAID = {"": "accepted", MADE: "made there"}


@attrs.frozen
class _Contents:
    """What a record says, read; nothing where there is none."""

    spec: TrainingSpec | None = None
    attempts: Ledger = attrs.field(factory=Ledger)
    created_at: datetime | None = None


class AskedFor:
    """What one job's record says, read when it is first wanted; nothing where there is none to read."""

    def __init__(self, read: Callable[[], Record | None]) -> None:
        self._read = read
        self._known: _Contents | None = None
        self._again_at = float("-inf")

    @property
    def spec(self) -> TrainingSpec | None:
        """As the record has it."""
        return self._all.spec

    @property
    def candidate(self) -> Candidate | None:
        """Where it was asked for last."""
        ledger = self.attempts
        return ledger[-1].candidate if ledger and ledger[-1].outcome is Outcome.ACCEPTED else None

    @property
    def attempts(self) -> Ledger:
        """Every place that was asked."""
        return self._all.attempts

    @property
    def created_at(self) -> datetime | None:
        """When it was first written down."""
        return self._all.created_at

    @property
    def _all(self) -> _Contents:
        # no cached property: before Python 3.12 its lock is the class's, and all jobs would wait for one
        if self._known is None and time.monotonic() >= self._again_at:
            self._known = self._look()
        return self._known or _Contents()

    def _look(self) -> _Contents | None:
        """What it says, to keep; None where that cannot be told just now."""
        began = time.monotonic()
        try:
            record = self._read()
        except TransientError as error:  # known again when the way is: nobody's list ends by it
            log.warning("the record of a job could not be read now: %s", error.what)
            took_s = time.monotonic() - began
            self._again_at = began + 2 * took_s if took_s > SHORT_S else began
            return None
        except (AccessError, RequestError, RecordError) as error:  # whoever may watch need not read records
            log.info("the record of a job could not be read: %s", error.what)
            return _Contents()
        if record is None:
            return _Contents()
        known = _Contents()
        # Words of a newer release, times and prices of nobody.
        with suppress(ValueError, OverflowError, RecordError):
            known = _Contents(created_at=moment(record.created_at) if record.created_at else None)
            spec = record.training_spec
            known = attrs.evolve(known, spec=spec)
            known = attrs.evolve(known, attempts=ledger_of(record, spec))
        return known


def candidate_of(ask: Ask, spec: TrainingSpec) -> Candidate:
    """Where an ask would have the job, at the price of that day.

    Raises:
        ValueError: a word of it is none of ours.
    """
    way = ask.way
    if not _COUNT.fullmatch(way.gpu_count):
        raise ValueError(f"{way.gpu_count[:20]!r} is no count of GPUs")
    count = Fraction(way.gpu_count)
    model = ProvisioningModel(way.model) if way.model else None
    nodes = max(1, spec.num_nodes - way.missing_nodes)
    price = None if ask.price_usd_h is None else ask.price_usd_h / nodes
    return Candidate(
        backend=way.backend,
        gpu=way.gpu or None,
        gpu_count=int(count) if count.denominator == 1 else count,
        machine_type=way.machine_type,
        place=way.place,
        region=way.region,
        provisioning_model=model,
        num_nodes=nodes,
        missing_nodes=spec.num_nodes - nodes,
        nproc_per_node=spec.nproc_per_node or max(1, int(count)),
        price=None if price is None else Price(usd_h=price, source="the record of the job", date=""),
        max_run_duration=paid_for(spec, ask.price_usd_h or 0.0),
    )


def ledger_of(record: Record, spec: TrainingSpec) -> Ledger:
    """Every place that a record knows to have been asked, and what it answered. Raises as `candidate_of`."""
    return Ledger(
        Attempt(
            candidate=candidate_of(ask, spec),
            at=moment(ask.at),
            outcome=Outcome.ACCEPTED if ask.answer in _SAID else _OUTCOMES.get(ask.answer, Outcome.UNCLEAR),
            answer=_SAID.get(ask.answer) or ask.said or ask.answer,
        )
        for ask in record.asks
    )


def moment(seconds: float) -> datetime:
    """Seconds since 1970 as a time in UTC."""
    return datetime.fromtimestamp(0, timezone.utc) + timedelta(seconds=seconds)


class Placement(Protocol):
    """Where a job came to be, and how."""

    @property
    def ref(self) -> JobRef: ...

    @property
    def backend(self) -> Backend: ...

    @property
    def candidate(self) -> Candidate | None: ...

    @property
    def attempts(self) -> Ledger: ...


@attrs.frozen(kw_only=True)
class Step:
    """What came of going on."""

    placed: Placement | None
    """None: nothing has room now, or it may not."""
    attempts: Ledger
    """The whole ledger, with every place that was asked."""


class Going(Protocol):
    """The ways that are left to one job. A look asks `way_on` at most; the rest is for those who act."""

    def way_on(self, seen: Observation) -> str:
        """What comes next for a job that is at no place after all; empty where that is its end."""
        ...

    def elsewhere(self, backend: Backend, seen: Observation | None) -> tuple[JobRef, Backend] | None:
        """Its name where others have gone on with it, on another backend of this process; None: not so.

        ``seen``: how it ended here, if it is here.
        """
        ...

    def go_on(self, seen: Observation, told: Ledger) -> Step:
        """Ask for it again, where that may be and something has room."""
        ...

    def tidy(self, ref: JobRef, backend: Backend, seen: Observation) -> None:
        """End what is left of it that cannot go on."""
        ...

    def cancel(self, ref: JobRef, backend: Backend) -> None:
        """End it, and have nobody start it again."""
        ...

    def record(self) -> Record | None:
        """What was asked for the job; None where nobody here keeps it, or may read it."""
        ...
