"""The seam between gputrain and a platform: one page of values, one protocol.

Adding a platform is adding one folder beside this file.
A backend translates and never retries, never waits for a job and never prints; what it cannot honour
it names in its supply's limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote, unquote

import attrs

from gputrain.errors import Fault, SpecError
from gputrain.lifecycle import Observation
from gputrain.planning import Candidate, Fact, Supply
from gputrain.spec import TrainingSpec

_SCHEME = "gputrain://"


@attrs.frozen(kw_only=True)
class JobRef:
    """The name of one job, wherever it runs.

    >>> JobRef.parse("gputrain://compute/my-project/us-central1-a/bert-x1y2").name
    'bert-x1y2'
    """

    backend: str
    project: str
    place: str
    """A zone or region; for `Local`, the folder that holds its jobs."""
    name: str

    @property
    def uri(self) -> str:
        """The name as one string that any process can attach to."""
        parts = (self.backend, self.project, self.place, self.name)
        return _SCHEME + "/".join(quote(part, safe="") for part in parts)

    @classmethod
    def parse(cls, uri: str) -> JobRef:
        """Read a ``gputrain://`` name.

        Raises:
            SpecError: it has not the form ``gputrain://backend/project/place/name``.
        """
        parts = [unquote(part) for part in uri.removeprefix(_SCHEME).split("/")]
        if not uri.startswith(_SCHEME) or len(parts) != 4 or not all(parts):
            form = "gputrain://backend/project/place/name"
            fault = Fault(
                field="uri", value=repr(uri), allowed=f"the form {form}", fix="copy it from job.uri"
            )
            raise SpecError(f"{uri!r} names no job: it must have the form {form}", faults=(fault,))
        backend, project, place, name = parts
        return cls(backend=backend, project=project, place=place, name=name)

    def __str__(self) -> str:
        return self.uri


@attrs.frozen(kw_only=True)
class Bundle:
    """The code of a job, ready to run: where it lies, and how it is started there."""

    location: str
    """A folder on this machine, or the ``gs://`` object that holds the tarball."""
    argv: tuple[str, ...]
    """What follows ``--`` on the entrypoint's command line: ``train.py --lr 3e-4``, ``-m pkg.train``..."""
    sha256: str = ""
    generation: int = 0


@attrs.frozen(kw_only=True)
class Request:
    """What a backend would send to start one job: pure data, looked at in golden tests."""

    ref: JobRef
    candidate: Candidate
    body: Mapping[str, Any]
    """JSON types only."""


@attrs.frozen(kw_only=True)
class LogLine:
    """One line that a rank (or a node's agent, where ``rank`` is None) wrote."""

    message: str
    rank: int | None = None
    node_rank: int | None = None
    severity: str = "INFO"
    time: datetime | None = None


@attrs.frozen(kw_only=True)
class LogPage:
    """Lines since a cursor, oldest first, and the cursor for the next page."""

    lines: tuple[LogLine, ...]
    cursor: str
    missed_bytes: int = 0
    """Bytes that the platform threw away before they could be read."""


class Backend(Protocol):
    """What every platform does.

    A backend that `gputrain.attach` can make by itself also has ``for_ref(ref)``, a class method that
    makes it from the name of a job, with the default credentials. One whose platform starts no interrupted
    job again has ``resume(ref)``, which does so where there is room, and says whether it did; one that may
    leave something behind has ``orphans()`` and ``sweep()``; one whose jobs gcloud makes from a file has
    ``to_gcloud(request)``. ``known(job_id)`` finds a job by its id alone (or None), sooner than `find`;
    ``withdraw(ref)`` undoes a `create` that was interrupted, more wholly than `cancel`, and says whether
    nothing is left; ``turns`` keeps two processes from placing one job on two backends. One that can look at
    what jobs need before one is made has ``preflight(spec, candidates, job_id)``, which gives `Checks`: of a
    spec and the places it may run at, or, with no spec, of what every job needs.
    """

    @property
    def name(self) -> str:
        """The word for it in job names: ``local``, ``vertex``, ``compute``."""
        ...

    @property
    def poll_s(self) -> float:
        """Seconds between two looks at a job."""
        ...

    @property
    def supply(self) -> Supply:
        """The shapes it can run, and what it cannot honour."""
        ...

    def availability(self, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:
        """Quota and advice for the candidates; read-only; what cannot be read is left out."""
        ...

    def stage(self, spec: TrainingSpec, job_id: str) -> Bundle:
        """Bring the code where the job will find it."""
        ...

    def render(self, spec: TrainingSpec, candidate: Candidate, job_id: str, bundle: Bundle) -> Request:
        """The request that would start the job. Pure."""
        ...

    def create(self, request: Request) -> JobRef:
        """Start the job: the one write.

        Raises:
            CapacityError: no machines there; the next candidate may do.
        """
        ...

    def observe(self, ref: JobRef) -> Observation:
        """One look at the job. Raises JobLostError where it cannot be found."""
        ...

    def logs(self, ref: JobRef, cursor: str = "") -> LogPage:
        """Log lines since ``cursor`` (the beginning, where it is empty)."""
        ...

    def cancel(self, ref: JobRef) -> None:
        """Ask the job to stop. Twice is once; a job that has ended stays as it is."""
        ...

    def find(self, *, name: str = "") -> tuple[JobRef, ...]:
        """Jobs of ours that exist, newest first; those whose name starts with ``name``."""
        ...
