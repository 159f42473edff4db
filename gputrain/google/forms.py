"""Bodies of answers and their parts, taken for what they should be only where they are. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from gputrain.errors import RequestError

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
