"""A job by its name, in any process; and a trainer's backends as they are given."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from gputrain.backends import registry
from gputrain.backends.base import Backend
from gputrain.fields import Errors
from gputrain.google import GoogleClient
from gputrain.google.endpoints import asked_for
from gputrain.google.storage import BucketPrefix
from gputrain.job import Job
from gputrain.jobstore import BucketStore, DocumentStore, FolderStore, JobRef, JobStore
from gputrain.jobstore.folder import usual_root
from gputrain.orchestration.look import Context, lost
from gputrain.trainer.planner import Planner

_A_BACKEND = "a backend, not its name or its class"
_FIX = "Local(), or VertexAI(project=...); one of your own: docs/howto/write-a-backend.md"


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
    errors.check(backend is None or isinstance(backend, Backend), "backend", backend, _A_BACKEND, _FIX)
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


def chosen(backends: object) -> dict[str, Backend]:
    """A trainer's backends by name, in the order given; this machine where it is None.

    Raises:
        SpecError: with everything that is no backend, or that there is none, or two of a kind.
    """
    given = registry.find("local")() if backends is None else backends
    listed = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    errors = Errors("Trainer(...)")
    for one in listed:
        errors.check(isinstance(one, Backend), "backends", one, _A_BACKEND, _FIX)
    named = {one.name: one for one in listed if isinstance(one, Backend)}
    if errors.is_clean("backends"):
        is_each_once = bool(listed) and len(named) == len(listed)
        errors.check(is_each_once, "backends", list(named), "one or more, each kind once", "Trainer()")
    errors.raise_if_any()
    return named
