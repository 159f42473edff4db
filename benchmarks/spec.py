"""A malformed spec is answered at once."""

import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Measure, timed_s

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
    """The slowest of 500."""
    slowest = max(timed_s(lambda kwargs=kwargs: refused(kwargs)) for _, kwargs in malformed())
    yield Measure(what="slowest of 500 malformed specs", value=slowest * 1000, target=50, unit="ms")
