"""Looks at many jobs with few calls: one list of the VMs of a zone, shared by all jobs there.

There is no thread here. Whoever looks first lists; whoever looks soon after reads what was listed.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from gputrain.backends.compute.calls import Calls, ours
from gputrain.backends.compute.official import Json

FRESH_S = 0.5
PAGE_COSTS_S = 2.0
"""500 VMs on a page, and a page in each 2 s is 30 calls a minute: half of what 1,000 VMs may cost."""


class Watch:
    """The VMs of one zone."""

    def __init__(self, calls: Calls, zone: str) -> None:
        self._calls = calls
        self._zone = zone
        self._lock = threading.Lock()
        self._seen: Mapping[str, Json] = {}
        self._left_out: tuple[str, ...] = ()
        self._until = float("-inf")

    def look(self) -> tuple[Mapping[str, Json], bool]:
        """Our VMs of the zone by name, and whether the list is whole: a partial one proves no absence.

        Raises:
            TransientError: they cannot be listed now.
        """
        with self._lock:
            if self._calls.access.now() >= self._until:
                listing = self._calls.instances(self._zone, ours())
                self._seen = {str(vm["name"]): vm for vm in listing.items}
                self._left_out = listing.left_out
                pages = max(1, -(-len(listing.items) // 500))
                fresh_s = FRESH_S if len(listing.items) < 100 else PAGE_COSTS_S * pages
                self._until = self._calls.access.now() + fresh_s
            return self._seen, not self._left_out
