"""What a script reported while it ran: `ddp.Session.report` writes it, a job's `metrics()` reads it."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import attrs

from gputrain.entrypoint import contract
from gputrain.tables import Table

_NO_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
"""JSON has no word for these: they are reported as text."""
_BARS = "▁▂▃▄▅▆▇█"
_AXES = ("step", "time")
_SPARK_WIDTH = 24
_PLOT_WIDTH, _PLOT_HEIGHT = 360, 120


@attrs.frozen
class Metrics:
    """Reports in the order they were made, each a mapping of names to numbers, with ``step`` among them.

    Shows itself as a table with a sparkline per name, and with plots in a notebook.

    >>> metrics = Metrics.read(['GPUTRAIN_METRIC {"step": 1, "loss": 2.0}', 'something else',
    ...                         'GPUTRAIN_METRIC {"step": 2, "loss": 1.0}'])
    >>> metrics.series("loss")
    ((1, 2.0), (2, 1.0))
    """

    rows: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def read(cls, lines: Iterable[str]) -> Metrics:
        """The reports among log lines; everything else is passed over."""
        return cls(tuple(_reports(lines)))

    @property
    def last(self) -> Mapping[str, Any]:
        """The newest value of every name; empty where nothing was reported."""
        return MappingProxyType({name: value for row in self.rows for name, value in row.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """The names that hold numbers, ``step`` and ``time`` apart, in order of first report."""
        seen = dict.fromkeys(name for row in self.rows for name, value in row.items() if _is_number(value))
        return tuple(name for name in seen if name not in _AXES)

    def series(self, name: str) -> tuple[tuple[float, float], ...]:
        """Pairs of step (or position, where no step was reported) and value.

        A step that was run twice, before and after a restart, counts once: the later report holds.
        """
        points = {
            row.get("step", place): row[name]
            for place, row in enumerate(self.rows)
            if _is_number(row.get(name))
        }
        return tuple(sorted(points.items()))

    @property
    def table(self) -> Table:
        """First, last and lowest value of every name, with its course."""
        rows = []
        for name in self.names:
            values = [value for _, value in self.series(name)]
            rows.append((name, _short(values[0]), _short(values[-1]), _short(min(values)), sparkline(values)))
        columns = ("metric", "first", "last", "lowest", "course")
        return Table(columns=columns, rows=rows, right=columns[1:4], caption=f"{len(self.rows)} reports")

    def __str__(self) -> str:
        return str(self.table)

    def __rich_console__(self, console: Any, options: Any) -> Any:
        yield self.table

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        plots = "".join(_plot(name, self.series(name)) for name in self.names)
        return {"text/plain": str(self), "text/html": f"{self.table._repr_html_()}<div>{plots}</div>"}


def sparkline(values: Iterable[float], *, width: int = _SPARK_WIDTH) -> str:
    """The course of some numbers in one line of text.

    >>> sparkline([1, 2, 3, 4])
    '▁▃▆█'
    """
    finite = [value for value in values if math.isfinite(value)]
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
        except ValueError:
            continue  # a line cut short by a killed rank
        if isinstance(report, dict):
            yield MappingProxyType({name: _NO_NUMBERS.get(value, value) for name, value in _hashable(report)})


def _hashable(report: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in report.items() if not isinstance(value, (dict, list)))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _short(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _plot(name: str, points: tuple[tuple[float, float], ...]) -> str:
    """An SVG line of one metric, self-contained."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    wide, high = max(xs) - min(xs) or 1, max(ys) - min(ys) or 1
    path = " ".join(
        f"{10 + (x - min(xs)) / wide * (_PLOT_WIDTH - 20):.1f},"
        f"{_PLOT_HEIGHT - 18 - (y - min(ys)) / high * (_PLOT_HEIGHT - 40):.1f}"
        for x, y in points
    )
    label = html.escape(
        f"{name}: {_short(ys[0])} to {_short(ys[-1])}, steps {_short(min(xs))} to {_short(max(xs))}"
    )
    return (
        f'<svg width="{_PLOT_WIDTH}" height="{_PLOT_HEIGHT}" role="img" aria-label="{label}">'
        f'<text x="10" y="14" font-size="12" fill="currentColor">{label}</text>'
        f'<polyline points="{path}" fill="none" stroke="#1a73e8" stroke-width="1.5"/></svg>'
    )
