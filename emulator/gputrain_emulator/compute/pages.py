"""Answers about what is sold, written once a process: they are long, and the same in most clouds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

from gputrain_emulator import partial
from gputrain_emulator.call import Call, Reply
from gputrain_emulator.compute.state import Compute

_MOST_BYTES = 24 << 20
"""What is kept of them; an aggregated page takes a third of a megabyte."""
_lock = threading.Lock()
_kept: dict[Hashable, Reply] = {}
"""By project, path, query and the cloud's own offers; the oldest are forgotten for the newest."""


def page(call: Call, make: Callable[[], dict[str, Any]]) -> Reply:
    """The answer to a call; ``make`` is asked for the document where it is not kept."""
    here = call.world.part(Compute)
    query = sorted((name, *values) for name, values in call.query_all.items())
    key = (call.owner.id, call.path, *query, frozenset(here.offers.items()), *here.new_machines.values())
    if (reply := _kept.get(key)) is None:
        with _lock:
            _kept[key] = reply = partial.render(Reply(body=make()), call.query_all)
            while sum(len(one.body) for one in _kept.values()) > _MOST_BYTES:
                del _kept[next(iter(_kept))]
    return reply
