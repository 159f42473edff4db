"""A job by its name, in any process: its record says which backend it needs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from gputrain.backends import registry
from gputrain.backends.base import Backend
from gputrain.fields import invalid
from gputrain.google import GoogleClient
from gputrain.google.endpoints import asked_for
from gputrain.google.storage import BucketPrefix
from gputrain.job import Job
from gputrain.jobstore import BucketStore, DocumentStore, FolderStore, JobRef, JobStore
from gputrain.jobstore.folder import usual_root
from gputrain.orchestration.context import Context
from gputrain.orchestration.look import lost
from gputrain.trainer.choice import one_backend
from gputrain.trainer.planner import Planner


def attach(uri: str, *, backend: Backend | None = None) -> Job:
    """Take up a job by its name, in any process, on any day.

    Args:
        uri: what ``job.uri`` said: ``gputrain://PROJECT/BUCKET/NAME``, or ``gputrain://local/NAME``.
        backend: the backend to use, where it needs credentials of its own; made from the uri unless said.

    Raises:
        SpecError: the uri names no job, or it needs a backend that is not installed; it says what to install.
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
    ref = JobRef.parse(uri)
    backend = None if backend is None else one_backend(backend)
    return Job(ref, partial(_context_of, ref, backend, arguments), named=by_name)


def _context_of(ref: JobRef, backend: Backend | None, arguments: Mapping[str, Any]) -> Context:
    backends = _backends_of(ref, arguments) if backend is None else {backend.name: backend}
    planner = Planner(backends, lambda: datetime.now(timezone.utc), time.sleep, by_name)
    return planner.context(store_of(planner, ref))


def store_of(planner: Planner, ref: JobRef) -> JobStore:
    """The store of a trainer that a name speaks of. SpecError: it is another project's or place's."""
    for store in planner.stores:
        if store.documents.ref(ref.name) == ref:
            return store
    there = ", ".join(store.documents.ref("NAME").uri for store in planner.stores)
    fix = "gputrain.attach(uri) finds it by itself"
    raise invalid("uri", ref.uri, f"a job of {there}", fix, what="this trainer keeps no such job")


def _backends_of(ref: JobRef, arguments: Mapping[str, Any]) -> dict[str, Backend]:
    """The backends that a job was submitted to, made from its name and its record."""
    store = JobStore(_documents_of(ref, arguments))
    stored = store.read(ref.name)
    if stored is None:
        raise lost(store, ref.name)
    names = dict.fromkeys(one.backend for one in stored.record.options)
    return {name: registry.of_job(name, ref, stored.record, **arguments) for name in names}


def _documents_of(ref: JobRef, arguments: Mapping[str, Any]) -> DocumentStore:
    if not ref.project:
        return FolderStore(Path(ref.home) if ref.home else usual_root())
    asked = asked_for(arguments.get("endpoints"), arguments.get("credentials"))
    access = GoogleClient(project=ref.project, **asked)
    return BucketStore(access, BucketPrefix.parse(f"gs://{ref.home}"))
