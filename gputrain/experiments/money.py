"""One limit on what all points cost together: what each new point may use. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gputrain.errors import RequestError

LEAST_USD = 1e-6
"""A point's limit is told in steps of it, and is never less."""


def shares(max_cost: float, held: Sequence[float | None], new: int) -> tuple[float, ...]:
    """The limit of each new point, so that all together never cost more than the limit on them all.

    Args:
        max_cost: US dollars for all points, those that are there and the new ones.
        held: what each point that is there may still come to: what it has cost, where it has ended and is
            not submitted again, else its own limit. None: it has none, and nobody knows what it will cost.
        new: how many are new; they share equally what is left.

    Raises:
        RequestError: the limit cannot be kept.

    >>> shares(10.0, [4.0], 2)
    (3.0, 3.0)
    """
    free = [one for one in held if one is None]
    taken = math.fsum(one for one in held if one is not None)
    if free:
        raise RequestError(
            f"max_cost={max_cost:g} cannot be kept; nothing was submitted",
            why=f"{_points(len(free))} of it may run without a limit, or cost what nobody knows",
            fix="cancel it, and map what is missing under another name= with max_cost= from the start",
        )
    left = max_cost - taken
    share = math.floor(left / new / LEAST_USD) * LEAST_USD if new else 0.0
    if left < -LEAST_USD * len(held) or (new and share < LEAST_USD):
        least = math.ceil((taken + new * 0.01) * 100) / 100
        raise RequestError(
            f"max_cost={max_cost:g} is not enough; nothing was submitted",
            why=f"{_points(len(held))} of it may come to ${taken:,.2f} already, and {new} more are asked for",
            fix=f"max_cost={least:g} or more, or cancel what runs and take another name=",
        )
    return (round(share, 6),) * new


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"
