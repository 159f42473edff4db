"""Places that were lately out of stock: what one job learned, for the next. Pure: a clock is handed in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

import attrs

from gputrain.catalog import region_of
from gputrain.errors import Scope
from gputrain.planning.attempts import Attempt, Outcome
from gputrain.planning.candidates import Candidate

BLOCKED_FOR = timedelta(minutes=15)
"""How long a place that was out of stock comes last; stock moves within minutes to hours."""

Market = tuple[object, ...]


def market_of(candidate: Candidate, place: str = "") -> Market:
    """What has one stock: a machine under a provisioning model at a place (its own unless said)."""
    return (
        candidate.backend,
        place or candidate.place,
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
        places = (candidate.place, region_of(candidate.place))
        return any(self.until.get(market_of(candidate, place), now) > now for place in places)

    def after(self, attempt: Attempt) -> Blocks:
        """The blocks with what an attempt taught; those that have run out are forgotten."""
        until = {market: end for market, end in self.until.items() if end > attempt.at}
        one = attempt.candidate
        if attempt.outcome is Outcome.NO_ROOM:
            place = region_of(one.place) if attempt.scope is Scope.REGION else one.place
            until[market_of(one, place)] = attempt.at + BLOCKED_FOR
        if attempt.outcome is Outcome.ACCEPTED:
            for place in (one.place, region_of(one.place)):
                until.pop(market_of(one, place), None)
        for zone in attempt.zones_available:
            until.pop(market_of(one, zone), None)
        return Blocks(until=until)


NO_BLOCKS = Blocks()
