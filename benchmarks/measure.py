"""One measured number, its spread and its target; what is compared takes turns, as load changes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Measure:
    """``value`` is to be at most ``target``, both in ``unit``; ``x`` is a ratio in one run.

    ``low`` and ``high`` are where half of the rounds lie; for times, ``low`` is the least: load only adds.
    """

    what: str
    value: float
    target: float
    unit: str = "x"
    note: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> str:
        """``held``, ``NOT HELD``, or ``open``: the target lies within the spread, so that load may be why."""
        if self.value <= self.target:
            return "held"
        return "NOT HELD" if self.low is None or self.low > self.target else "open"

    def widened(self, times: float) -> Measure:
        """The same, as far down as it would be on a machine that is not so many times slowed by others."""
        if self.low is None or self.unit not in ("s", "ms", "%"):
            return self
        return attrs.evolve(self, low=self.low / times)


@attrs.frozen(kw_only=True)
class Spread:
    """Where the figures of some rounds lie."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread:
        """The median, and where half of them lie."""
        if len(figures) < 4:
            return cls(value=statistics.median(figures), low=min(figures), high=max(figures))
        low, value, high = statistics.quantiles(figures, n=4, method="inclusive")
        return cls(value=value, low=low, high=high)

    @classmethod
    def of_times(cls, figures: Sequence[float], *, per: float = 1.0) -> Spread:
        """As `of`, but down to the least, as load only adds; in units of ``per`` seconds."""
        found = cls.of(figures)
        return cls(value=found.value / per, low=min(figures) / per, high=found.high / per)

    def is_clear_of(self, target: float) -> bool:
        """Whether all of it lies a tenth below the target, or a tenth above."""
        return self.high < 0.9 * target or self.low > 1.1 * target

    def measure(self, what: str, *, target: float, unit: str = "x", note: str = "") -> Measure:
        """This, held against a target."""
        return Measure(what=what, target=target, unit=unit, note=note, **attrs.asdict(self))


@attrs.frozen
class Rounds:
    """What some runs took, round by round."""

    figures: Mapping[str, Sequence[float]]

    def ratio(self, one: str, other: str) -> Spread:
        """Of one run to another, each within its own round."""
        return Spread.of([a / b for a, b in zip(self.figures[one], self.figures[other])])

    @property
    def note(self) -> str:
        """The medians, in seconds."""
        return ", ".join(f"{name} {statistics.median(took):.3g} s" for name, took in self.figures.items())


def alternated(
    runs: Mapping[str, Callable[[], float]],
    *,
    rounds: int = 5,
    least: int = 3,
    warm_up: int = 1,
    most_s: float = 30.0,
    until: Callable[[Rounds], bool] = lambda _: False,
) -> Rounds:
    """Each run's own figures over rounds that take turns in being first (a b c, c b a, ...).

    Args:
        rounds, least: so many at most, and at least.
        warm_up: rounds before them that count for nothing.
        most_s: no round is begun after so many seconds, once there are the least.
        until: ends them where the figures so far are clear; asked once there are the least.
    """
    figures: dict[str, list[float]] = {name: [] for name in runs}
    began = time.monotonic()
    for number in range(warm_up + rounds):
        if number - warm_up >= least and (time.monotonic() - began > most_s or until(Rounds(figures))):
            break
        for name in runs if number % 2 else reversed(runs):
            figure = runs[name]()
            if number >= warm_up:
                figures[name].append(figure)
    return Rounds(figures)


@attrs.frozen
class Cost:
    """What a whole process took, from its start to its end."""

    wall_s: float
    processor_s: float


def cost_of(command: Sequence[str], env: Mapping[str, str] | None = None) -> Cost:
    """Run a command to exit 0."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}: {said.decode()[-2000:]}")
    return Cost(time.perf_counter() - begin, used.ru_utime + used.ru_stime)


def python(code: str) -> Cost:
    """A fresh interpreter, with byte code at hand as after an installation."""
    return cost_of([sys.executable, "-c", code], with_byte_code())


def python_s(code: str) -> float:
    """Seconds that a fresh interpreter takes."""
    return python(code).wall_s


def with_byte_code() -> dict[str, str]:
    """This environment, in which Python keeps its byte code where it lies, as after an installation."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def timed_s(call: Callable[[], object], *, times: int = 1) -> float:
    """Seconds a call takes, the mean of ``times`` calls."""
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def slowed(seconds: float = 0.1) -> float:
    """How many times longer than on a machine of one's own something takes just now."""
    wall, spent = time.perf_counter(), time.thread_time()
    while time.thread_time() < spent + seconds:
        pass
    return max(1.0, (time.perf_counter() - wall) / seconds)


def peak_mib() -> float:
    """The most memory that this process had; `getrusage` would count what its parent had when it forked."""
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def calls_of_a_submit(seen: Sequence[Any]) -> Iterator[Measure]:
    """Requests of a submit of code that is sent already: two writes of the record, one of the job."""
    reads = [one.method for one in seen if one.verb in ("GET", "HEAD")]
    writes = [one.method for one in seen if one.verb not in ("GET", "HEAD")]
    what = "of a submit of unchanged code"
    yield Measure(what=f"writes {what}", value=len(writes), target=3, unit="", note=", ".join(writes))
    yield Measure(what=f"reads {what}", value=len(reads), target=6, unit="", note=", ".join(reads))
