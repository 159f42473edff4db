"""Jobs that exist: taken up by their names, shown as a list, and all of them told to one listener."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import attrs

from gputrain.arguments import check, refusing
from gputrain.backends import guard
from gputrain.backends.base import Backend, JobRef
from gputrain.errors import AccessError, GputrainError, TransientError
from gputrain.fields import Field, is_text, read_whole, refused
from gputrain.job import Job
from gputrain.job.events import Changes, JobEvent, Listener
from gputrain.job.watcher import WATCHER
from gputrain.job.watching import Watching
from gputrain.lifecycle import State
from gputrain.spec.durations import Moment, moment_asked
from gputrain.tables import Shown, Table
from gputrain.threads import new_lock, side_by_side
from gputrain.trainer.choice import one_backend
from gputrain.trainer.road import by_name

_COLUMNS = ("name", "state", "place", "runs on", "started", "duration", "cost $")


log = logging.getLogger("gputrain")
CALL_S = 20.0
"""How often it is looked for jobs that others have submitted."""


class JobList(Shown, list[Job]):
    """Jobs that show themselves as a table."""

    left_out: tuple[str, ...] = ()
    """The backends that could not be listed, each with why: there may be more jobs."""

    @property
    def table(self) -> Table:
        """One row a job."""
        _read(self)
        caption = "\n".join(f"left out: {one}" for one in self.left_out)
        return Table(title="Jobs", columns=_COLUMNS, rows=map(_row, self), right=("cost $",), caption=caption)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Each job as `Job.to_dict` tells it."""
        _read(self)
        return [job.to_dict() for job in self]


_TAKEN_UP_BY = {
    "uri": Field(
        JobRef.parse, "gputrain://backend/project/place/name", "trainer.jobs() lists those there are", True
    ),
    "backend": Field(one_backend, "a backend", "leave it out"),
}


@refusing(_TAKEN_UP_BY)
def attach(uri: str, *, backend: Backend | None = None) -> Job:
    """Take up a job by its name, in any process, on any day.

    Args:
        uri: what ``job.uri`` said: ``gputrain://backend/project/place/name``.
        backend: the backend to use, where it needs credentials of its own; made from the uri unless said.

    Raises:
        SpecError: the uri names no job, or a backend that is not installed; it says what to install.
        JobLostError: the job cannot be found.
    """
    job = by_name(uri, backend)
    job.refresh()
    return job


@attrs.frozen(kw_only=True)
class JobFilter:
    """Which jobs a list is to hold."""

    states: frozenset[str]
    """Empty: all."""
    labels: Mapping[str, str]
    since: datetime | None

    def of(self, jobs: Iterable[Job]) -> JobList:
        """Those of the jobs, in their order. Only where labels or a time are asked for, records are read."""
        found = JobList(job for job in jobs if not self.states or job.state.value in self.states)
        if self.labels or self.since is not None:
            _read(found)
        return JobList(
            job
            for job in found
            if (not self.labels or self.labels.items() <= job.labels.items())
            and (self.since is None or (job.created_at is not None and job.created_at >= self.since))
        )


def looked_at(jobs: Iterable[Job], unseen: list[Job] | None = None) -> Iterator[Job]:
    """Each job after a look; one that cannot be looked at is left out, and hides no other.

    Args:
        unseen: takes those that are there, for all anybody knows.

    Raises:
        AccessError, TransientError: not one can be looked at, so nobody knows how any stands.
    """
    is_seen, refusal = False, None
    for job in jobs:
        try:
            with guard.foreseen(job.ref.backend, "look at a job"):
                job.refresh()
        except GputrainError as error:  # noqa: PERF203  # the next one is looked at all the same
            log.warning("%s is left out: %s", job.uri, error)
            if isinstance(error, (AccessError, TransientError)):
                refusal = error
                if unseen is not None:
                    unseen.append(job)
        else:
            is_seen = True
            yield job
    if refusal is not None and not is_seen:
        raise refusal


def wanted(
    state: State | str | Iterable[State | str] | None,
    labels: Mapping[str, str] | None,
    since: Moment | None,
    now: datetime,
) -> JobFilter:
    """What a caller asks for, checked. Raises SpecError where there is no such state, or no such moment."""
    found = read_whole("", _WANTED, {"state": state, "labels": labels})
    at = None if since is None else moment_asked(since, now)
    return JobFilter(states=found["state"] or frozenset(), labels=found["labels"] or {}, since=at)


def _states(value: Any) -> frozenset[str]:
    asked = value if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return frozenset(_state(one) for one in asked if one is not None)


def _state(value: Any) -> str:
    known = [one.value for one in State]
    try:
        return State(value).value
    except ValueError:
        near = difflib.get_close_matches(str(value), known, n=1) or ["running"]
        raise refused("state", value, f"one of {', '.join(known)}", f"state='{near[0]}'") from None


def _labels(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(map(is_text, (*value, *value.values()))):
        raise ValueError
    return {str(name): str(one) for name, one in value.items()}


_WANTED = {
    "state": Field(_states, f"one of {', '.join(one.value for one in State)}", "state='running'"),
    "labels": Field(_labels, "names and their values, as texts", "labels={'team': 'vision'}"),
}


def _read(jobs: JobList) -> None:
    """Read the jobs' records, several at a time; each is kept by its handle."""
    side_by_side(lambda job: job.spec, jobs)


def _row(job: Job) -> tuple[str, ...]:
    place = job.candidate.place if job.candidate else job.ref.place
    return (
        job.id,
        job.state.value,
        f"{job.ref.backend} {place}".strip(),
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

    def __init__(
        self,
        find: Callable[[dict[str, GputrainError]], Iterable[Job]],
        listener: Listener,
        left: Callable[[Roll], None],
    ) -> None:
        check("watch(...)", listener=listener)
        self._find = find
        self._left = left
        self._listener = listener
        self._lock = new_lock()
        self._known: set[str] = set()
        self._listed: set[str] = set()
        """By the last list that was whole."""
        self._watchings: dict[str, Watching] = {}
        """Of those that live, by their ids."""
        self._unlisted: set[str] | None = None
        """The backends that were never listed; None before the first list."""
        self._is_closed = False
        self._drop = WATCHER.watch(self, lambda _error: None)

    def refresh(self) -> None:
        """Take in the jobs that are new; of those that were there before us, the ones that live."""
        refused: dict[str, GputrainError] = {}
        try:
            found = list(self._find(refused))
        except GputrainError as error:  # what cannot be listed now is listed the next time
            log.info("jobs could not be listed: %s", error.what)
            return
        before = self._unlisted
        for job in found:
            self.add(job, only_living=before is None or job.ref.backend in before)
        if not refused:
            self._forget({job.id for job in found})
        self._unlisted = set(refused) if before is None else before & set(refused)
        for name in self._unlisted if before is None else ():
            log.warning("jobs of %s cannot be listed, and are told of once they can: %s", name, refused[name])

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
