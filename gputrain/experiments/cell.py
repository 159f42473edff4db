"""An experiment while it is waited for, in a cell or at a terminal, and as a page that can be sent."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from gputrain import causes
from gputrain.experiments.comparison import Comparison
from gputrain.experiments.plot import Curve, Plot
from gputrain.experiments.points import Point, words
from gputrain.job import Job
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics, figure, short, sparkline
from gputrain.tables import Table, cut
from gputrain.terminal import safe, safe_html
from gputrain.view import BETWEEN_S, Cell, CellPage, cause, place_of

MOST_ROWS = 50
"""Of more points a cell tells how many stand how, which failed, and no metrics until all have ended."""
MOST_RUNNING = 12
"""Running points that a terminal lists."""
MOST_CAUSES = 3
MOST_PLOTS = 4

Row = tuple[Point, Job | None, Metrics]

_STYLE = """
:root { color-scheme: light dark }
body { font-family: sans-serif; margin: 2em; max-width: 75em }
table { border-collapse: collapse } td, th { padding: 2px 10px; text-align: left }
pre { overflow-x: auto }
"""


class Watched:
    """An experiment that is waited for, where nothing is shown."""

    def __init__(self, shown: Comparison) -> None:
        self._shown = shown
        self._looked_at = float("-inf")

    def tick(self, *, at_once: bool = False) -> None:
        """Look, if it is time to."""
        if at_once or time.monotonic() - self._looked_at >= BETWEEN_S:
            self._look(at_once=at_once)
            self._looked_at = time.monotonic()

    def _look(self, *, at_once: bool) -> None:
        pass

    def close(self) -> None:
        """The waiting has ended."""

    def _rows(self, *, at_once: bool) -> list[Row]:
        return rows_of(self._shown, with_metrics=at_once or len(self._shown.rows) <= MOST_ROWS)


class LiveTable(Watched):
    """The cell of an experiment."""

    def __init__(self, shown: Comparison) -> None:
        super().__init__(shown)
        self._cell = Cell()

    def _look(self, *, at_once: bool) -> None:
        rows = self._rows(at_once=at_once)
        what = [(None if job is None else job.state, metrics.count) for _, job, metrics in rows]
        self._cell.show(what, lambda: page(self._shown, rows), at_once=at_once)


class PlainCounts(Watched):
    """A line whenever points stand otherwise."""

    _told = ""

    def _look(self, *, at_once: bool) -> None:  # noqa: ARG002  # as of the others
        told, self._told = self._told, safe(f"{self._shown.title}: {self._shown.caption}")
        if told != self._told:
            sys.stderr.write(f"-- {self._told}\n")


class LiveText(Watched):
    """At a terminal: how the points stand, and what runs now."""

    def __init__(self, shown: Comparison) -> None:
        super().__init__(shown)
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=False)
        self._live.start()

    def _look(self, *, at_once: bool) -> None:
        from rich.text import Text

        rows = self._rows(at_once=at_once)
        running = [row for row in rows if row[1] is not None and row[1].state is State.RUNNING]
        text = Text(safe(f"{self._shown.title}: {self._shown.caption}"), style="bold")
        for point, _, metrics in running[:MOST_RUNNING]:
            told = [words(point), str(metrics.progress or "")]
            told += [f"{name} {figure(metrics.last.get(name))}" for name in metrics.names[:2]]
            text.append(safe(f"\n  {' · '.join(filter(None, told))}"), style="not bold")
        self._live.update(text)

    def close(self) -> None:
        self._live.stop()


_PLACES: Mapping[str, type[Watched]] = {
    "none": Watched, "plain": PlainCounts, "notebook": LiveTable, "rich": LiveText,
}  # fmt: skip


def watched(shown: Comparison, progress: str | None) -> Watched:
    """What is shown of an experiment where we are. Raises as `view.place_of`."""
    return _PLACES[place_of(progress)](shown)


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
    parts += [_table(listed, names[:2]).brief._repr_html_(), hidden, pictures]
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
        f"{_causes(shown, rows)}{_table(rows, names)._repr_html_()}{pictures}</body></html>\n"
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
    named = ((safe_html(cut(words(point))), failure) for point, failure in listed)
    return told + "".join(f"<p>{name}</p>{cause(failure)}" for name, failure in named)


def _table(rows: Sequence[Row], names: Sequence[str]) -> Table:
    is_counted = any(metrics.progress for _, _, metrics in rows)
    columns = ("point", "state", "took", *(("progress",) if is_counted else ()), *names, "cost $")
    return Table(columns=columns, rows=[_cells(row, names, is_counted) for row in rows])


def _cells(row: Row, names: Sequence[str], is_counted: bool) -> list[str]:
    point, job, metrics = row
    state = "not submitted" if job is None else job.state.value
    took = "" if job is None or job.duration is None else str(job.duration).split(".")[0]
    cost = "" if job is None or job.cost_usd is None else f"{job.cost_usd:,.2f}"
    series = ([value for _, value in metrics.series(name)] for name in names)
    figures = (f"{short(values[-1])} {sparkline(values)}" if values else "" for values in series)
    progress = metrics.progress
    left = "" if progress is None or job is None or job.state.is_terminal else progress.left
    share = "" if progress is None else f"{progress.share:.0%}{left}"
    return [words(point), state, took, *([share] if is_counted else ()), *figures, cost]


def _picture(rows: Sequence[Row], name: str) -> Plot:
    curves = (Curve(label=words(point), points=metrics.series(name)) for point, _, metrics in rows)
    return Plot(title=name, curves=tuple(one for one in curves if one.points))
