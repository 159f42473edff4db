"""One measured number and its target; timing by interleaved runs, so that load falls on all alike."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Measure:
    """``value`` is held when it is at most ``target`` (both in ``unit``; ``x`` is a ratio in one run)."""

    what: str
    value: float
    target: float
    unit: str = "x"
    note: str = ""

    @property
    def is_held(self) -> bool:
        """Whether the target is reached."""
        return self.value <= self.target


def medians(
    runs: Mapping[str, Callable[[], float]], *, rounds: int = 5, warm_up: int = 1
) -> dict[str, float]:
    """The median of each run's own figure over interleaved rounds (a b c a b c ...)."""
    figures: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(warm_up + rounds):
        for name, run in runs.items():
            figure = run()
            if number >= warm_up:
                figures[name].append(figure)
    return {name: statistics.median(values) for name, values in figures.items()}


def wall_s(command: Sequence[str], **kwargs: object) -> float:
    """Seconds that a command takes from start to exit 0."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **kwargs)
    return time.perf_counter() - begin


def python_s(code: str) -> float:
    """Seconds that a fresh interpreter takes, with byte code at hand as after an installation."""
    return wall_s([sys.executable, "-c", code], env=with_byte_code())


@functools.cache
def with_byte_code() -> dict[str, str]:
    """This environment, with a cache of byte code that lasts as long as this process."""
    cache = tempfile.mkdtemp(prefix="gputrain-byte-code-")
    atexit.register(shutil.rmtree, cache)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**env, "PYTHONPYCACHEPREFIX": cache}


def timed_s(call: Callable[[], object], *, times: int = 1) -> float:
    """Seconds a call takes, the mean of ``times`` calls."""
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def calls_of_a_submit(seen: Sequence[Any]) -> Iterator[Measure]:
    """Requests that an emulator saw, when code was submitted again: the record and the job are written."""
    reads = [one.method for one in seen if one.verb in ("GET", "HEAD")]
    writes = [one.method for one in seen if one.verb not in ("GET", "HEAD")]
    what = "of a submit of unchanged code"
    yield Measure(what=f"writes {what}", value=len(writes), target=2, unit="", note=", ".join(writes))
    yield Measure(what=f"reads {what}", value=len(reads), target=6, unit="", note=", ".join(reads))
