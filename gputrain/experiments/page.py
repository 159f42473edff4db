"""An experiment in one cell, and as one page that a person can mail."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gputrain import causes
from gputrain.experiments.book import Point, words
from gputrain.experiments.comparison import Comparison
from gputrain.experiments.plot import Curve, Plot
from gputrain.job import Job
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics, short, sparkline
from gputrain.terminal import safe, safe_html
from gputrain.view.notebook import BETWEEN_S, COLOURS, Cell, CellPage, cause

MOST_ROWS = 50
"""Of more points a cell tells how many stand how, which failed, and no metrics until all have ended."""
MOST_CAUSES = 3
MOST_PLOTS = 4

Row = tuple[Point, Job | None, Metrics]

_STYLE = """
:root { color-scheme: light dark }
body { font-family: sans-serif; margin: 2em; max-width: 75em }
table { border-collapse: collapse } td, th { padding: 2px 10px; text-align: left }
pre { overflow-x: auto }
"""


class LiveTable:
    """The cell of an experiment that is waited for."""

    def __init__(self, shown: Comparison) -> None:
        self._shown = shown
        self._cell = Cell()
        self._looked_at = float("-inf")

    def tick(self, *, at_once: bool = False) -> None:
        """Redraw, if it is time to look and something has changed."""
        if not at_once and time.monotonic() - self._looked_at < BETWEEN_S:
            return
        rows = rows_of(self._shown, with_metrics=at_once or len(self._shown.rows) <= MOST_ROWS)
        what = [(None if job is None else job.state, metrics.count) for _, job, metrics in rows]
        self._cell.show(what, lambda: page(self._shown, rows), at_once=at_once)
        self._looked_at = time.monotonic()


def rows_of(shown: Comparison, *, with_metrics: bool = True) -> list[Row]:
    """Each point, its job, and what that has reported so far."""
    found = shown.metrics() if with_metrics else {}
    return [(point, job, found.get(job, Metrics()) if job else Metrics()) for point, job in shown.rows]


def page(shown: Comparison, rows: Sequence[Row]) -> CellPage:
    """The cell: causes of failures, a row a point, and one picture of the first metric."""
    listed = rows if len(rows) <= MOST_ROWS else [row for row in rows if _is_notable(row)][:MOST_ROWS]
    hidden = f"<p><small>and {len(rows) - len(listed)} more</small></p>" if len(listed) < len(rows) else ""
    names = _names(rows)
    pictures = _picture(rows, names[0])._repr_html_() if names and len(rows) <= MOST_ROWS else ""
    parts = [f"<b>{safe_html(shown.title)}</b> {safe_html(shown.caption)}", _causes(shown, rows)]
    parts += [_table(listed, names[:2]), hidden, pictures]
    return CellPage("".join(parts), safe(f"{shown.title}: {shown.caption}"))


def whole(shown: Comparison) -> str:
    """The page: every point, and a picture of each of the first metrics; it needs no other file."""
    rows = rows_of(shown)
    names = _names(rows)
    title = safe_html(shown.title)
    pictures = "".join(_picture(rows, one)._repr_html_() for one in names[:MOST_PLOTS])
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1><p>{safe_html(shown.caption)}</p>"
        f"{_causes(shown, rows)}{_table(rows, names)}{pictures}</body></html>\n"
    )


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for _, _, metrics in rows for name in metrics.names))


def _is_notable(row: Row) -> bool:
    job = row[1]
    return job is not None and job.state in (State.FAILED, State.EXPIRED, State.RUNNING)


def _causes(shown: Comparison, rows: Sequence[Row]) -> str:
    """The first failures, each cause once, and why points have no job."""
    refused = list(dict.fromkeys(error.what for error in shown.errors))[:MOST_CAUSES]
    told = "".join(cause(Failure(kind=causes.UNSTARTED.kind, message=what)) for what in refused)
    found = {
        job.failure.message: (point, job.failure)
        for point, job, _ in rows
        if job is not None and job.failure is not None and job.state is State.FAILED
    }
    listed = list(found.values())[:MOST_CAUSES]
    return told + "".join(f"<p>{safe_html(words(point))}</p>{cause(failure)}" for point, failure in listed)


def _table(rows: Sequence[Row], names: Sequence[str]) -> str:
    heads = ["point", "state", "took", *names, "cost $"]
    head = "".join(f'<th style="text-align:left">{safe_html(name)}</th>' for name in heads)
    body = "".join(_row(row, names) for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(row: Row, names: Sequence[str]) -> str:
    point, job, metrics = row
    state = "not submitted" if job is None else job.state.value
    colour = COLOURS.get(job.state, "#1a73e8") if job is not None else "currentColor"
    took = "" if job is None or job.duration is None else str(job.duration).split(".")[0]
    cost = "" if job is None or job.cost_usd is None else f"{job.cost_usd:,.2f}"
    figures = []
    for name in names:
        values = [value for _, value in metrics.series(name)]
        figures.append(f"{short(values[-1])} {sparkline(values)}" if values else "")
    cells = [words(point), took, *figures, cost]
    first, *others = (f'<td style="text-align:left">{safe_html(cell)}</td>' for cell in cells)
    dot = f'<td style="text-align:left;color:{colour}">&#9679; {safe_html(state)}</td>'
    return f"<tr>{first}{dot}{''.join(others)}</tr>"


def _picture(rows: Sequence[Row], name: str) -> Plot:
    curves = (Curve(label=words(point), points=metrics.series(name)) for point, _, metrics in rows)
    return Plot(title=name, curves=tuple(one for one in curves if one.points))
