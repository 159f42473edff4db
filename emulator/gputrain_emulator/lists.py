"""Lists in pages, whose tokens are the number of the item that comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.errors import ApiError


def numbered(call: Call, name: str, found: Sequence[Any], *, default: int, most: int) -> dict[str, Any]:
    """The page of `found` that a query asks for, as `{name: [...], "nextPageToken": ...}`.

    Raises:
        ApiError: 400 for a token that is none, or a negative size.
    """
    token, size = str(call.query.get("pageToken") or "0"), int(call.query.get("pageSize") or 0)
    if not (token.isascii() and token.isdigit() and len(token) < 10) or size < 0:
        raise ApiError(400, "Request contains an invalid argument.")
    start, size = int(token), min(size or default, most)
    page = list(found[start : start + size])
    rest = {"nextPageToken": str(start + size)} if start + size < len(found) else {}
    return {**({name: page} if page else {}), **rest}
