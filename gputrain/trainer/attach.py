"""A trainer's backends, as they are given or as a job's name and record say."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from gputrain.backends import registry
from gputrain.backends.base import Backend
from gputrain.errors import FieldError, SpecError
from gputrain.fields import invalid, short_repr
from gputrain.google import GoogleClient
from gputrain.google.endpoints import asked_for
from gputrain.google.storage import BucketPrefix
from gputrain.job import Job
from gputrain.jobstore import BucketStore, DocumentStore, FolderStore, JobRef, JobStore
from gputrain.jobstore.folder import usual_root
from gputrain.orchestration.context import Context
from gputrain.orchestration.look import lost
from gputrain.trainer.planner import Planner


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
    ref = JobRef.parse(uri)
    given: Any = backend
    if given is not None and not isinstance(given, Backend):
        fault = _fault(given, "backend")
        raise SpecError(f"a job is attached with a backend: {fault}", faults=(fault,))
    return Job(ref, partial(_context_of, ref, backend, arguments), named=by_name)


def _context_of(ref: JobRef, backend: Backend | None, arguments: Mapping[str, Any]) -> Context:
    backends = _backends_of(ref, arguments) if backend is None else {backend.name: backend}
    planner = Planner(backends, lambda: datetime.now(timezone.utc), time.sleep, by_name)
    return planner.context(store_of(planner, ref))


def store_of(planner: Planner, ref: JobRef) -> JobStore:
    """The store of a trainer that a name belongs to. SpecError: it is another project's or place's."""
    for store in planner.stores:
        if store.documents.ref(ref.name) == ref:
            return store
    there = ", ".join(store.documents.ref("NAME").uri for store in planner.stores)
    fix = "gputrain.attach(uri) finds it by itself"
    raise invalid("uri", ref.uri, f"a job of {there}", fix, what="this trainer keeps no such job")


def _backends_of(ref: JobRef, arguments: Mapping[str, Any]) -> dict[str, Backend]:
    """The backends that a job was submitted to, made from its name and its record."""
    documents: DocumentStore
    if ref.project:
        asked = asked_for(arguments.get("endpoints"), arguments.get("credentials"))
        documents = BucketStore(
            GoogleClient(project=ref.project, **asked), BucketPrefix.parse(f"gs://{ref.home}")
        )
    else:
        documents = FolderStore(Path(ref.home) if ref.home else usual_root())
    stored = JobStore(documents).read(ref.name)
    if stored is None:
        raise lost(JobStore(documents), ref.name)
    names = dict.fromkeys(one.backend for one in stored.record.options)
    return {name: registry.of_job(name, ref, stored.record, **arguments) for name in names}


def chosen(backends: object) -> dict[str, Backend]:
    """A trainer's backends by name, in the order given; this machine where it is None.

    Raises:
        SpecError: with everything that is no backend, or that there is none, or two of a kind.
    """
    given = registry.find("local")() if backends is None else backends
    listed = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    faults = [_fault(one, "backends") for one in listed if not isinstance(one, Backend)]
    named = {one.name: one for one in listed if isinstance(one, Backend)}
    if not faults and (not listed or len(named) != len(listed)):
        names = ", ".join(one.name for one in named.values()) or "none"
        faults = [
            FieldError(field="backends", value=names, expected="one or more, each kind once", fix="Trainer()")
        ]
    if faults:
        lines = "".join(f"\n  {fault}" for fault in faults)
        raise SpecError(
            f"Trainer(...) takes one or more backends, each kind once:{lines}", faults=tuple(faults)
        )
    return named


def _fault(value: object, field: str) -> FieldError:
    """What is wrong with a value that is no backend."""
    fix = "Local(), or VertexAI(project=...); one of your own: docs/howto/write-a-backend.md"
    shown = value.__name__ if isinstance(value, type) else short_repr(value)
    return FieldError(field=field, value=shown, expected="a backend, not its name or its class", fix=fix)
