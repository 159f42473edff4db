"""Bodies of answers and their parts, taken for what they should be only where they are; partial lists.

What is not in a partial list may well exist. Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import attrs

from gputrain.errors import RequestError, TransientError

T = TypeVar("T")
Json = dict[str, Any]


def mapping(value: object) -> Json:
    """A JSON object; empty where it is none."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> tuple[Json, ...]:
    """The JSON objects of a list; none where it is no list."""
    return tuple(one for one in value if isinstance(one, dict)) if isinstance(value, list) else ()


def texts(value: object) -> tuple[str, ...]:
    """The texts of a list; none where it is no list."""
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def whole_number(value: object) -> int | None:
    """A count, which JSON of Google writes as a number or as its text; None: it is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    is_one = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**19
    return value if is_one else None  # type: ignore[return-value]  # isinstance is behind a name


def number(value: object) -> float | None:
    """A finite number, which JSON of Google may write as its text; None: it is none."""
    try:
        found = (
            float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else math.nan
        )
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def value_of(kind: Any, body: Mapping[str, Any], *, of: str, library: str) -> Any:
    """A client library's own value of a request's JSON; nothing is sent.

    Raises:
        RequestError: a field that the library does not know, or a value that does not fit it.
    """
    from google.protobuf.json_format import ParseError

    try:
        return kind.from_json(json.dumps(dict(body)))
    except ParseError as error:
        raise RequestError(
            f"{of} takes no such request",
            why=str(error),
            fix=f"this release of {library} does not know it: pip install -U {library}",
            raw=dict(body),
        ) from error


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
