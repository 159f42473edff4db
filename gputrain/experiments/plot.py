"""One picture of many curves: an SVG that needs nothing else, readable in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from gputrain.metrics import short, sparkline, thinned
from gputrain.progress import is_number
from gputrain.tables import MOST_ROWS, cut
from gputrain.terminal import safe, safe_html

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 28, 40
COLOURS = ("#1a73e8", "#d93025", "#188038", "#f29900", "#9334e6", "#12a4af", "#e52592", "#7c6f64")
"""Each is told from white and from a dark page."""
NAMED = 12
"""So many curves are named beside the picture; of more, each is named where the mouse is."""


@attrs.frozen(kw_only=True)
class Curve:
    """One job's course of one metric."""

    label: str = attrs.field(converter=cut)
    points: tuple[tuple[float, float], ...]


@attrs.frozen(kw_only=True)
class Plot:
    """Curves in one picture; it shows itself in a notebook, and as sparklines anywhere else."""

    title: str
    curves: tuple[Curve, ...]
    log: bool = False
    along: str = "step"

    def save(self, path: str) -> None:
        """Write the picture as a file, ``.svg``."""
        Path(path).write_text(self.svg(namespace=' xmlns="http://www.w3.org/2000/svg"'), encoding="utf-8")

    def svg(self, *, namespace: str = "") -> str:
        """The picture."""
        drawn, left_out = self._drawn()
        if not drawn:
            none = f"<text x='10' y='20' fill='currentColor'>no {safe_html(self.title)} yet</text>"
            return f"<svg{namespace} width='{WIDTH}' height='30'>{none}</svg>"
        frame = _Frame.around(drawn)
        note = f", {left_out} not above 0 left out" if left_out else ""
        heading = safe_html(f"{self.title}{' (log)' if self.log else ''}{note}")
        size = f'width="{WIDTH}" height="{HEIGHT}" font-size="11" font-family="sans-serif"'
        parts = [
            f'<svg{namespace} {size} role="img" aria-label="{heading}" fill="currentColor">',
            f'<text x="{LEFT}" y="16" font-size="13">{heading}</text>',
            *frame.axes(self.log, self.along),
        ]
        coarse = max(1.0, len(drawn) / 2)  # of many curves each is drawn in wider columns
        for number, (label, points) in enumerate(drawn):
            colour = COLOURS[number % len(COLOURS)]
            path = " ".join(f"{int(x)},{y:.1f}" for x, y in frame.path(points, coarse))
            name = safe_html(label)
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5">'
                f"<title>{name}</title></polyline>"
            )
        return "".join(parts) + "</svg>"

    def _drawn(self) -> tuple[list[tuple[str, list[tuple[float, float]]]], int]:
        """Curves as they are drawn, and how many values a logarithm has no room for."""
        drawn, left_out = [], 0
        for curve in self.curves:
            points = [(x, y) for x, y in curve.points if is_number(y)]
            if self.log:
                left_out += sum(y <= 0 for _, y in points)
                points = [(x, math.log10(y)) for x, y in points if y > 0]
            if points:
                drawn.append((curve.label, points))
        return drawn, left_out

    def __str__(self) -> str:
        lines = [safe(self.title)]
        for curve in self.curves[:MOST_ROWS]:
            values = [y for _, y in curve.points]
            lines.append(f"{safe(curve.label)}  {sparkline(values)}  {short(values[-1])}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        named = "".join(
            f'<span style="margin-right:1em"><b style="color:{COLOURS[number % len(COLOURS)]}">&#9644;</b> '
            f"{safe_html(curve.label)}</span>"
            for number, curve in enumerate(self.curves[:NAMED])
        )
        more = len(self.curves) - NAMED
        rest = f"and {more} more: hover over a curve" if more > 0 else ""
        return (
            f'<div>{self.svg()}<div style="font-size:smaller;max-width:{WIDTH}px">{named}{rest}</div></div>'
        )

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


@attrs.frozen(kw_only=True)
class _Frame:
    low_x: float
    high_x: float
    low_y: float
    high_y: float

    @classmethod
    def around(cls, drawn: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> _Frame:
        xs = [x for _, points in drawn for x, _ in (points[0], points[-1])]
        ys = [y for _, points in drawn for _, y in points]
        return cls(low_x=min(xs), high_x=max(xs), low_y=min(ys), high_y=max(ys))

    def path(self, points: Sequence[tuple[float, float]], coarse: float) -> list[tuple[float, float]]:
        """Where the curve goes, with at most two points a column of so many pixels."""
        drawn = thinned([(self.x(x) / coarse, self.y(y)) for x, y in points])
        return [(x * coarse, y) for x, y in drawn]

    def x(self, value: float) -> float:
        wide = self.high_x - self.low_x or 1.0
        return LEFT + (value - self.low_x) / wide * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        tall = self.high_y - self.low_y or 1.0
        return HEIGHT - BOTTOM - (value - self.low_y) / tall * (HEIGHT - TOP - BOTTOM)

    def axes(self, log: bool, along: str) -> list[str]:
        lines = []
        for value in _ticks(self.low_y, self.high_y):
            y = self.y(value)
            text = short(10**value) if log else short(value)
            lines.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
                f'stroke-opacity="0.15"/><text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
            )
        for value in _ticks(self.low_x, self.high_x):
            x = self.x(value)
            lines.append(
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(value)}</text>'
            )
        unit = "seconds" if along == "time" else along
        lines.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{unit}</text>')
        return lines


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers between two.

    >>> _ticks(0.0, 10.0)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    raw = (high - low) / 5
    if raw <= 0:  # also where a fifth is less than any number
        return [low]
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(one * size for one in (1, 2, 5, 10) if one * size >= raw * 0.999)
    first = math.ceil(low / step)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]
