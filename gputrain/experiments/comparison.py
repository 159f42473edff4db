"""Jobs beside each other: as a table, as data, as one picture, in a cell, and as a page that can be sent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from gputrain.arguments import refusing
from gputrain.errors import GputrainError, RequestError
from gputrain.experiments import points
from gputrain.experiments.plot import Curve, Plot
from gputrain.experiments.points import Point, words
from gputrain.fields import Field, instance, read_whole, refused, text, word
from gputrain.job import Job
from gputrain.lifecycle import State
from gputrain.metrics import Metrics, figure
from gputrain.progress import Report, is_numeric
from gputrain.tables import Shown, Table
from gputrain.threads import side_by_side
from gputrain.times import plain

SHOWN_METRICS = 5
LONGEST_WHY = 200


_BEST = {
    "metric": Field(text, "the name of a metric", "metric='loss'", is_needed=True),
    "mode": Field(word("min", "max"), "'min' or 'max'", "mode='min'", is_needed=True),
}


class Comparison(Shown):
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

    def best(self, metric: str, *, mode: Literal["min", "max"] = "min") -> Job:
        """The job whose last value of a metric is the lowest, or the highest, of those that ended well.

        One whose last value is NaN or infinite is never the best.

        Raises:
            SpecError: ``mode`` is no such word.
            RequestError: none that ended well has reported it last as a finite number.
        """
        asked = read_whole("", _BEST, {"metric": metric, "mode": mode})
        metric, found = asked["metric"], []
        for job, metrics in self.metrics().items():
            if job.state is not State.SUCCEEDED:
                continue
            value = metrics.last.get(metric)
            if is_numeric(value) and abs(value) < math.inf:
                found.append((value, job))
        if not found:
            fix = "look at the table for what they report, and at results() for how they ended"
            raise RequestError(
                f"no job that ended well has reported {metric} last as a finite number", fix=fix
            )
        return (min if asked["mode"] == "min" else max)(found, key=lambda one: one[0])[1]

    @property
    def table(self) -> Table:
        """A row a point."""
        last = self._last()
        documents = [_document(point, job, last) for point, job in self.rows]
        names = list(dict.fromkeys(name for one in documents for name in one["point"]))
        metrics = list(dict.fromkeys(name for one in documents for name in one["metrics"]))[:SHOWN_METRICS]
        rows = [
            [
                *(points.word(one["point"][name]) if name in one["point"] else "" for name in names),
                one["state"],
                *(figure(last.get(one["uri"], {}).get(name)) for name in metrics),
                "" if one["duration_s"] is None else f"{one['duration_s']:.0f} s",
                "" if one["cost_usd"] is None else f"{one['cost_usd']:,.2f}",
            ]
            for one in documents
        ]
        right = (*metrics, "took", "cost $")
        columns = (*names, "state", *metrics, "took", "cost $")
        return Table(title=self.title, columns=columns, rows=rows, right=right, caption=self._told)

    @property
    def _told(self) -> str:
        """The caption, and why the first that failed has done so: a table has no room for all of it."""
        found = (job.failure for job in self.jobs if job.state is State.FAILED)
        why = next((one.message for one in found if one is not None and one.message), "")
        told = [self.caption, f"the first failure: {why[:LONGEST_WHY]}" if why else ""]
        told += (f"the first without a job: {one.what[:LONGEST_WHY]}" for one in self.errors[:1])
        return "\n".join(filter(None, told))

    @property
    def errors(self) -> Sequence[GputrainError]:
        """Why points have no job."""
        return ()

    @property
    def caption(self) -> str:
        """How many there are."""
        return f"{len(self.rows)} jobs"

    def metrics(self) -> dict[Job, Metrics]:
        """What each job has reported so far; one whose log cannot be read has reported nothing."""
        jobs = self.jobs
        if not jobs:
            return {}
        return dict(zip(jobs, side_by_side(_metrics, jobs)))

    def to_dicts(self) -> list[dict[str, Any]]:
        """A mapping a point, of JSON types: what it is, how its job stands, and its last metrics.

        A number that is none (``nan``, ``inf``) is None: JSON has no word for it.
        """
        last = self._last()
        return [_document(point, job, last) for point, job in self.rows]

    def _last(self) -> dict[str | None, Report]:
        return {job.uri: found.last for job, found in self.metrics().items()}

    def to_pandas(self) -> Any:
        """The same as a wide ``pandas.DataFrame``: ``params.lr``, ``metrics.loss``, ``state``...

        Raises:
            RequestError: pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]  # its stubs are another package
        except ImportError as error:
            raise RequestError("pandas is not installed", fix="pip install pandas, or to_dicts()") from error
        flat = []
        for one in self.to_dicts():
            params = {f"params.{name}": value for name, value in one.pop("point").items()}
            metrics = {f"metrics.{name}": value for name, value in one.pop("metrics").items()}
            failure = one.pop("failure")
            flat.append({**params, **one, **metrics, "error": failure and failure["message"]})
        return pandas.DataFrame(flat)

    def plot(self, metric: str, *, log: bool = False, x: Literal["step", "time"] = "step") -> Plot:
        """One picture of a metric's course in all jobs, with axes; hover over a curve to see whose it is.

        Args:
            log: a logarithmic scale of values; what is not above 0 is left out, and counted.
            x: along the steps, or the seconds since each job's first report.

        Raises:
            SpecError: ``x`` is no such word.
        """
        if x not in ("step", "time"):
            raise refused("x", x, "'step' or 'time'", "x='step'")
        read = self.metrics()
        curves = [
            Curve(label=words(point) or (job.name if job else ""), points=read[job].series(metric, along=x))
            for point, job in self.rows
            if job is not None and job in read
        ]
        return Plot(title=metric, curves=tuple(one for one in curves if one.points), log=log, along=x)


def _metrics(job: Job) -> Metrics:
    try:
        return job.metrics()
    except GputrainError:
        return Metrics()


def _document(point: Point, job: Job | None, metrics: Mapping[str | None, Report]) -> dict[str, Any]:
    told = {} if job is None else metrics.get(job.uri, {})
    return {
        "point": dict(point),
        "state": "not submitted" if job is None else job.state.value,
        "metrics": {
            name: _number(value) for name, value in told.items() if name not in ("time", "total_steps")
        },
        "duration_s": None if job is None or job.duration is None else job.duration.total_seconds(),
        "cost_usd": None if job is None else job.cost_usd,
        "failure": None if job is None else plain(job.failure),
        "uri": None if job is None else job.uri,
    }


def _number(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _listed(value: Any) -> tuple[Job, ...]:
    return tuple(map(instance(Job), value))


_COMPARED = {"jobs": Field(_listed, "a list of jobs", "gputrain.compare(trainer.jobs())", is_needed=True)}


@refusing(_COMPARED)
def compare(jobs: Iterable[Job]) -> Comparison:
    """Any jobs beside each other: what tells them apart, how they stand, what they report.

    Raises:
        SpecError: these are no jobs.

    >>> compare([]).to_dicts()
    []
    """
    listed = read_whole("", _COMPARED, {"jobs": jobs})["jobs"]
    specs = [job.to_dict()["spec"] or {} for job in listed]
    names = {name for spec in specs for name in spec if len({str(one.get(name)) for one in specs}) > 1}
    return Comparison(
        (job.point or {"job": job.id, **{name: spec[name] for name in sorted(names) if name in spec}}, job)
        for job, spec in zip(listed, specs)
    )
