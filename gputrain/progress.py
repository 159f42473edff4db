"""How far a run is, and how long it still takes, by what it reported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeGuard

import attrs

from gputrain.spec.durations import format_duration

PACE_OF = 50
"""So many of the newest reports tell how fast it goes."""
LONGEST_S = 1e9
"""Longer than this nobody waits: a script without an end reports ``sys.maxsize`` steps."""

Report = Mapping[str, Any]
LARGEST = 1e300
"""What is larger cannot be drawn beside anything else: differences of two such are no numbers."""


@attrs.frozen(kw_only=True)
class Progress:
    """How far a run was when it reported last.

    >>> str(Progress(step=120, total=1000, left_s=200.0))
    'step 120 of 1,000, about 3m20s left'
    """

    step: int
    total: int
    left_s: float | None
    """Seconds to the last step, at the pace of the newest reports; None: not known, or no end."""

    @classmethod
    def of(cls, rows: Sequence[Report]) -> Progress | None:
        """That of some reports, oldest first; None where they do not say how many steps there will be."""
        newest = next((row for row in reversed(rows) if is_number(row.get("step"))), {})
        total = newest.get("total_steps")
        if not is_number(total) or total < 1:
            return None
        step, pace_s = newest["step"], _pace_s(rows[-PACE_OF:])
        left_s = math.inf if pace_s is None else max(0.0, (total - step) * pace_s)
        return cls(step=int(step), total=int(total), left_s=left_s if left_s < LONGEST_S else None)

    @property
    def share(self) -> float:
        """0 at the beginning, 1 at the end."""
        return min(1.0, self.step / self.total)

    def __str__(self) -> str:
        return f"step {self.step:,} of {self.total:,}{self.left}"

    @property
    def left(self) -> str:
        """``, about 3m left``; empty where nobody knows."""
        if not self.left_s:
            return ""
        coarse = 1 if self.left_s < 600 else 60 if self.left_s < 36_000 else 3600
        return f", about {format_duration(timedelta(seconds=math.ceil(self.left_s / coarse) * coarse))} left"


def _pace_s(rows: Sequence[Report]) -> float | None:
    """Seconds a step among the newest of these, since the run last started."""
    found: list[tuple[float, float]] = []
    for row in reversed(rows):
        step, at = row.get("step"), row.get("time")
        if not (is_number(step) and is_number(at)):
            continue
        if found and step > found[-1][0]:
            break  # these were reported before a restart
        found.append((step, at))
    if not found or found[0][0] == found[-1][0] or found[0][1] < found[-1][1]:
        return None
    return (found[0][1] - found[-1][1]) / (found[0][0] - found[-1][0])


def is_numeric(value: object) -> TypeGuard[float]:
    """Whether it is a number at all; NaN and the infinities are."""
    return type(value) in (float, int)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is one that can be drawn."""
    return is_numeric(value) and abs(value) < LARGEST
