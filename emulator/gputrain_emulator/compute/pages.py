"""Answers about what is sold, written once: only an order to the catalog changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputrain_emulator import partial
from gputrain_emulator.call import Call, Reply

_MOST_BYTES = 24 << 20
"""What is kept of them; an aggregated page takes a third of a megabyte."""


class Pages:
    """The written answers by their path and query; the oldest are forgotten for the newest."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Reply] = {}
        self._held = 0

    def clear(self) -> None:
        """What is sold is no longer what it was."""
        self._kept.clear()
        self._held = 0

    def get(self, call: Call, make: Callable[[], dict[str, Any]]) -> Reply:
        """The answer to a call; ``make`` is asked for the document where it is not kept."""
        query = sorted(f"{name}={value}" for name, values in call.query_all.items() for value in values)
        key = (call.path, *query)
        reply = self._kept.get(key)
        if reply is None:
            reply = partial.render(Reply(body=make()), call.query_all)
            self._kept[key] = reply
            self._held += len(reply.body)
            while self._held > _MOST_BYTES:
                self._held -= len(self._kept.pop(next(iter(self._kept))).body)
        return reply
