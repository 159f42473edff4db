"""Places that were lately out of stock: what one job learned, for the next. Pure: a clock is handed in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

import attrs

from gputrain.errors import Scope
from gputrain.planning.attempts import Attempt, Outcome
from gputrain.planning.candidates import Candidate

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
