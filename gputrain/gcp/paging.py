"""Lists read to their end, and known as partial where something could not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import attrs

T = TypeVar("T")
PARTIAL_WARNINGS = frozenset({"UNREACHABLE", "PARTIAL_SUCCESS", "LIST_OVERHEAD_QUOTA_EXCEED"})
"""Warnings of a list answered with 200 that lacks something. Source: compute v1 protos, 2026-11-20."""


@attrs.frozen(kw_only=True)
class Page(Generic[T]):
    """One page: its items, the token of the next (empty at the end), and what was left out."""

    items: tuple[T, ...]
    next_token: str = ""
    left_out: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Listing(Generic[T]):
    """All pages of a list. Absence proves nothing unless ``is_whole``."""

    items: tuple[T, ...]
    left_out: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True when nothing was left out."""
        return not self.left_out


def read_all(fetch: Callable[[str], Page[T]]) -> Listing[T]:
    """Read every page; ``fetch`` takes the token of a page and is empty for the first.

    >>> read_all(lambda token: Page(items=(1, 2))).items
    (1, 2)
    """
    items: list[T] = []
    left_out: dict[str, None] = {}
    token, seen = "", {""}
    while True:
        page = fetch(token)
        items += page.items
        left_out |= dict.fromkeys(page.left_out)
        token = page.next_token
        if not token:
            return Listing(items=tuple(items), left_out=tuple(left_out))
        if token in seen:
            return Listing(items=tuple(items), left_out=(*left_out, "the list repeats itself"))
        seen.add(token)


def left_out_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """What a JSON list says that it lacks: ``unreachable`` places, or a warning of Compute Engine."""
    warnings = [body["warning"]] if body.get("warning") else list(body.get("warnings") or ())
    told = [str(one.get("code")) for one in warnings if one.get("code") in PARTIAL_WARNINGS]
    return tuple(dict.fromkeys([*map(str, body.get("unreachable") or ()), *told]))
