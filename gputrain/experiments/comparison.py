"""Jobs beside each other: as a table, as data, as a plot, as a live view, and as a page to send."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from gputrain import causes
from gputrain.concurrency import gather
from gputrain.display.live import Status, cause
from gputrain.display.plot import Curve, Plot, is_numeric
from gputrain.display.table import Table, TableDisplay, cut
from gputrain.errors import GputrainError, RequestError
from gputrain.experiments.points import Point, word, words
from gputrain.fields import invalid
from gputrain.job import Job
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics, data_frame, figure
from gputrain.text import escape_html, sanitize
from gputrain.times import plain

SHOWN_METRICS, MOST_CAUSES, LONGEST_WHY = 5, 3, 200
MOST_ROWS = 50
"""Of more points a cell shows those that run or failed, and no plot."""
MOST_RUNNING = 12
"""Running points below the status at a terminal."""
MOST_PLOTS = 4
NO_JOB = "not submitted"

Row = tuple[Point, "Job | None", Metrics]

_STYLE = """
:root { color-scheme: light dark }
body { font-family: sans-serif; margin: 2em; max-width: 75em }
table { border-collapse: collapse } td, th { padding: 2px 10px; text-align: left }
pre { overflow-x: auto }
"""


class Comparison(TableDisplay):
    """Some jobs, side by side; it shows itself as a table of their points, states and last metrics."""

    title = "Comparison"

    def __init__(self, rows: Iterable[tuple[Point, Job | None]]) -> None:
        self._given = tuple(rows)

    @property
    def rows(self) -> Sequence[tuple[Point, Job | None]]:
        """Each point with its job; None where it has none yet."""
        return self._given

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs there are, in the order of their points."""
        return tuple(job for _, job in self.rows if job is not None)

    @property
    def errors(self) -> Sequence[GputrainError]:
        return ()

    @property
    def caption(self) -> str:
        return f"{len(self.rows)} jobs"

    def metrics(self) -> dict[Job, Metrics]:
        """What each job has reported so far; nothing where its log cannot be read."""
        return dict(zip(self.jobs, gather(_metrics_of, self.jobs))) if self.jobs else {}

    def best(self, metric: str, *, mode: Literal["min", "max"] = "min") -> Job:
        """The job that succeeded with the lowest, or highest, last value of a metric. NaN is never the best.

        Raises:
            SpecError: ``mode`` is neither ``min`` nor ``max``.
            RequestError: no job that succeeded has reported a finite number last.
        """
        if mode not in ("min", "max"):
            raise invalid("mode", mode, "'min' or 'max'", "mode='min'")
        found = [
            (value, job)
            for job, metrics in self.metrics().items()
            if job.state is State.SUCCEEDED
            and is_numeric(value := metrics.last.get(metric))
            and abs(value) < math.inf
        ]
        if not found:
            what = f"no job that succeeded has reported {metric} last as a finite number"
            raise RequestError(what, fix="the table has what they report, and results() how they ended")
        return (min if mode == "min" else max)(found, key=lambda one: one[0])[1]

    @property
    def table(self) -> Table:
        """A row per point; the first failure, for which there is no room, stands below."""
        rows, lines = self._metric_rows(), [self.caption]
        failures = (job.failure for job in self.jobs if job.state is State.FAILED)
        why = next((one.message for one in failures if one is not None and one.message), "")
        lines += [f"the first failure: {why[:LONGEST_WHY]}"] if why else []
        lines += [f"the first without a job: {one.what[:LONGEST_WHY]}" for one in self.errors[:1]]
        return _table(rows, _names(rows)[:SHOWN_METRICS], title=self.title, caption="\n".join(lines))

    def to_dicts(self) -> list[dict[str, Any]]:
        """A mapping per point, of JSON types: the point, its job's state, last metrics, cost, failure, URI.

        NaN and infinities are None, as JSON has none.
        """
        return [
            {
                "point": dict(point),
                "state": job.state.value if job else NO_JOB,
                "metrics": {
                    name: None if isinstance(value, float) and not math.isfinite(value) else value
                    for name, value in metrics.last.items()
                    if name not in ("time", "total_steps")
                },
                "duration_s": job.duration.total_seconds() if job and job.duration else None,
                "cost_usd": job.cost_usd if job else None,
                "failure": plain(job.failure) if job else None,
                "uri": job.uri if job else None,
            }
            for point, job, metrics in self._metric_rows()
        ]

    def to_pandas(self) -> Any:
        """The same as a wide ``pandas.DataFrame``: ``params.lr``, ``metrics.loss``, ``state``...

        Raises:
            RequestError: pandas is not installed.
        """

        def flat(point: Point, metrics: Point, failure: Any, **others: Any) -> dict[str, Any]:
            params = {f"params.{name}": value for name, value in point.items()}
            named = {f"metrics.{name}": value for name, value in metrics.items()}
            return {**params, **others, **named, "error": failure and failure["message"]}

        return data_frame([flat(**one) for one in self.to_dicts()], "to_dicts()")

    def plot(self, metric: str, *, log: bool = False, x: Literal["step", "time"] = "step") -> Plot:
        """Plot a metric of all jobs. Drawing needs matplotlib; without it, the plot prints as sparklines.

        Args:
            log: a logarithmic scale of values; values that are not above 0 are left out, and counted.
            x: ``step``, or ``time`` in seconds since each job's first report.

        Raises:
            SpecError: ``x`` is neither ``step`` nor ``time``.
        """
        if x not in ("step", "time"):
            raise invalid("x", x, "'step' or 'time'", "x='step'")
        return Plot(panels={metric: _curves(self._metric_rows(), metric, x)}, log=log, along=x)

    def save_html(self, path: Any) -> None:
        """Write one page with all points, failures and plots, which needs no other file."""
        rows = self._metric_rows()
        names = _names(rows)
        title = escape_html(self.title)
        page = (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1><p>{escape_html(self.caption)}</p>"
            f"{self._causes()}{_table(rows, names)._repr_html_()}"
            f"{_picture(rows, names[:MOST_PLOTS])}</body></html>\n"
        )
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)

    def _status(self) -> Status:
        """For a live view. With many points, only those that run or failed are listed."""
        jobs = [job for _, job in self.rows]
        is_over = all(job is not None and job.state.is_terminal for job in jobs)
        is_small = len(jobs) <= MOST_ROWS
        rows = self._metric_rows() if is_small or is_over else [(*one, Metrics()) for one in self.rows]
        running = [row for row in rows if row[1] is not None and row[1].state is State.RUNNING]
        failed = [row for row in rows if row[1] is not None and row[1].state in (State.FAILED, State.EXPIRED)]
        shown = rows if is_small else [*failed, *running][:MOST_ROWS]
        names = _names(rows)
        return Status(
            text=sanitize(f"{self.title}: {self.caption}"),
            state=self.caption,
            news=[(job and job.state, metrics.count) for _, job, metrics in rows],
            is_over=is_over,
            lines=tuple(_line(row) for row in running[:MOST_RUNNING]),
            head=self._causes,
            body=lambda: _table(shown, names[:2]).brief._repr_html_(),
            pictures=lambda: _picture(rows, names[:1]) if is_small else "",
        )

    def _metric_rows(self) -> list[Row]:
        found = self.metrics()
        return [(point, job, found.get(job, Metrics()) if job else Metrics()) for point, job in self.rows]

    def _causes(self) -> str:
        """The first failures, each message once, and why points have no job, as html."""
        refusals = list(dict.fromkeys(error.what for error in self.errors))[:MOST_CAUSES]
        parts = [cause(Failure(kind=causes.UNSTARTED.kind, message=what)) for what in refusals]
        failed = {
            job.failure.message: (point, job.failure)
            for point, job in self.rows
            if job is not None and job.failure is not None and job.state is State.FAILED
        }
        for point, failure in list(failed.values())[:MOST_CAUSES]:
            parts.append(f"<p>{escape_html(cut(words(point)))}</p>{cause(failure)}")
        return "".join(parts)


def _metrics_of(job: Job) -> Metrics:
    try:
        return job.metrics()
    except GputrainError:
        return Metrics()


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(name for _, _, metrics in rows for name in metrics.names))


def _curves(rows: Sequence[Row], name: str, along: str = "step") -> list[Curve]:
    curves = (
        Curve(label=words(point) or (job.name if job else ""), points=metrics.series(name, along=along))
        for point, job, metrics in rows
    )
    return [one for one in curves if one.points]


def _picture(rows: Sequence[Row], names: Sequence[str]) -> str:
    return Plot(panels={name: _curves(rows, name) for name in names})._repr_html_() if names else ""


def _line(row: Row) -> str:
    """A running point at a terminal."""
    point, _, metrics = row
    parts = [words(point), str(metrics.progress or "")]
    parts += [f"{name} {figure(metrics.last.get(name))}" for name in metrics.names[:2]]
    return sanitize(" · ".join(filter(None, parts)))


def _table(rows: Sequence[Row], metrics: Sequence[str], *, title: str = "", caption: str = "") -> Table:
    """A row per point, with the last values of metrics."""
    params = list(dict.fromkeys(name for point, _, _ in rows for name in point))
    progress = ["progress"] if any(found.progress for _, _, found in rows) else []

    def how_far(found: Metrics, *, is_over: bool) -> str:
        progress = found.progress
        return f"{progress.share:.0%}{'' if is_over else progress.left}" if progress else ""

    # a parameter and a metric may have one name
    named = [f"{one} (metric)" if one in params else one for one in metrics]
    return Table(
        title=title,
        columns=(*params, "state", *progress, *named, "took", "cost $"),
        rows=[
            (
                *(word(point[one]) if one in point else "" for one in params),
                job.state.value if job else NO_JOB,
                *(how_far(found, is_over=not job or job.state.is_terminal) for _ in progress),
                *(figure(found.last.get(one)) for one in metrics),
                str(job.duration).split(".")[0] if job and job.duration is not None else "",
                f"{job.cost_usd:,.2f}" if job and job.cost_usd is not None else "",
            )
            for point, job, found in rows
        ],
        right=("took", "cost $", *named),
        caption=caption,
    )


def compare(jobs: Iterable[Job]) -> Comparison:
    """Compare any jobs: what tells them apart, their states, what they report.

    Raises:
        SpecError: these are no jobs.

    >>> compare([]).to_dicts()
    []
    """
    listed = list(jobs) if isinstance(jobs, Iterable) else [jobs]
    if not isinstance(jobs, Iterable) or not all(isinstance(job, Job) for job in listed):
        raise invalid("jobs", jobs, "a list of jobs", "gputrain.compare(trainer.jobs())")
    specs = [job.to_dict()["spec"] or {} for job in listed]
    names = {name for spec in specs for name in spec if len({str(one.get(name)) for one in specs}) > 1}
    return Comparison(
        (job.point or {"job": job.id, **{name: spec[name] for name in sorted(names) if name in spec}}, job)
        for job, spec in zip(listed, specs)
    )
