"""Jobs that exist, listed from every store of a trainer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from gputrain.backends.base import Backend
from gputrain.concurrency import gather
from gputrain.display.table import Table, TableDisplay
from gputrain.errors import AccessError, GputrainError, TransientError
from gputrain.fields import Field, check, is_text, many, one_of, read_whole, words
from gputrain.job import Job
from gputrain.lifecycle import State
from gputrain.spec.duration import Moment, parse_moment
from gputrain.trainer.planner import Planner

T = TypeVar("T")
log = logging.getLogger("gputrain")


class JobList(TableDisplay, list[Job]):
    """Jobs that show themselves as a table."""

    left_out: tuple[str, ...] = ()
    """What could not be listed, each with why: there may be more jobs."""

    @property
    def table(self) -> Table:
        """One row a job."""
        caption = "\n".join(f"left out: {one}" for one in self.left_out)
        columns = ("name", "state", "place", "runs on", "started", "duration", "cost $")
        return Table(title="Jobs", columns=columns, rows=map(_row, self), right=("cost $",), caption=caption)

    def to_dicts(self) -> list[dict[str, Any]]:
        """`Job.to_dict` of each job."""
        return [job.to_dict() for job in self]


def _row(job: Job) -> tuple[str, ...]:
    return (
        job.id,
        job.state.value,
        f"{job.backend} {job.place}".strip(),
        job.candidate.gpus if job.candidate else "",
        f"{job.started_at:%Y-%m-%d %H:%M}" if job.started_at else "",
        str(job.duration or "").split(".")[0],
        "" if job.cost_usd is None else f"{job.cost_usd:,.2f}",
    )


def listed(planner: Planner, name: str = "", refused: dict[str, Exception] | None = None) -> list[Job]:
    """The jobs whose ids begin so, newest first; none has been looked at.

    Args:
        refused: takes the stores that cannot be listed, with why; without it one of them raises.

    Raises:
        GputrainError: of the first store, where all refuse.
    """
    check("jobs(...)", name=name)
    found, refusals = list[tuple[float, Job]](), dict[str, Exception]()
    for store in planner.stores:
        context = planner.context(store)
        try:
            for job_id, version in store.list(name).items():
                found.append((version.created_at, planner.job(job_id, context)))
        except GputrainError as error:
            refusals[store.documents.uri] = error
    if refusals and (refused is None or len(refusals) == len(planner.stores)):
        raise next(iter(refusals.values()))
    if refused is not None:
        refused.update(refusals)
    return [job for _, job in sorted(found, key=lambda one: one[0], reverse=True)]


def looked_at(jobs: Sequence[Job], backends: Collection[str]) -> tuple[list[Job], dict[Job, Exception]]:
    """The jobs of these backends after one look, and those that could not be seen, with why.

    Raises:
        AccessError, TransientError: not one could be seen.
    """
    seen, unseen = list[Job](), dict[Job, Exception]()
    for job, error in zip(jobs, Job.refresh_many(jobs), strict=True):
        if error is None:
            if job.is_one and (not job.backend or job.backend in backends):
                seen.append(job)
            continue
        log.warning("%s is left out: %s", job.uri, error)
        if isinstance(error, (AccessError, TransientError)):
            unseen[job] = error
    if unseen and not seen:
        raise next(iter(unseen.values()))
    return seen, unseen


def wanted(
    state: State | str | Iterable[State | str] | None,
    labels: Mapping[str, str] | None,
    since: Moment | None,
    now: datetime,
) -> Callable[[Job], bool]:
    """Whether a list is to hold a job. Raises SpecError where there is no such state, moment or label."""
    if isinstance(state, Iterable) and not isinstance(state, str):
        state = list(state)
    found = read_whole("", _WANTED, {"state": state, "labels": labels})
    pairs = (found["labels"] or {}).items()
    at = None if since is None else parse_moment(since, now)

    def is_wanted(job: Job) -> bool:  # records are read only where labels or a time are asked for
        if (found["state"] and job.state not in found["state"]) or (
            pairs and not pairs <= job.labels.items()
        ):
            return False
        return at is None or (job.created_at is not None and job.created_at >= at)

    return is_wanted


def _labels(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(map(is_text, (*value, *value.values()))):
        raise ValueError
    return dict(value)


_WANTED = {
    "state": Field(many(one_of(State), or_one=True), words(State), "state='running'"),
    "labels": Field(_labels, "names and their values, as texts", "labels={'team': 'vision'}"),
}


def of_each(
    backends: Sequence[Backend], ask: Callable[[Backend], T], of: str
) -> tuple[list[T], tuple[str, ...]]:
    """What the backends answer, asked at the same time, and as `left_out` those that could not be asked.

    Raises:
        GputrainError: of the first, where none could be asked.
    """
    refused: dict[str, Exception] = {}

    def answers(backend: Backend) -> list[T]:
        try:
            return [ask(backend)]
        except Exception as error:  # noqa: BLE001  # it must not hide another backend's answer
            refused[backend.name] = error
            return []

    found = [one for some in gather(answers, backends) for one in some]
    if refused and not found:
        raise refused[backends[0].name]
    return found, left_out(refused, of)


def left_out(refused: Mapping[str, Exception], of: str) -> tuple[str, ...]:
    """What could not be asked, each with why; it is logged, too."""
    lines = []
    for name, error in refused.items():
        why = error.what if isinstance(error, GputrainError) else f"{type(error).__name__}: {error}"
        lines.append(f"{name}: {why}")
        log.warning("left out of the %s: %s: %s", of, name, why)
    return tuple(lines)
