"""Curves as a picture, by matplotlib where it is installed, and as sparklines anywhere."""

from __future__ import annotations

import base64
import io
import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeGuard

import attrs

from gputrain.display.table import cut
from gputrain.errors import RequestError
from gputrain.text import escape_html, sanitize

LARGEST = 1e300
"""What is larger cannot be drawn beside anything else."""
NAMED = 12
"""Curves that a legend names."""
_BARS = "▁▂▃▄▅▆▇█"
_WIDE, _HIGH = 6.4, 3.0  # inches of one panel


def is_numeric(value: object) -> TypeGuard[float]:
    """Whether it is a number; NaN and the infinities are."""
    return type(value) in (float, int)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number that can be drawn."""
    return is_numeric(value) and abs(value) < LARGEST


def short(value: float) -> str:
    """A number for a table."""
    if abs(value) >= LARGEST and value not in (math.inf, -math.inf):
        return f"{Decimal(value):.4g}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def sparkline(values: Iterable[float], *, width: int = 24) -> str:
    """Numbers as one line of bars; those that are not finite are left out."""
    finite = list(filter(is_number, values))
    if not finite:
        return ""
    count = min(width, len(finite))
    picked = [finite[round(i * (len(finite) - 1) / max(1, count - 1))] for i in range(count)]
    low, span = min(picked), max(picked) - min(picked)
    return "".join(_BARS[round((value - low) / span * (len(_BARS) - 1)) if span else 0] for value in picked)


@attrs.frozen(kw_only=True)
class Curve:
    label: str = attrs.field(converter=cut)
    points: tuple[tuple[float, float], ...]
    """Pairs of step, or seconds, and value."""


@attrs.frozen(kw_only=True)
class Plot:
    """Curves in one picture, which shows itself in a notebook; without matplotlib as sparklines."""

    panels: Mapping[str, Sequence[Curve]]
    """By their titles."""
    log: bool = False
    along: str = "step"

    def figure(self) -> Any:
        """The ``matplotlib.figure.Figure``. Raises RequestError where matplotlib is not installed."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise RequestError(
                "matplotlib is not installed, and gputrain draws with it",
                fix="python -m pip install matplotlib, or print(plot) for sparklines",
            ) from error
        columns = min(2, max(1, len(self.panels)))
        rows = math.ceil(len(self.panels) / columns) or 1
        figure = Figure(figsize=(_WIDE * columns, _HIGH * rows), layout="constrained")
        places = figure.subplots(rows, columns, squeeze=False).flat
        for axes, (title, curves) in zip(places, self.panels.items()):
            self._draw(axes, title, curves)
        for axes in list(figure.axes)[len(self.panels) :]:
            axes.remove()
        return figure

    def _draw(self, axes: Any, title: str, curves: Sequence[Curve]) -> None:
        lines, left_out = [], 0
        for curve in curves:
            ys = [float(y) if is_number(y) else math.nan for _, y in curve.points]
            left_out += sum(y <= 0 for y in ys) if self.log else 0
            # one value alone is no line
            lines += axes.plot([x for x, _ in curve.points], ys, linewidth=1.5, marker="." * (len(ys) == 1))
        if self.log and any(y > 0 for curve in curves for _, y in curve.points):
            axes.set_yscale("log", nonpositive="mask")
        note = f", {left_out} values not above 0 left out" if left_out else ""
        title = f"{sanitize(cut(title))}{' (log)' if self.log else ''}{note}"
        axes.set_title(title if lines else f"no {title} yet", fontsize=11, parse_math=False)
        axes.set_xlabel("seconds" if self.along == "time" else self.along)
        axes.grid(alpha=0.25)
        if len(curves) > 1:
            # a label that begins with an underscore would be left out
            labels = [f" {sanitize(curve.label)}" for curve in curves[:NAMED]]
            rest = len(curves) - NAMED
            legend = axes.legend(
                lines[:NAMED], labels, title=f"and {rest} more" if rest > 0 else None, fontsize=8,
                loc="center left", bbox_to_anchor=(1, 0.5),
            )  # fmt: skip
            for text in legend.get_texts():
                text.set_parse_math(False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture; the name's end says how: ``.svg``, ``.png``, ``.pdf``. Raises as `figure`."""
        self._write(path)

    def _write(self, path: Any, **how: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of letters that the font lacks
            self.figure().savefig(path, **how)

    def __str__(self) -> str:
        lines = []
        for title, curves in self.panels.items():
            lines.append(sanitize(title) if curves else f"no {sanitize(title)} yet")
            for curve in curves:
                values = [y for _, y in curve.points]
                lines.append(f"{sanitize(curve.label)}  {sparkline(values)}  {short(values[-1])}")
        return "\n".join(lines)

    def picture(self) -> str:
        """The picture as html; empty where matplotlib is not installed."""
        out = io.BytesIO()
        try:
            self._write(out, format="png", dpi=100)
        except RequestError:
            return ""
        png = base64.b64encode(out.getvalue()).decode()
        names = escape_html(", ".join(self.panels))
        return f'<img alt="{names}" style="max-width:100%" src="data:image/png;base64,{png}">'

    def _repr_html_(self) -> str:
        return self.picture() or f"<pre>{escape_html(str(self))}</pre>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}
