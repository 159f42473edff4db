"""A job by its name, in any process; a trainer's jobs and their changes; machines without a living job."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from gputrain.backends import registry
from gputrain.backends.base import Backend, Machine
from gputrain.concurrency import gather
from gputrain.display.table import Table, TableDisplay
from gputrain.errors import AccessError, GputrainError, TransientError
from gputrain.fields import Errors, Field, check, instance, is_text, many, one_of, read_whole, words
from gputrain.google import GoogleClient
from gputrain.google.endpoints import asked_for
from gputrain.google.storage import BucketPrefix
from gputrain.job import Job, JobEvent
from gputrain.job.watcher import Listener
from gputrain.jobstore import BucketStore, DocumentStore, FolderStore, JobRef, JobStore
from gputrain.jobstore.folder import usual_root
from gputrain.lifecycle import State
from gputrain.orchestration.look import Context, Found, look_many, lost
from gputrain.spec.duration import Moment, parse_moment
from gputrain.trainer.planner import Planner

A = TypeVar("A")
T = TypeVar("T")
log = logging.getLogger("gputrain")
A_BACKEND = "a backend, not its name or its class"
BACKEND_FIX = "Local(), or VertexAI(project=...); one of your own: docs/howto/write-a-backend.md"
LIST_S = 20.0
"""Seconds between two lists of a feed, which find what other processes have submitted."""


def attach(uri: str, *, backend: Backend | None = None) -> Job:
    """Get a job by its name, in any process, on any day.

    Args:
        uri: the job's ``uri``: ``gputrain://PROJECT/BUCKET/NAME``, or ``gputrain://local/NAME``.
        backend: the backend to use, where it needs credentials of its own; made from the uri unless given.

    Raises:
        SpecError: the uri names no job, or its backend is not installed; the error says what to install.
        JobLostError: the job cannot be found.
    """
    job = by_name(uri, backend)
    job.refresh()
    return job


def by_name(uri: str, backend: Backend | None = None, **arguments: Any) -> Job:
    """The job of a name, not looked at yet.

    Args:
        uri, backend: as of `attach`.
        arguments: of the backend's constructor, which no name holds; those it does not take are left out.
    """
    ref, errors = JobRef.parse(uri), Errors("attach(...)")
    errors.check(backend is None or isinstance(backend, Backend), "backend", backend, A_BACKEND, BACKEND_FIX)
    errors.raise_if_any()
    return Job(ref, partial(_context_of, ref, backend, arguments), named=by_name)


def _context_of(ref: JobRef, backend: Backend | None, arguments: Mapping[str, Any]) -> Context:
    backends = _backends_of(ref, arguments) if backend is None else {backend.name: backend}
    planner = Planner(backends, lambda: datetime.now(timezone.utc), time.sleep, by_name)
    return planner.context(planner.store_of(ref))


def _backends_of(ref: JobRef, arguments: Mapping[str, Any]) -> dict[str, Backend]:
    """The backends that a job was submitted to, made from its name and its record."""
    documents: DocumentStore = FolderStore(Path(ref.home) if ref.home else usual_root())
    if ref.project:
        asked = asked_for(arguments.get("endpoints"), arguments.get("credentials"))
        bucket = BucketPrefix.parse(f"gs://{ref.home}")
        documents = BucketStore(GoogleClient(project=ref.project, **asked), bucket)
    stored = JobStore(documents).read(ref.name)
    if stored is None:
        raise lost(JobStore(documents), ref.name)
    names = dict.fromkeys(one.backend for one in stored.record.options)
    kinds = {name: registry.find(name) for name in names}
    return {
        name: kind.for_job(ref, stored.record, **registry.accepted(kind, arguments))
        for name, kind in kinds.items()
    }


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


def of_each(asked: Mapping[str, A], ask: Callable[[A], T]) -> tuple[list[T], dict[str, Exception]]:
    """What each answers, asked at the same time, and the errors of those that could not be asked, by name.

    Raises:
        GputrainError: of the first, where none could be asked.
    """
    refused: dict[str, Exception] = {}

    def answers(name: str) -> list[T]:
        try:
            return [ask(asked[name])]
        except Exception as error:  # noqa: BLE001  # it must not hide another's answer
            refused[name] = error
            return []

    found = list(chain.from_iterable(gather(answers, asked)))
    if refused and not found:
        raise refused[next(iter(asked))]
    return found, refused


def left_out(refused: Mapping[str, Exception], of: str) -> tuple[str, ...]:
    """What could not be asked, each with why; it is logged, too."""
    lines = []
    for name, error in refused.items():
        why = error.what if isinstance(error, GputrainError) else f"{type(error).__name__}: {error}"
        lines.append(f"{name}: {why}")
        log.warning("left out of the %s: %s: %s", of, name, why)
    return tuple(lines)


def listed(planner: Planner, name: str = "") -> tuple[list[Job], dict[str, Exception]]:
    """The jobs whose ids begin so, newest first, not looked at; the stores that cannot be listed, with why.

    Raises:
        GputrainError: of the first store, where all refuse.
    """
    check("jobs(...)", name=name)

    def ask(store: JobStore) -> list[tuple[float, Job]]:
        context = planner.context(store)
        return [(one.created_at, planner.job(job_id, context)) for job_id, one in store.list(name).items()]

    found, refused = of_each({store.documents.uri: store for store in planner.stores}, ask)
    newest = sorted(chain.from_iterable(found), key=lambda one: one[0], reverse=True)
    return [job for _, job in newest], refused


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
        if found["state"] and job.state not in found["state"]:
            return False
        if pairs and not pairs <= job.labels.items():
            return False
        return at is None or (job.created_at is not None and job.created_at >= at)

    return is_wanted


def _labels(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(map(is_text, (*value, *value.values()))):
        raise ValueError
    return dict(value)


def _machines(value: Any) -> tuple[Machine, ...]:
    return tuple(map(instance(Machine), instance(Sequence)(value)))


_WANTED = {
    "state": Field(many(one_of(State), or_one=True), words(State), "state='running'"),
    "labels": Field(_labels, "names and their values, as texts", "labels={'team': 'vision'}"),
}
_ONLY = {"only": Field(_machines, "a list of orphans", "give some of those that `orphans` has shown")}


class JobFeed:
    """Calls a listener with each change of every job, also of those that come, until it is closed."""

    def __init__(self, planner: Planner, listener: Listener) -> None:
        self._planner, self._listener = planner, listener
        self._lock, self._closed = threading.RLock(), threading.Event()
        self._known: set[str] = set()
        self._drops: dict[str, Callable[[], None]] = {}
        """What ends the watching of each job that has not ended."""
        self._listed: set[str] = set()
        """The stores whose jobs of before are known."""
        planner.feeds.add(self)
        threading.Thread(target=self._run, name="gputrain lists jobs", daemon=True).start()

    def _run(self) -> None:
        while not self._closed.is_set():
            self.refresh()
            self._closed.wait(LIST_S)

    def refresh(self) -> None:
        """Find jobs that are new; of those of a store's first list, the ones that have not ended."""
        try:
            found, refused = listed(self._planner)
        except GputrainError as error:
            log.info("jobs could not be listed: %s", error.what)
            return
        for job in found:
            self.add(job, only_living=job.platform not in self._listed)
        self._listed |= {store.documents.uri for store in self._planner.stores} - refused.keys()

    def add(self, job: Job, *, only_living: bool = False) -> None:
        """Report the changes of this job from now on, once."""

        def report(event: JobEvent) -> None:
            if event.state.is_terminal:
                with self._lock:
                    self._drops.pop(job.id, None)
            if not (only_living and event.kind == "seen" and event.state.is_terminal):
                self._listener(event)

        with self._lock:
            if not self._closed.is_set() and job.id not in self._known:
                self._known.add(job.id)
                self._drops[job.id] = job.watch(report).close

    def close(self) -> None:
        """Report nothing more."""
        self._planner.feeds.discard(self)
        with self._lock:
            self._closed.set()
            drops, self._drops = self._drops, {}
        for drop in drops.values():
            drop()


class Orphans(TableDisplay, tuple[Machine, ...]):
    """Orphans that show themselves as a table."""

    left_out: tuple[str, ...] = ()
    """The backends that could not be asked, each with why: there may be more."""

    @property
    def table(self) -> Table:
        """A row for each, with what it costs an hour."""
        nothing = () if self or self.left_out else ("No orphaned VMs.",)
        prices = [f"{one.price.usd_h:,.2f}" if one.price else "unknown" for one in self]
        rows = [(one.name, one.place, one.job_id, one.status, usd) for one, usd in zip(self, prices)]
        return Table(
            title="Without a living job", columns=("name", "place", "job", "status", "$/h"), rows=rows,
            right=("$/h",), caption="\n".join((*nothing, *(f"left out: {one}" for one in self.left_out))),
        )  # fmt: skip


def orphans(planner: Planner) -> Orphans:
    """Our machines that belong to no job's current attempt. Errors as of `of_each`."""
    found, refused = of_each(planner.backends, lambda backend: _without_job(planner, backend))
    listed = Orphans(chain.from_iterable(found))
    listed.left_out = left_out(refused, "orphans")
    return listed


def _without_job(planner: Planner, backend: Backend) -> list[Machine]:
    """Machines are listed first: what is launched meanwhile is in its record by then."""
    machines = backend.machines()
    living: set[tuple[str, str]] = set()
    for store in planner.stores if machines else ():
        records = store.list()
        current = {job_id: one.metadata.get("attempt") for job_id, one in records.items()}
        named = [one for one in machines if one.attempt and current.get(one.job_id) == one.attempt]
        found = look_many(planner.context(store), sorted({one.job_id for one in named}))
        over = {job_id for job_id, one in found.items() if isinstance(one, Found) and one.is_over}
        living |= {(one.job_id, one.attempt) for one in named if one.job_id not in over}
    return [one for one in machines if (one.job_id, one.attempt) not in living]


def clean_up(planner: Planner, only: Sequence[Machine] | None) -> Orphans:
    """Remove those that are named, or all that are sure to be none's; what is being removed.

    What a record of another release, or none that can be read, may name is removed only by name.
    """
    only = read_whole("", _ONLY, {"only": only})["only"]
    found = orphans(planner)
    named = {(one.place, one.name) for one in only or ()}
    gone = Orphans(
        one for one in found
        if ((one.place, one.name) in named if only is not None else one.attempt and one.is_sure)
    )  # fmt: skip
    gone.left_out = found.left_out
    refusals = []
    for one in gone:
        try:
            planner.backends[one.backend].remove(one)
        except GputrainError as error:  # noqa: PERF203  # it keeps no other from going
            refusals.append(error)
    if refusals:
        raise refusals[0]
    return gone
