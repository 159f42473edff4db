"""Which candidate is tried next, when to wait, and when to give up. Pure: a clock is handed in.

::

    step ──> a candidate to try ──> the answer goes into the ledger ──> step ──> ...
         ──> a time to rest until ──> a new round, with facts read anew
         ──> why to give up

The order is the plan's. Zones that Google named after a stockout come first; places that were lately out of
stock come last; what a quota, a permission or a fact rules out is not tried at all.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import attrs

from gputrain import causes
from gputrain.catalog import ProvisioningModel
from gputrain.causes import Cause
from gputrain.errors import Scope
from gputrain.planning.attempts import KEPT, Attempt, Ledger, Outcome
from gputrain.planning.candidates import Candidate, is_open

BLOCKED_FOR = timedelta(minutes=15)
"""How long a place that was out of stock comes last; stock moves within minutes to hours."""
FIRST_REST = timedelta(seconds=30)
LONGEST_REST = timedelta(minutes=10)
"""Rests between rounds double from the first to the longest."""
_PREEMPTIBLE = frozenset({ProvisioningModel.SPOT, ProvisioningModel.FLEX_START})

Market = tuple[object, ...]
"""What has one stock: a machine under a provisioning model, at a place or in a whole region."""


def markets_of(one: Candidate) -> tuple[Market, Market]:
    """Of the candidate's place, and of its region, which a regional answer speaks of."""
    machine = (one.backend, one.machine_type, one.gpu, one.gpu_count, one.provisioning_model)
    return (*machine, one.place, False), (*machine, one.region, True)  # a region may be named as a place


def _market_at(one: Candidate, zone: str) -> Market:
    return (*markets_of(one)[0][:-2], zone, False)


@attrs.frozen(kw_only=True)
class Blocks:
    """Zones and regions that come last for a machine and model, each until a time."""

    until: Mapping[Market, datetime] = attrs.field(factory=dict)

    def hold(self, candidate: Candidate, now: datetime) -> bool:
        """Whether the candidate's zone or region was out of stock a short while ago."""
        return bool(self.until) and any(self.until.get(one, now) > now for one in markets_of(candidate))

    def after(self, attempt: Attempt) -> Blocks:
        """The blocks with the answer of an attempt; those that have run out are left out."""
        until = {market: end for market, end in self.until.items() if end > attempt.at}
        markets = markets_of(attempt.candidate)
        if attempt.outcome is Outcome.NO_ROOM:
            until[markets[attempt.scope is Scope.REGION]] = attempt.at + BLOCKED_FOR
        freed = list(markets) if attempt.outcome is Outcome.ACCEPTED else []
        for market in (*freed, *(_market_at(attempt.candidate, zone) for zone in attempt.zones_available)):
            until.pop(market, None)
        return Blocks(until=until)


NO_BLOCKS = Blocks()


class StopReason(enum.Enum):
    """Why nothing more is tried."""

    NOWHERE_LEFT = "every place was tried or is ruled out"
    TIME_UP = "max_wait_duration has passed"
    REFUSED = "the request was refused"


Step = Candidate | datetime | StopReason
"""Try this candidate; rest until then, and begin another round; or give up."""


@attrs.frozen(kw_only=True)
class Failover:
    """The candidates in the plan's order, and what has been answered so far."""

    candidates: tuple[Candidate, ...]
    attempts: Ledger = Ledger()
    give_up_at: datetime | None = None
    """When waiting for room ends; None: one round."""
    round: int = 0
    first_of_round: int = 0
    """The attempts before this one belong to earlier rounds."""

    def after(self, attempt: Attempt) -> Failover:
        """As this, with one more answer."""
        return attrs.evolve(self, attempts=Ledger((*self.attempts, attempt)))

    def answered(self, answers: Sequence[Attempt]) -> Failover:
        """As this, with answers from elsewhere, of places that have not answered it yet."""
        known = {markets_of(one.candidate)[0] for one in self.attempts}
        news = (one for one in answers if markets_of(one.candidate)[0] not in known)
        return attrs.evolve(self, attempts=Ledger((*self.attempts, *news)))

    def again(self, candidates: Sequence[Candidate]) -> Failover:
        """A new round over the candidates, whose facts were read anew."""
        kept, number = Ledger(self.attempts[-KEPT:]), self.round + 1
        return attrs.evolve(
            self, candidates=tuple(candidates), attempts=kept, round=number, first_of_round=len(kept)
        )

    def step(self, now: datetime, blocks: Blocks = NO_BLOCKS) -> Step:
        """What to do next."""
        last = self.attempts[-1] if self.attempts else None
        if last is not None and last.outcome is Outcome.REFUSED:
            return StopReason.REFUSED
        if last is not None and self.give_up_at is not None and now > self.give_up_at:
            return StopReason.TIME_UP
        final = [one for one in self.attempts if one.is_final]
        best = self._best(now, blocks, final)
        return self._rest(now, final) if best is None else best

    def passed_over(self, candidate: Candidate) -> tuple[Candidate, ...]:
        """The candidates before this one that a fact rules out, and that the ledger does not name yet."""
        market, known = markets_of(candidate)[0], {markets_of(one.candidate)[0] for one in self.attempts}
        # by its market: the candidate may have been planned with older facts than these
        before = itertools.takewhile(lambda one: markets_of(one)[0] != market, self.candidates)
        return tuple(one for one in before if not is_open(one) and markets_of(one)[0] not in known)

    @property
    def untried(self) -> tuple[Candidate, ...]:
        """The candidates that were tried in no round: a fact or a refusal rules them out."""
        tried = {markets_of(one.candidate)[0] for one in self.attempts}
        return tuple(one for one in self.candidates if markets_of(one)[0] not in tried)

    def cause_of(self, reason: StopReason) -> Cause:
        """Why a job ends for which nothing more is tried."""
        if reason is not StopReason.NOWHERE_LEFT:
            return causes.WAIT_LIMIT if reason is StopReason.TIME_UP else causes.UNSTARTED
        last = self.attempts[-1].outcome if self.attempts else Outcome.NO_ROOM
        by_quota = last in (Outcome.NO_QUOTA, Outcome.PASSED_OVER)
        return causes.QUOTA_REGION if by_quota else causes.STOCKOUT_REGION

    def _best(self, now: datetime, blocks: Blocks, final: Sequence[Attempt]) -> Candidate | None:
        answers = self.attempts[self.first_of_round :]
        ruled_out = _ruled_out([*answers, *final])
        left = [one for one in self.candidates if is_open(one) and not ruled_out(one)]
        named: dict[Market, int] = {}  # zones that Google named as having room, the newest answer first
        for answer in reversed(answers):
            for zone in answer.zones_available:
                named.setdefault(_market_at(answer.candidate, zone), len(named))

        def turn(number: int) -> tuple[bool, int, int]:
            market = markets_of(left[number])[0] if named else ()
            is_late = market not in named and blocks.hold(left[number], now)
            return is_late, named.get(market, len(named)), number

        return left[min(range(len(left)), key=turn)] if left else None

    def _rest(self, now: datetime, final: Sequence[Attempt]) -> Step:
        ruled_out = _ruled_out(final)
        may_come = any(_may_come(one) and not ruled_out(one) for one in self.candidates)
        if self.give_up_at is None or not may_come:
            return StopReason.NOWHERE_LEFT
        if now >= self.give_up_at:
            return StopReason.TIME_UP
        pause: timedelta = min(FIRST_REST * 2 ** min(self.round, 10), LONGEST_REST)
        return min(now + pause, self.give_up_at)


def _may_come(candidate: Candidate) -> bool:
    """Whether waiting can help: a place without the machine, or with a quota of nothing, stays so."""
    return not candidate.fact.absent_why and all(one.limit != 0 for one in candidate.fact.readings)


def _ruled_out(answers: Sequence[Attempt]) -> Callable[[Candidate], bool]:
    """What the answers rule out beyond doubt."""
    if not answers:
        return lambda _: False
    full: dict[Market, int] = {}
    reached: set[tuple[str, ...]] = set()
    least: dict[tuple[object, ...], float] = {}
    for one in answers:
        place, region = markets_of(one.candidate)
        if one.outcome is Outcome.NO_ROOM:
            for market in (place, region) if one.scope is Scope.REGION else (place,):
                full[market] = min(one.candidate.num_nodes, full.get(market, one.candidate.num_nodes))
        elif one.outcome is Outcome.NO_QUOTA:
            pool = _pools(one.candidate)[one.scope is Scope.PROJECT]
            need = 0.0 if one.limit == 0 else one.candidate.gpus_needed
            least[pool] = min(need, least.get(pool, need))
        elif one.outcome in (Outcome.NO_ACCESS, Outcome.NOT_HERE):
            zone, region_of, backend = _reaches(one.candidate)
            reached.add({Scope.ZONE: zone, Scope.REGION: region_of}.get(one.scope, backend))

    def is_out(one: Candidate) -> bool:
        # where there was no room for so many nodes, there may be some for fewer
        if any(one.num_nodes >= full.get(market, math.inf) for market in markets_of(one)):
            return True
        # a quota that was too small for a job is too small for every job that needs as much of it
        if least and any(pool in least and one.gpus_needed >= least[pool] for pool in _pools(one)):
            return True
        return not reached.isdisjoint(_reaches(one))

    return is_out


def _reaches(one: Candidate) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The place, the region and the backend that a refusal may speak of."""
    return (one.backend, "place", one.place), (one.backend, "region", one.region), (one.backend,)


def _pools(one: Candidate) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """The quotas that a candidate draws from: the region's for its GPU and model, and the project's."""
    is_preemptible = one.provisioning_model in _PREEMPTIBLE
    return (one.backend, one.region, one.gpu, is_preemptible), (one.backend,)
