"""What a script reported while it ran, how far it is, and what its machines did.

`ddp.Session.report` writes reports into the log, `Job.metrics` reads them. Of a long run every second report
is dropped, as often as it takes.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Literal

import attrs

from gputrain.backends.agent_reports import whole
from gputrain.backends.base import LogLine
from gputrain.display.plot import Curve, Plot, is_number, is_numeric, short, sparkline
from gputrain.display.table import Table, TableDisplay
from gputrain.errors import RequestError
from gputrain.runtime import contract
from gputrain.spec.duration import format_duration

Report = Mapping[str, Any]
MOST_REPORTS = 20_000
"""Of more, every second one is dropped."""
MOST_PLOTS = 4
"""Panels that a cell of a notebook draws; the table has all metrics."""
PACE_OF = 50
"""The newest reports, from which the pace of a run is read."""
LONGEST_S = 1e9
"""More time than this is no estimate: a script without an end reports ``sys.maxsize`` steps."""

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""JSON has no such numbers: they are reported as text."""
_AXES = ("step", "time", "total_steps")


@attrs.frozen(kw_only=True)
class Progress:
    """How far a run was at its newest report."""

    step: int
    total: int
    left_s: float | None
    """Seconds to the last step, at the pace of the newest reports; None: not known."""

    @classmethod
    def of(cls, rows: Sequence[Report]) -> Progress | None:
        """Read reports, oldest first. None where they do not say how many steps there will be."""
        newest = next((row for row in reversed(rows) if is_number(row.get("step"))), {})
        total = newest.get("total_steps")
        if not is_number(total) or total < 1:
            return None
        step, pace_s = newest["step"], _pace_s(rows[-PACE_OF:])
        left_s = math.inf if pace_s is None else max(0.0, (total - step) * pace_s)
        return cls(step=int(step), total=int(total), left_s=left_s if left_s < LONGEST_S else None)

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return min(1.0, self.step / self.total)

    def __str__(self) -> str:
        return f"step {self.step:,} of {self.total:,}{self.left}"

    @property
    def left(self) -> str:
        """``, about 3m left``; empty where it is not known."""
        if not self.left_s:
            return ""
        coarse = 1 if self.left_s < 600 else 60 if self.left_s < 36_000 else 3600
        return f", about {format_duration(timedelta(seconds=math.ceil(self.left_s / coarse) * coarse))} left"


def _pace_s(rows: Sequence[Report]) -> float | None:
    """Seconds a step, since the run last started."""
    found: list[tuple[float, float]] = []
    for row in reversed(rows):
        step, at = row.get("step"), row.get("time")
        if not (is_number(step) and is_number(at)):
            continue
        if found and step > found[-1][0]:
            break  # from before a restart
        found.append((step, at))
    if not found or found[0][0] == found[-1][0] or found[0][1] < found[-1][1]:
        return None
    return (found[0][1] - found[-1][1]) / (found[0][0] - found[-1][0])


@attrs.frozen
class Metrics(TableDisplay):
    """Reports in the order in which they were made, each a mapping of names to numbers, ``step`` among them.

    Shows itself as a table with a sparkline per name, and with plots in a notebook.

    >>> metrics = Metrics.read(['GPUTRAIN_METRIC {"step": 1, "loss": 2.0}', 'something else',
    ...                         'GPUTRAIN_METRIC {"step": 2, "loss": 1.0}'])
    >>> metrics.series("loss")
    ((1, 2.0), (2, 1.0))
    """

    rows: tuple[Report, ...] = attrs.field(default=(), repr=False)
    """All reports; of more than 20,000 every second, fourth... one, and the newest."""
    count: int = 0
    """How many reports were made."""
    last: Report = attrs.field(factory=dict, repr=False)
    """The newest value of every name."""

    @classmethod
    def read(cls, lines: Iterable[str]) -> Metrics:
        """Read the reports among log lines; all other lines are skipped."""
        reports = Reports()
        reports.add(lines)
        return reports.metrics

    @property
    def progress(self) -> Progress | None:
        """How far the run is, where reports have ``total_steps``, as those of `ddp` have."""
        return Progress.of(self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of numbers, ``step`` and ``time`` apart, in order of first report."""
        seen = dict.fromkeys(name for row in self.rows for name, value in row.items() if is_numeric(value))
        return tuple(name for name in seen if name not in _AXES)

    def series(self, name: str, *, along: str = "step") -> tuple[tuple[float, float], ...]:
        """Pairs of step (or position, where no step was reported) and value, NaN and infinities included.

        Of a step that ran again after a restart, the later value counts.

        Args:
            along: ``step``, or ``time``: seconds since the first report with a time.
        """
        if along == "time":
            timed = [row for row in self.rows if is_number(row.get("time")) and is_numeric(row.get(name))]
            return tuple((row["time"] - timed[0]["time"], row[name]) for row in timed)
        rows = ((place, row) for place, row in enumerate(self.rows) if is_numeric(row.get(name)))
        return tuple(sorted({row.get("step", place): row[name] for place, row in rows}.items()))

    @property
    def table(self) -> Table:
        """First, last and lowest finite value of every name, and its history."""
        rows = []
        for name in self.names:
            values = [value for _, value in self.series(name)]
            lowest = short(min(finite)) if (finite := list(filter(is_number, values))) else ""
            rows.append((name, short(values[0]), figure(self.last[name]), lowest, sparkline(values)))
        columns = ("metric", "first", "last", "min", "history") if rows else ("",)
        return Table(columns=columns, rows=rows, right=columns[1:4], caption=self.caption)

    @property
    def caption(self) -> str:
        """How many reports there are, and how far the run is."""
        if not self.count:
            return 'no reports: print GPUTRAIN_METRIC {"step": 1, "loss": 0.5} on rank 0, or use gputrain.ddp'
        return f"{self.count} reports" + (f"; {self.progress}" if self.progress else "")

    def plot(self, *names: str, log: bool = False, x: Literal["step", "time"] = "step") -> Plot:
        """Plot metrics, each with axes of its own: these, or the first four. Drawing needs matplotlib.

        Args:
            log: a logarithmic scale of values.
            x: ``step``, or ``time`` in seconds since the first report.
        """
        series = {name: self.series(name, along=x) for name in names or self.names[:MOST_PLOTS]}
        panels = {name: [Curve(label=name, points=one)] if one else [] for name, one in series.items()}
        return Plot(panels=panels, log=log, along=x)

    def to_pandas(self) -> Any:
        """The reports as a ``pandas.DataFrame``. Raises RequestError where pandas is not installed."""
        return data_frame([dict(row) for row in self.rows], "metrics.rows")

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_()
        drawn = [n for n in self.names if any(is_number(value) for _, value in self.series(n))][:MOST_PLOTS]
        return bundle | {"text/html": bundle["text/html"] + (self.plot(*drawn).picture() if drawn else "")}


def data_frame(rows: list[dict[str, Any]], instead: str) -> Any:
    """A ``pandas.DataFrame``. Raises RequestError where pandas is not installed, with what to use instead."""
    try:
        import pandas  # type: ignore[import-untyped,unused-ignore]  # its stubs are another package
    except ImportError as error:
        fix = f"python -m pip install pandas, or use {instead}"
        raise RequestError("pandas is not installed", fix=fix) from error
    return pandas.DataFrame(rows)


class Reports:
    """Collects reports as they come in, and keeps at most some `MOST_REPORTS` of them.

    Reports of the same names are thinned alike, so that a name that is reported after each other one does not
    vanish.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, Report]] = []
        """Each with its number among the reports of the same names."""
        self._made: Counter[frozenset[str]] = Counter()
        self._every, self._most = 1, MOST_REPORTS
        self._newest: Report = {}
        self._last: dict[str, Any] = {}
        self._metrics = Metrics()

    def add(self, lines: Iterable[str]) -> None:
        """Take in the reports among log lines."""
        found = (_json_of(line, contract.METRIC_MARKER) for line in lines)
        self.take(
            MappingProxyType(
                {
                    name: _NOT_FINITE.get(value, value)
                    for name, value in report.items()
                    if not isinstance(value, (dict, list)) and (name not in _AXES or is_number(value))
                }
            )
            for report in found
            if report is not None
        )

    def take(self, rows: Iterable[Report]) -> None:
        for row in rows:
            names = frozenset(row)
            if self._made[names] % self._every == 0:
                self._rows.append((self._made[names], row))
            self._made[names] += 1
            self._newest = row
            self._last.update(row)
            if len(self._rows) > self._most:
                self._every *= 2
                self._rows = [one for one in self._rows if one[0] % self._every == 0]
                self._most = max(MOST_REPORTS, 2 * len(self._rows))  # where each report has its own names

    @property
    def metrics(self) -> Metrics:
        """What has been reported so far; the same object as long as nothing new has."""
        count = sum(self._made.values())
        if self._metrics.count != count:
            rows = [row for _, row in self._rows]
            rows += [] if rows and rows[-1] is self._newest else [self._newest]
            self._metrics = Metrics(tuple(rows), count, dict(self._last))
        return self._metrics


def _json_of(line: str, marker: str) -> dict[str, Any] | None:
    """The object behind a marker; None where there is none, or a killed rank cut it short."""
    if not line.startswith(marker):
        return None
    try:
        found = json.loads(line[len(marker) :])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def figure(value: object) -> str:
    """A value of a metric for a table: a number, or what was reported in its place."""
    return short(value) if isinstance(value, (int, float)) else "" if value is None else str(value)


_HIGHEST = ("celsius", "throttled")
"""Of a node's GPUs the highest value counts; of ``busy`` the mean, of watts and memory the sum."""
_OF_NODE = ("cpu_cores", "memory_mib")
_TOTALS = ("busy_s", "gpu_s")


class MachineUse:
    """What the nodes of a job sample every 15 s: GPUs, CPUs, memory, in names such as ``node0.gpu_busy``."""

    def __init__(self) -> None:
        self._reports = Reports()
        self._totals: dict[int, tuple[float, float]] = {}
        self._before = (0.0, 0.0)
        self._busy: dict[int, float] = {}

    def add(self, lines: Iterable[LogLine]) -> None:
        """Take in the samples among log lines."""
        for line in lines:
            sample = None if line.rank is not None else _json_of(line.message, contract.GAUGE_MARKER)
            if sample is None or not is_number(sample.get("time")):
                continue
            node = line.node_rank if line.node_rank is not None else whole(sample.get("node"))
            if node is not None:
                self._reports.take([self._row(node, sample)])

    @property
    def metrics(self) -> Metrics:
        return self._reports.metrics

    @property
    def share(self) -> float | None:
        """The share of the GPUs' time in which kernels ran, while ranks ran; None without a GPU."""
        busy_s, gpu_s = (sum(column) for column in zip(self._before, *self._totals.values()))
        return busy_s / gpu_s if gpu_s else None

    @property
    def busy(self) -> float | None:
        """The mean of the nodes' latest samples, in percent; None without a GPU."""
        return sum(self._busy.values()) / len(self._busy) if self._busy else None

    def _row(self, node: int, sample: Report) -> Report:
        listed = sample.get("gpus")
        gpus = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        row = {name: sample[name] for name in _OF_NODE if is_number(sample.get(name))}
        for name in dict.fromkeys(name for one in gpus for name in one):
            values = [one[name] for one in gpus if is_number(one.get(name))]
            if values:
                row[f"gpu_{name}"] = max(values) if name in _HIGHEST else sum(values)
        if "gpu_busy" in row:
            row["gpu_busy"] /= len(gpus)
            self._busy[node] = row["gpu_busy"]
        if all(is_number(sample.get(name)) for name in _TOTALS):
            before, totals = self._totals.get(node, (0.0, 0.0)), (sample["busy_s"], sample["gpu_s"])
            if totals[1] < before[1]:  # a new attempt counts from 0
                self._before = (self._before[0] + before[0], self._before[1] + before[1])
            self._totals[node] = totals
        return {"time": sample["time"], **{f"node{node}.{name}": value for name, value in row.items()}}
