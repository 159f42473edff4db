"""What a script reported while it ran: `ddp.Session.report` writes it, a job's `metrics()` reads it.

Reports are read once and kept thin: a run of a million steps shows as well in a few thousand points, as
long as no extreme of any name is among those that are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby, starmap
from types import MappingProxyType
from typing import Any

import attrs

from gputrain.entrypoint import contract
from gputrain.progress import LARGEST, Progress, Report, is_number, is_numeric
from gputrain.tables import Shown, Table, cut
from gputrain.terminal import safe_html

_NO_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""JSON has no word for these: they are reported as text."""
_BARS = "▁▂▃▄▅▆▇█"
_AXES = ("step", "time", "total_steps")
_SPARK_WIDTH = 24
_PLOT_WIDTH, _PLOT_HEIGHT = 360, 120
_MARGIN = 10

MOST_PLOTS = 6
"""Pictures in one cell; the table has them all."""

KEPT = 2000
"""About how many reports are kept of a long run; twice as many at most, but for the newest of each name."""


@attrs.frozen
class Metrics(Shown):
    """Reports in the order they were made, each a mapping of names to numbers, with ``step`` among them.

    Shows itself as a table with a sparkline per name, and with plots in a notebook.

    >>> metrics = Metrics.read(['GPUTRAIN_METRIC {"step": 1, "loss": 2.0}', 'something else',
    ...                         'GPUTRAIN_METRIC {"step": 2, "loss": 1.0}'])
    >>> metrics.series("loss")
    ((1, 2.0), (2, 1.0))
    """

    rows: tuple[Report, ...] = attrs.field(default=(), repr=False)
    """All of them; of more than some thousands, a choice with every name's extremes and newest value."""
    count: int = attrs.field()
    """How many reports were made."""

    @count.default
    def _all(self) -> int:
        return len(self.rows)

    @classmethod
    def read(cls, lines: Iterable[str]) -> Metrics:
        """The reports among log lines; everything else is passed over."""
        reports = Reports()
        reports.add(lines)
        return reports.metrics

    @property
    def last(self) -> Report:
        """The newest value of every name; empty where nothing was reported."""
        return MappingProxyType({name: value for row in self.rows for name, value in row.items()})

    @property
    def progress(self) -> Progress | None:
        """How far it is, where reports tell ``total_steps`` beside their ``step``, as `ddp`'s sessions do."""
        return Progress.of(self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that hold numbers, ``step`` and ``time`` apart, in order of first report."""
        seen = dict.fromkeys(name for row in self.rows for name, value in row.items() if is_numeric(value))
        return tuple(name for name in seen if name not in _AXES)

    def series(self, name: str, *, along: str = "step") -> tuple[tuple[float, float], ...]:
        """Pairs of step (or position, where no step was reported) and value.

        A step that was run twice, before and after a restart, counts once: the later report holds. NaN and
        the infinities are among the values.

        Args:
            along: ``step``, or ``time``: seconds since the first report that tells its time.
        """
        if along == "time":
            timed = [row for row in self.rows if is_number(row.get("time")) and is_numeric(row.get(name))]
            return tuple((row["time"] - timed[0]["time"], row[name]) for row in timed)
        rows = ((place, row) for place, row in enumerate(self.rows) if is_numeric(row.get(name)))
        return tuple(sorted({row.get("step", place): row[name] for place, row in rows}.items()))

    @property
    def table(self) -> Table:
        """First and last value of every name, the lowest of those that are finite, and its course."""
        return self._table({name: self.series(name) for name in self.names})

    def _table(self, series: Mapping[str, tuple[tuple[float, float], ...]]) -> Table:
        rows = []
        for name, points in series.items():
            values = [value for _, value in points]
            lowest = short(min(finite)) if (finite := list(filter(is_number, values))) else ""
            rows.append((name, short(values[0]), short(values[-1]), lowest, sparkline(values)))
        columns = ("metric", "first", "last", "lowest", "course")
        return Table(columns=columns, rows=rows, right=columns[1:4], caption=self.caption)

    @property
    def caption(self) -> str:
        """How many reports there are, and how far the run is."""
        return f"{self.count} reports" + (f"; {self.progress}" if self.progress else "")

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        series = {name: self.series(name) for name in self.names}
        drawn = {name: tuple(one for one in points if is_number(one[1])) for name, points in series.items()}
        plots = "".join(starmap(_plot, [one for one in drawn.items() if one[1]][:MOST_PLOTS]))
        table = self._table(series).brief
        return {"text/plain": str(table), "text/html": f"{table._repr_html_()}<div>{plots}</div>"}


class Reports:
    """Reports as they come in: each line is read once, and what is kept of them is bounded: `KEPT`."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, Report]] = []
        self._newest: dict[str, Report] = {}
        self._count = 0
        self._most = 2 * KEPT
        self._metrics = Metrics()

    def add(self, lines: Iterable[str]) -> None:
        """Take in the reports among some log lines."""
        self.take(_reports(lines))

    def take(self, rows: Iterable[Report]) -> None:
        """Take in reports."""
        for row in rows:
            self._rows.append((self._count, row))
            self._newest.update(dict.fromkeys(row, row))
            self._count += 1
            if len(self._rows) > self._most:
                self._rows = self._thinned()
                self._most = max(2 * KEPT, 2 * len(self._rows))  # where each report has a name of its own

    def _thinned(self) -> list[tuple[int, Report]]:
        """A choice of the reports, from stretches as short as it takes.

        Stretches are counted in reports that were made, so that old ones are not thinner than new ones.
        """
        rows, stretch = _without_reruns(self._rows), 1
        while self._count // stretch * (2 * len(self._newest) + 1) > KEPT:
            stretch *= 2
        while True:
            kept = _kept(rows, stretch) | {id(row) for row in self._newest.values()}
            if len(kept) <= 1.5 * KEPT or stretch > self._count:
                return [entry for entry in rows if id(entry[1]) in kept]
            stretch *= 2

    @property
    def metrics(self) -> Metrics:
        """What has been reported so far; the same object as long as nothing new has."""
        if self._metrics.count != self._count:
            self._metrics = Metrics(tuple(row for _, row in self._rows), self._count)
        return self._metrics


def sparkline(values: Iterable[float], *, width: int = _SPARK_WIDTH) -> str:
    """The course of some numbers in one line of text.

    >>> sparkline([1, 2, 3, 4])
    '▁▃▆█'
    """
    finite = list(filter(is_number, values))
    if not finite:
        return ""
    count = min(width, len(finite))
    picked = [finite[round(i * (len(finite) - 1) / max(1, count - 1))] for i in range(count)]
    low, span = min(picked), max(picked) - min(picked)
    return "".join(_BARS[round((value - low) / span * (len(_BARS) - 1)) if span else 0] for value in picked)


def _reports(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        if not line.startswith(contract.METRIC_MARKER):
            continue
        try:
            report = json.loads(line[len(contract.METRIC_MARKER) :])
        except (ValueError, RecursionError):
            continue  # a line cut short by a killed rank, or one that is no report
        if isinstance(report, dict):
            yield MappingProxyType({name: _NO_NUMBERS.get(value, value) for name, value in _hashable(report)})


def _hashable(report: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in report.items():
        if not isinstance(value, (dict, list)) and (name not in _AXES or is_number(value)):
            yield name, value


def short(value: float) -> str:
    """A number as a table shows it.

    >>> short(0.25), short(20_000), short(float("nan")), short(10**400)
    ('0.25', '20,000', 'nan', '1.000e+400')
    """
    if abs(value) >= LARGEST and value not in (math.inf, -math.inf):
        return f"{Decimal(value):.4g}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def figure(value: object) -> str:
    """A value of a metric as a table has it: a number, or what was reported in its place.

    >>> figure(2.5), figure("diverged"), figure(None)
    ('2.5', 'diverged', '')
    """
    return short(value) if isinstance(value, (int, float)) else "" if value is None else str(value)


def _kept(rows: Iterable[tuple[int, Report]], stretch: int) -> set[int]:
    """Of every stretch the first report, those with a name's lowest and highest value, and those at which a
    name first and last turns from numbers to NaN, to a text or back: the one before and the one after."""
    kept: set[int] = set()
    before: dict[str, tuple[str, int]] = {}
    for _, some in groupby(rows, key=lambda entry: entry[0] // stretch):
        found: dict[str, list[tuple[float, int]]] = {}
        turns: dict[str, list[tuple[int, int]]] = {}
        for place, (_, row) in enumerate(some):
            if not place:
                kept.add(id(row))
            for name, value in row.items():
                if name in _AXES:
                    continue
                now = ("" if is_number(value) else repr(value)), id(row)
                if now[0] == "":
                    found.setdefault(name, []).append((value, id(row)))
                last = before.get(name, now)
                if last[0] != now[0]:
                    turns.setdefault(name, []).append((last[1], now[1]))
                before[name] = now
        for values in found.values():
            kept.update((min(values)[1], max(values)[1]))
        for pairs in turns.values():
            kept.update((*pairs[0], *pairs[-1]))
    return kept


def _without_reruns(rows: list[tuple[int, Report]]) -> list[tuple[int, Report]]:
    """The rows without the values that a later report of the same step replaces."""
    seen: set[tuple[object, str]] = set()
    left: list[tuple[int, Report]] = []
    for place, row in reversed(rows):
        step = row.get("step")
        named = {(step, name) for name in row if name not in _AXES} if "step" in row else set()
        replaced = {name for _, name in named & seen}
        seen |= named
        if not replaced:
            left.append((place, row))
        elif len(replaced) < len(named):
            left.append((place, {name: value for name, value in row.items() if name not in replaced}))
    return left[::-1]


def _plot(name: str, points: tuple[tuple[float, float], ...]) -> str:
    """An SVG line of one metric, self-contained, with at most two points a column of pixels."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)
    wide, tall = right - left or 1, high - low or 1
    width = _PLOT_WIDTH - 2 * _MARGIN
    drawn = thinned([((x - left) / wide * width, (y - low) / tall * (_PLOT_HEIGHT - 40)) for x, y in points])
    path = " ".join(f"{_MARGIN + int(x)},{_PLOT_HEIGHT - 18 - y:.1f}" for x, y in drawn)
    course = f"{short(ys[0])} to {short(ys[-1])}, steps {short(left)} to {short(right)}"
    label = safe_html(f"{cut(name)}: {course}")
    return (
        f'<svg width="{_PLOT_WIDTH}" height="{_PLOT_HEIGHT}" role="img" aria-label="{label}">'
        f'<text x="10" y="14" font-size="12" fill="currentColor">{label}</text>'
        f'<polyline points="{path}" fill="none" stroke="#1a73e8" stroke-width="1.5"/></svg>'
    )


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points in pixels, of each column of them the lowest and the highest, in their order: no spike is lost.

    >>> thinned([(0.0, 1.0), (0.2, 9.0), (0.4, 0.0), (7.1, 5.0)])
    [(0.2, 9.0), (0.4, 0.0), (7.1, 5.0)]
    """
    columns: dict[int, tuple[int, int]] = {}
    for place, (x, y) in enumerate(points):
        low, high = columns.get(int(x), (place, place))
        if y < points[low][1]:
            low = place
        elif y > points[high][1]:
            high = place
        columns[int(x)] = low, high
    return [points[place] for pair in columns.values() for place in sorted(set(pair))]
