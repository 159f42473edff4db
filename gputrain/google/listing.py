"""Lists that may be partial: what is not in a partial list may well exist. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import attrs

from gputrain.errors import TransientError
from gputrain.google.forms import mappings, texts

T = TypeVar("T")
PARTIAL_WARNINGS = frozenset({"UNREACHABLE", "PARTIAL_SUCCESS", "LIST_OVERHEAD_QUOTA_EXCEED"})
"""Warnings of a list answered with 200 that lacks something. Source: compute v1 protos, 2026-11-20."""


class PartialListError(TransientError):
    """A list is partial, so it does not say what is gone; ``items`` is what it shows."""

    kind = "incomplete_list"
    items: tuple[Any, ...] = ()


@attrs.frozen
class Listing(Generic[T]):
    """The items of a list that were read, and what of it could not be read."""

    items: tuple[T, ...]
    missing: tuple[str, ...] = ()
    """Places, or Google's codes for what is missing; empty: ``items`` is everything."""

    def require_complete(self, action: str) -> tuple[T, ...]:
        """The items, where they are all there are; ``action`` says what for. Raises PartialListError."""
        if self.missing:
            raise PartialListError(
                f"could not {action}: the list is not whole",
                why=f"left out: {', '.join(self.missing)}",
                fix="try again in a minute: what was not seen is left alone",
                items=self.items,
            )
        return self.items


def missing_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """What a JSON list says that it lacks: places, or a warning of Compute Engine."""
    warnings = (*mappings([body.get("warning")]), *mappings(body.get("warnings")))
    codes = [code for one in warnings if (code := str(one.get("code"))) in PARTIAL_WARNINGS]
    places = (*texts(body.get("unreachable")), *texts(body.get("unreachables")))
    return tuple(dict.fromkeys([*(place.rpartition("/")[2] for place in places), *codes]))
