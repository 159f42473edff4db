"""Looks at many jobs with few calls: one list of the VMs of a zone, shared by all jobs there.

There is no thread here. Whoever looks first lists; whoever looks soon after reads what was listed.
"""

from __future__ import annotations

from collections.abc import Mapping

from gputrain.backends.compute.calls import Calls, ours
from gputrain.backends.compute.official import Json
from gputrain.gcp.shared import Shared

_Seen = tuple[Mapping[str, Json], bool]

FEW = 4
FRESH_S = 0.5
PAGE_COSTS_S = 3.0
"""500 VMs on a page, and a page in each 3 s is 20 calls a minute and zone: with what jobs of a region ask for
themselves, at most a call a second, watching stays below 150 a minute."""


class ZoneWatch:
    """The VMs of one zone."""

    def __init__(self, calls: Calls, zone: str) -> None:
        self._calls = calls
        self._zone = zone
        self._listed: Shared[str, _Seen] = Shared(fresh_s=_fresh_s, now=calls.access.now)

    def look(self) -> tuple[Mapping[str, Json], bool]:
        """Our VMs of the zone by name, and whether the list is whole: a partial one proves no absence.

        Raises:
            TransientError: they cannot be listed now.
        """
        return self._listed.get(self._zone, self._read)

    def _read(self) -> _Seen:
        listing = self._calls.instances(self._zone, ours())
        return {str(vm["name"]): vm for vm in listing.seen}, listing.is_whole


def _fresh_s(seen: _Seen) -> float:
    found = len(seen[0])
    return FRESH_S if found <= FEW else PAGE_COSTS_S * -(-found // 500)
