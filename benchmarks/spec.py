"""A malformed spec is answered at once."""

import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, Spread, timed_s

from gputrain import SpecError, TrainingSpec

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.malformed import malformed


def refused(kwargs: dict) -> None:
    try:
        TrainingSpec(**kwargs)
    except SpecError:
        return
    raise AssertionError(f"{kwargs} was taken")


def measure() -> Iterator[Measure]:
    """The slowest of 500, in each of some rounds."""
    slowest = [max(timed_s(lambda one=one: refused(one)) for _, one in malformed()) for _ in range(5)]
    yield Spread.of_times(slowest, per=1e-3).measure("slowest of 500 malformed specs", target=50, unit="ms")
