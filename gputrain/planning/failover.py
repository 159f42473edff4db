"""Which candidate is tried next, when to wait, and when to give up. Pure: a clock is handed in.

::

    step ──> Try(candidate) ──> the answer goes into the ledger ──> step ──> ...
         ──> Rest(until)    ──> a new round, with facts read anew
         ──> GiveUp(reason)

The order is the plan's. Zones that Google named after a stockout come first; places that were lately out of
stock come last; what a quota, a permission or a fact rules out is not tried at all.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

import attrs

from gputrain import causes
from gputrain.catalog import ProvisioningModel
from gputrain.causes import Cause
from gputrain.errors import Scope
from gputrain.planning.attempts import KEPT, Attempt, Ledger, Outcome, need_of
from gputrain.planning.candidates import Candidate
from gputrain.quota import Verdict

BLOCKED_FOR = timedelta(minutes=15)
"""How long a place that was out of stock comes last; stock moves within minutes to hours."""

Market = tuple[object, ...]


def market_of(candidate: Candidate, place: str = "") -> Market:
    """What has one stock: a machine under a provisioning model at a place (its own unless said)."""
    return _market(candidate, place or candidate.place, is_region=False)


def region_market_of(candidate: Candidate) -> Market:
    """The same machine in the whole region: what a regional answer speaks of."""
    return _market(candidate, candidate.region, is_region=True)


def _market(candidate: Candidate, place: str, *, is_region: bool) -> Market:
    return (
        candidate.backend,
        place,
        is_region,  # a region may bear the name of one of its places
        candidate.machine_type,
        candidate.gpu,
        candidate.gpu_count,
        candidate.provisioning_model,
    )


def _frozen(until: Mapping[Market, datetime]) -> Mapping[Market, datetime]:
    return MappingProxyType(dict(until))


@attrs.frozen(kw_only=True)
class Blocks:
    """Zones and regions that come last for a machine and model, each until a time."""

    until: Mapping[Market, datetime] = attrs.field(factory=dict, converter=_frozen)

    def hold(self, candidate: Candidate, now: datetime) -> bool:
        """Whether the candidate's zone or region was out of stock a short while ago."""
        if not self.until:
            return False
        markets = (market_of(candidate), region_market_of(candidate))
        return any(self.until.get(market, now) > now for market in markets)

    def after(self, attempt: Attempt) -> Blocks:
        """The blocks with what an attempt taught; those that have run out are forgotten."""
        until = {market: end for market, end in self.until.items() if end > attempt.at}
        one = attempt.candidate
        if attempt.outcome is Outcome.NO_ROOM:
            market = region_market_of(one) if attempt.scope is Scope.REGION else market_of(one)
            until[market] = attempt.at + BLOCKED_FOR
        if attempt.outcome is Outcome.ACCEPTED:
            for market in (market_of(one), region_market_of(one)):
                until.pop(market, None)
        for zone in attempt.zones_available:
            until.pop(market_of(one, zone), None)
        return Blocks(until=until)


NO_BLOCKS = Blocks()


FIRST_REST = timedelta(seconds=30)
LONGEST_REST = timedelta(minutes=10)
"""Rests between rounds double from the first to the longest."""

_PREEMPTIBLE = frozenset({ProvisioningModel.SPOT, ProvisioningModel.FLEX_START})


class StopReason(enum.Enum):
    """Why nothing more is tried."""

    NOWHERE_LEFT = "every place was tried or is ruled out"
    TIME_UP = "max_wait_duration has passed"
    REFUSED = "the request was refused"


@attrs.frozen(kw_only=True)
class Try:
    """Ask this candidate's place."""

    candidate: Candidate


@attrs.frozen(kw_only=True)
class Rest:
    """Wait, then go round again."""

    until: datetime


@attrs.frozen(kw_only=True)
class GiveUp:
    """Nothing more is tried."""

    reason: StopReason


Step = Try | Rest | GiveUp
Pool = tuple[str, str, str | None, bool]
_WIDTHS = (Scope.ZONE, Scope.REGION, Scope.PROJECT)
Reach = tuple[str, Scope, str]
"""A backend, and what of it: a place, a region, or the whole."""


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

    def told(self, answers: Sequence[Attempt]) -> Failover:
        """As this, with what others were answered, of places that have not answered it yet."""
        known = {market_of(one.candidate) for one in self.attempts}
        news = (one for one in answers if market_of(one.candidate) not in known)
        return attrs.evolve(self, attempts=Ledger((*self.attempts, *news)))

    def again(self, candidates: Sequence[Candidate]) -> Failover:
        """A new round over the candidates, whose facts were read anew."""
        told = Ledger(self.attempts[-KEPT:])
        return attrs.evolve(
            self, candidates=tuple(candidates), attempts=told, round=self.round + 1, first_of_round=len(told)
        )

    def step(self, now: datetime, blocks: Blocks = NO_BLOCKS) -> Step:
        """What to do next."""
        last = self.attempts[-1] if self.attempts else None
        if last is not None and last.outcome is Outcome.REFUSED:
            return GiveUp(reason=StopReason.REFUSED)
        if last is not None and self.give_up_at is not None and now > self.give_up_at:
            return GiveUp(reason=StopReason.TIME_UP)
        following = self._best(now, blocks)
        return Try(candidate=following) if following is not None else self._rest(now)

    def passed_over(self, candidate: Candidate) -> tuple[Candidate, ...]:
        """The candidates before this one that a fact rules out, and that the ledger does not tell of yet."""
        told = {market_of(one.candidate) for one in self.attempts}
        # By its market: an ask that is repeated was planned with older facts than these.
        before = itertools.takewhile(lambda one: market_of(one) != market_of(candidate), self.candidates)
        return tuple(one for one in before if not is_open(one) and market_of(one) not in told)

    @property
    def untried(self) -> tuple[Candidate, ...]:
        """The candidates that no attempt of any round went to: a fact or a refusal rules them out."""
        tried = {market_of(one.candidate) for one in self.attempts}
        return tuple(one for one in self.candidates if market_of(one) not in tried)

    def cause_of(self, reason: StopReason) -> Cause:
        """Why a job ends for which nothing more is tried."""
        if reason is not StopReason.NOWHERE_LEFT:
            return causes.WAIT_LIMIT if reason is StopReason.TIME_UP else causes.UNSTARTED
        last = self.attempts[-1].outcome if self.attempts else Outcome.NO_ROOM
        by_quota = last in (Outcome.NO_QUOTA, Outcome.PASSED_OVER)
        return causes.QUOTA_REGION if by_quota else causes.STOCKOUT_REGION

    def _best(self, now: datetime, blocks: Blocks) -> Candidate | None:
        answers = self.attempts[self.first_of_round :]
        ruled_out = _ruled_out([*answers, *self._final])
        left = [one for one in self.candidates if is_open(one) and not ruled_out(one)]
        named = _named(answers)

        def turn(number: int) -> tuple[bool, int, int]:
            market = market_of(left[number])
            is_late = market not in named and blocks.hold(left[number], now)
            return is_late, named.get(market, len(named)), number

        return left[min(range(len(left)), key=turn)] if left else None

    def _rest(self, now: datetime) -> Step:
        ruled_out = _ruled_out(self._final)
        may_come = any(_may_come(one) and not ruled_out(one) for one in self.candidates)
        if self.give_up_at is None or not may_come:
            return GiveUp(reason=StopReason.NOWHERE_LEFT)
        if now >= self.give_up_at:
            return GiveUp(reason=StopReason.TIME_UP)
        pause = min(FIRST_REST * 2 ** min(self.round, 10), LONGEST_REST)
        return Rest(until=min(now + pause, self.give_up_at))

    @property
    def _final(self) -> list[Attempt]:
        return [one for one in self.attempts if one.is_final]


def is_open(candidate: Candidate) -> bool:
    """Whether a candidate may be tried as far as the facts say: one whose quota is short would be refused."""
    return candidate.fact.verdict is not Verdict.SHORT and not candidate.fact.absent_why


def _may_come(candidate: Candidate) -> bool:
    """Whether waiting can help: a place without the machine, or with a quota of nothing, stays so."""
    return not candidate.fact.absent_why and all(one.limit != 0 for one in candidate.fact.readings)


def _named(answers: Sequence[Attempt]) -> dict[Market, int]:
    """The turn of each place that Google named as having room, the newest answer first."""
    named: dict[Market, int] = {}
    for answer in reversed(answers):
        for zone in answer.zones_available:
            named.setdefault(market_of(answer.candidate, zone), len(named))
    return named


def _ruled_out(answers: Sequence[Attempt]) -> Callable[[Candidate], bool]:
    """What the answers rule out beyond doubt."""
    markets: dict[Market, int] = {}
    places: set[Reach] = set()
    least: dict[Pool, float] = {}
    for one in answers:
        if one.outcome is Outcome.NO_ROOM:
            full = [market_of(one.candidate)]
            full += [region_market_of(one.candidate)] if one.scope is Scope.REGION else []
            nodes = one.candidate.num_nodes
            markets.update({market: min(nodes, markets.get(market, nodes)) for market in full})
        elif one.outcome is Outcome.NO_QUOTA:
            pool = _pools(one.candidate)[one.scope is Scope.PROJECT]
            need = 0.0 if one.limit == 0 else need_of(one.candidate)
            least[pool] = min(need, least.get(pool, need))
        elif one.outcome in (Outcome.NO_ACCESS, Outcome.NOT_HERE):
            places.add(_reach(one.candidate, one.scope))

    def is_out(one: Candidate) -> bool:
        if places and any(_reach(one, scope) in places for scope in _WIDTHS):
            return True
        # where there was no room for a gang, there may be some for a smaller one
        if any(one.num_nodes >= markets.get(found(one), math.inf) for found in (market_of, region_market_of)):
            return True
        # a quota that was too small for a job is too small for every job that needs as much of it
        return bool(least) and any(pool in least and need_of(one) >= least[pool] for pool in _pools(one))

    return is_out


def _reach(one: Candidate, scope: Scope) -> Reach:
    """The place, the region, or the whole backend that a refusal of this scope speaks of."""
    if scope is Scope.ZONE:
        return one.backend, scope, one.place
    return (one.backend, scope, one.region) if scope is Scope.REGION else (one.backend, Scope.PROJECT, "")


def _pools(one: Candidate) -> tuple[Pool, Pool]:
    """The quotas that a candidate draws from: the region's for its GPU and model, and the project's."""
    is_preemptible = one.provisioning_model in _PREEMPTIBLE
    return (one.backend, one.region, one.gpu, is_preemptible), (one.backend, "", None, False)
