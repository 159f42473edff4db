"""Jobs that exist: taken up by their names, shown as a list, and all of them told to one listener."""

from __future__ import annotations

import difflib
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from gputrain.display.table import Table, TableDisplay
from gputrain.errors import AccessError, GputrainError, TransientError
from gputrain.fields import Field, check, invalid, is_text, read_whole
from gputrain.job import Job
from gputrain.job.events import Changes, JobEvent, Listener
from gputrain.job.watcher import WATCHER, Watching
from gputrain.lifecycle import State
from gputrain.spec.duration import Moment, parse_moment
from gputrain.trainer.attach import by_name
from gputrain.trainer.planner import Planner

_COLUMNS = ("name", "state", "place", "runs on", "started", "duration", "cost $")


log = logging.getLogger("gputrain")
CALL_S = 20.0
"""How often it is looked for jobs that others have submitted."""


class JobList(TableDisplay, list[Job]):
    """Jobs that show themselves as a table."""

    left_out: tuple[str, ...] = ()
    """The places of records that could not be listed, each with why: there may be more jobs."""

    @property
    def table(self) -> Table:
        """One row a job."""
        caption = "\n".join(f"left out: {one}" for one in self.left_out)
        return Table(title="Jobs", columns=_COLUMNS, rows=map(_row, self), right=("cost $",), caption=caption)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Each job as `Job.to_dict` tells it."""
        return [job.to_dict() for job in self]


def listed(planner: Planner, name: str = "", refused: dict[str, Exception] | None = None) -> list[Job]:
    """The jobs of a trainer whose ids begin so, newest first; none is looked at yet.

    Args:
        refused: takes the places of records that cannot be listed now, and why; without it one ends the list.

    Raises:
        GputrainError: as a store answers; where all refuse, as the first.
    """
    check("jobs(...)", name=name)
    found, refusals = list[tuple[float, Job]](), dict[str, Exception]()
    for store in planner.stores:
        try:
            versions = store.list(name)
        except GputrainError as error:
            refusals[store.documents.uri] = error
            continue
        context = planner.context(store)
        for job_id, version in versions.items():
            job = Job(store.documents.ref(job_id), context, named=by_name)
            found.append((version.created_at, job))
    if refusals and (refused is None or len(refusals) == len(planner.stores)):
        raise next(iter(refusals.values()))
    if refused is not None:
        refused.update(refusals)
    return [job for _, job in sorted(found, key=lambda one: one[0], reverse=True)]


def looked_at(
    jobs: Sequence[Job],
    backends: Collection[str],
    *,
    unseen: list[Job] | None = None,
    refused: dict[str, Exception] | None = None,
) -> list[Job]:
    """The jobs of these backends, each after a look; one that cannot be looked at is left out.

    Args:
        unseen: takes those that are there, for all anybody knows.
        refused: takes the backends that cannot be asked about them, and why.

    Raises:
        AccessError, TransientError: not one can be looked at, so nobody knows how any stands.
    """
    seen, refusal = list[Job](), None
    for job, error in zip(jobs, Job.refresh_many(jobs), strict=True):
        if error is None:
            if job.is_one and (not job.backend or job.backend in backends):
                seen.append(job)
            continue
        log.warning("%s is left out: %s", job.uri, error)
        if isinstance(error, (AccessError, TransientError)):
            refusal = error
            if unseen is not None:
                unseen.append(job)
            if refused is not None and job.backend:
                refused[job.backend] = error
    if refusal is not None and not seen:
        raise refusal
    return seen


def wanted(
    state: State | str | Iterable[State | str] | None,
    labels: Mapping[str, str] | None,
    since: Moment | None,
    now: datetime,
) -> Callable[[Job], bool]:
    """Whether a list is to hold a job. Raises SpecError where there is no such state, moment or label."""
    found = read_whole("", _WANTED, {"state": state, "labels": labels})
    states, pairs = found["state"], (found["labels"] or {}).items()
    at = None if since is None else parse_moment(since, now)

    def is_wanted(job: Job) -> bool:  # records are read only where labels or a time are asked for
        if (states and job.state.value not in states) or (pairs and not pairs <= job.labels.items()):
            return False
        return at is None or (job.created_at is not None and job.created_at >= at)

    return is_wanted


def _states(value: Any) -> frozenset[str]:
    asked = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return frozenset(_state(one) for one in asked if one is not None)


def _state(value: Any) -> str:
    known = [one.value for one in State]
    try:
        return State(value).value
    except ValueError:
        near = difflib.get_close_matches(str(value), known, n=1) or ["running"]
        raise invalid("state", value, f"one of {', '.join(known)}", f"state='{near[0]}'") from None


def _labels(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(map(is_text, (*value, *value.values()))):
        raise ValueError
    return {str(name): str(one) for name, one in value.items()}


_WANTED = {
    "state": Field(_states, f"one of {', '.join(one.value for one in State)}", "state='running'"),
    "labels": Field(_labels, "names and their values, as texts", "labels={'team': 'vision'}"),
}


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


class Roll:
    """Watched as a job is: each look at it finds the jobs that are new."""

    state = State.RUNNING
    platform = "the roll"
    poll_s = CALL_S
    has_step = False

    def __init__(
        self,
        find: Callable[[dict[str, Exception]], Iterable[Job]],
        listener: Listener,
        left: Callable[[Roll], None],
    ) -> None:
        check("watch(...)", listener=listener)
        self._find = find
        self._left = left
        self._listener = listener
        self._lock = threading.RLock()
        self._known: set[str] = set()
        self._listed: set[str] = set()
        """By the last list that was whole."""
        self._watchings: dict[str, Watching] = {}
        """Of those that live, by their ids."""
        self._unlisted: set[str] | None = None
        """The places of records that were never listed; None before the first list."""
        self._is_closed = False
        self._drop = WATCHER.watch(self, lambda _error: None)

    @property
    def refresh_many(self) -> Callable[[Sequence[Roll]], list[Exception | None]]:
        """As of `Job`."""

        def refresh_many(rolls: Sequence[Roll]) -> list[Exception | None]:
            for one in rolls:
                one.refresh()
            return [None] * len(rolls)

        return refresh_many

    def refresh(self) -> None:
        """Take in the jobs that are new; of those that were there before us, the ones that live."""
        refused: dict[str, Exception] = {}
        try:
            found = list(self._find(refused))
        except GputrainError as error:  # what cannot be listed now is listed the next time
            log.info("jobs could not be listed: %s", error.what)
            return
        before = self._unlisted
        for job in found:
            self.add(job, only_living=before is None or job._context.jobs.documents.uri in before)
        if not refused:
            self._forget({job.id for job in found})
        self._unlisted = set(refused) if before is None else before & set(refused)
        for name in self._unlisted if before is None else ():
            log.warning(
                "jobs of %s cannot be listed; they are reported once they can: %s", name, refused[name]
            )

    def _forget(self, listed: set[str]) -> None:
        """Know no more those that have ended and that two lists have not shown, as one may lag."""
        with self._lock:
            self._known &= listed | self._listed | self._watchings.keys()
            self._listed = listed

    def supervise(self) -> bool:
        """Nothing of it is started again."""
        return False

    def add(self, job: Job, *, only_living: bool = False) -> None:
        """Tell of this job from now on, once."""

        def tell(event: JobEvent) -> None:
            if event.state.is_terminal:
                with self._lock:
                    self._watchings.pop(job.id, None)
            if not (only_living and event.kind == "seen" and event.state.is_terminal):
                self._listener(event)

        with self._lock:
            if self._is_closed or job.id in self._known:
                return
            self._known.add(job.id)
            self._watchings[job.id] = Watching.of(job, Changes(job, job.now), tell)

    def close(self) -> None:
        """Tell nothing more."""
        self._left(self)
        self._drop()
        with self._lock:
            self._is_closed = True
            watchings, self._watchings = self._watchings, {}
        for one in watchings.values():
            one.close()
