"""Jobs that exist: taken up by their names, shown as a list."""

from __future__ import annotations

from gputrain.backends.base import Backend, JobRef
from gputrain.job import Job
from gputrain.tables import Shown, Table
from gputrain.trainer.road import Road


class JobList(Shown, list[Job]):
    """Jobs that show themselves as a table."""

    @property
    def table(self) -> Table:
        """One row a job."""
        rows = [
            (job.ref.name, job.ref.backend, job.state.value, str(job.duration or "").split(".")[0])
            for job in self
        ]
        return Table(title="Jobs", columns=("name", "backend", "state", "running for"), rows=rows)


def attach(uri: str, *, backend: Backend | None = None) -> Job:
    """Take up a job by its name, in any process, on any day.

    Args:
        uri: what ``job.uri`` said: ``gputrain://backend/project/place/name``.
        backend: the backend to use, where it needs credentials of its own; made from the uri unless said.

    Raises:
        SpecError: the uri names no job, or a backend that is not installed; it says what to install.
        JobLostError: the job cannot be found.
    """
    ref = JobRef.parse(uri)
    if backend is None:
        from gputrain.backends import registry

        backend = registry.of_ref(ref)
    return Road({backend.name: backend}).taken_up(ref, backend)
