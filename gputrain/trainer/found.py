"""Jobs that exist: taken up by their names, shown as a list."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gputrain.backends.base import Attaches, Backend, JobRef
from gputrain.errors import Fault, SpecError
from gputrain.job import Job
from gputrain.tables import Table

_HOMES = {
    "local": ("gputrain.backends.local", "Local"),
    "vertex": ("gputrain.backends.vertex", "VertexAI"),
    "compute": ("gputrain.backends.compute", "ComputeEngine"),
}


class Jobs(list[Job]):
    """Jobs that show themselves as a table."""

    @property
    def table(self) -> Table:
        """One row a job."""
        rows = [
            (job.ref.name, job.ref.backend, job.state.value, str(job.duration or "").split(".")[0])
            for job in self
        ]
        return Table(title="Jobs", columns=("name", "backend", "state", "running for"), rows=rows)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self.table._repr_mimebundle_()

    def __rich_console__(self, console: Any, options: Any) -> Any:
        yield self.table


def attach(uri: str, *, backend: Backend | None = None) -> Job:
    """Take up a job by its name, in any process, on any day.

    Args:
        uri: what ``job.uri`` said: ``gputrain://backend/project/place/name``.
        backend: the backend to use, where it needs credentials of its own; made from the uri unless said.

    Raises:
        SpecError: the uri names no job.
        JobLostError: the job cannot be found.
    """
    ref = JobRef.parse(uri)
    return taken_up(ref, backend or _backend_of(ref))


def _backend_of(ref: JobRef) -> Backend:
    if ref.backend not in _HOMES:
        known = ", ".join(_HOMES)
        fault = Fault(field="uri", value=ref.backend, allowed=f"one of {known}", fix="copy it from job.uri")
        raise SpecError(f"no backend is called {ref.backend!r}; there are {known}", faults=(fault,))
    module, name = _HOMES[ref.backend]
    kind: type[Attaches] = getattr(import_module(module), name)
    return kind.for_ref(ref)


def taken_up(ref: JobRef, backend: Backend) -> Job:
    """The job of that name, looked at once."""
    job = Job(ref, backend)
    job.refresh()
    return job
