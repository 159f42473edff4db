"""The seam between gputrain and a platform: a page of values, one protocol that every backend keeps, and one
for each thing that some can do besides.

A backend translates, never waits for a job and never prints; what it cannot honour it names in its supply's
limits. What it can do is what it has. Type checkers tell a class that inherits a protocol what it lacks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import quote, unquote

import attrs

from gputrain.catalog import Price, ProvisioningModel
from gputrain.errors import Fault, SpecError
from gputrain.fields import shown
from gputrain.lifecycle import Observation
from gputrain.planning import Candidate, Fact, GcloudJob, Supply
from gputrain.spec import GpuRequest, TrainingSpec
from gputrain.tables import Shown, Told
from gputrain.terminal import safe

if TYPE_CHECKING:
    from gputrain.preflight import Checks
    from gputrain.quota import Quotas

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
    """A zone or region; for `Local`, the folder that holds its jobs, or nothing for the usual one."""
    name: str
    made_at: float = attrs.field(default=0.0, eq=False, repr=False)
    """Seconds since 1970, where a list tells it; no part of the name."""

    @property
    def uri(self) -> str:
        """The name as one string that any process can attach to."""
        parts = (self.backend, *((self.project, self.place) if self.place else ()), self.name)
        return _SCHEME + "/".join(quote(part, safe="") for part in parts)

    @classmethod
    def parse(cls, uri: str) -> JobRef:
        """Read a ``gputrain://`` name.

        Raises:
            SpecError: it has not the form ``gputrain://backend/project/place/name``, or for a job in the
                usual folder of this machine ``gputrain://local/name``.
        """
        is_name = isinstance(uri, str) and uri.startswith(_SCHEME)
        parts = [unquote(part) for part in uri.removeprefix(_SCHEME).split("/")] if is_name else []
        if len(parts) not in (2, 4) or not all(parts):
            form, fix = "gputrain://backend/project/place/name", "trainer.jobs() lists those there are"
            fault = Fault(field="uri", value=shown(uri), allowed=form, fix=fix)
            raise SpecError(f"{fault.value} names no job", why=f"it must be {form}", fix=fix, faults=(fault,))
        project, place = parts[1:-1] or ("", "")
        return cls(backend=parts[0], project=project, place=place, name=parts[-1])

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
    content: bytes = attrs.field(default=b"", eq=False, repr=False)
    """What is to lie there, until it was sent; empty where there is nothing to send."""


@attrs.frozen(kw_only=True)
class Start:
    """One start of a job: what it is made from."""

    spec: TrainingSpec
    candidate: Candidate
    job_id: str
    bundle: Bundle
    attempt: int = 0
    """0 for the first start of the job, one more with each restart."""
    nonce: str = ""
    """Drawn for this ask; what is made bears it, so that it is told from what another ask made."""


@attrs.frozen(kw_only=True)
class Request:
    """What a backend sends to start one job: pure data, looked at in golden tests."""

    ref: JobRef
    candidate: Candidate
    body: Mapping[str, Any]
    """JSON types only; of a backend that completes its requests, a draft until then."""
    names: tuple[str, ...] = ()
    """What it would make, by name: known before it is asked for."""


@attrs.frozen(kw_only=True)
class LogLine(Told):
    """One line that a rank (or a node's agent, where ``rank`` is None) wrote."""

    message: str
    rank: int | None = None
    node_rank: int | None = None
    severity: str = "INFO"
    time: datetime | None = None

    def __str__(self) -> str:
        return f"[{'agent' if self.rank is None else self.rank}] {safe(self.message)}"


@attrs.frozen(kw_only=True)
class LogPage:
    """Lines since a cursor, oldest first, and the cursor for the next page."""

    lines: tuple[LogLine, ...]
    cursor: str
    missed_bytes: int = 0
    """Bytes that the platform threw away before they could be read."""
    has_more: bool = False
    """More is there already, though these may be none."""


@attrs.frozen(kw_only=True)
class Orphan(Shown):
    """Something of ours that is there, and billed, and belongs to no living job."""

    name: str
    place: str
    job_id: str
    status: str
    """As the platform calls it."""
    price: Price | None
    """What it costs an hour, at the dated price; None: unknown. A halted machine pays for its disk only."""


@runtime_checkable
class Backend(Protocol):
    """What every platform does."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The word for it in job names: ``local``, ``vertex``, ``compute``."""

    @property
    @abstractmethod
    def poll_s(self) -> float:
        """Seconds between two looks at a job."""

    @property
    @abstractmethod
    def supply(self) -> Supply:
        """The shapes it can run, and what it cannot honour."""

    @abstractmethod
    def availability(self, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:
        """Quota and advice for the candidates; read-only; what cannot be read is left out."""

    @abstractmethod
    def stage(self, spec: TrainingSpec, job_id: str) -> Bundle:
        """Find the code, and say where the job will find it. It writes nothing."""

    @abstractmethod
    def render(self, start: Start) -> Request:
        """The request that would start the job. Pure."""

    @abstractmethod
    def create(self, request: Request) -> JobRef:
        """Start the job: the one write.

        Raises:
            CapacityError: no machines there; the next candidate may do.
        """

    @abstractmethod
    def observe(self, ref: JobRef) -> Observation:
        """One look at the job. Raises JobLostError where it cannot be found."""

    @abstractmethod
    def logs(self, ref: JobRef, cursor: str = "") -> LogPage:
        """Log lines since ``cursor`` (the beginning, where it is empty)."""

    @abstractmethod
    def cancel(self, ref: JobRef) -> None:
        """Ask the job to stop. Twice is once; a job that has ended stays as it is."""

    @abstractmethod
    def find(self, *, name: str = "") -> tuple[JobRef, ...]:
        """Jobs of ours that exist, newest first; those whose name starts with ``name``."""


@runtime_checkable
class Attaches(Protocol):
    """Can be made from the name of a job, so that `gputrain.attach` needs nothing but the name."""

    @classmethod
    @abstractmethod
    def for_ref(cls, ref: JobRef, **arguments: Any) -> Backend:
        """The backend that a job's name speaks of; ``arguments`` of the constructor that no name holds."""


@runtime_checkable
class Completes(Protocol):
    """Its requests hold what only the cloud knows: what an image is today."""

    @abstractmethod
    def complete(self, request: Request) -> Request:
        """The request as it is sent, checked. It reads, and changes nothing."""


@runtime_checkable
class SendsCode(Protocol):
    """Its jobs find their code where it was put for them."""

    @abstractmethod
    def send(self, bundle: Bundle) -> None:
        """See that it is there; what is missing is sent. Raises RequestError where there is none to send."""


@runtime_checkable
class Tidies(Protocol):
    """May have left of a gang what cannot go on, and bills."""

    @abstractmethod
    def tidy(self, ref: JobRef, seen: Observation) -> None:
        """End it, as a look saw it. For those who act for a job; a look changes nothing."""


@runtime_checkable
class CleansUp(Protocol):
    """May leave something behind that is billed, and can find and remove it."""

    @abstractmethod
    def orphans(self) -> tuple[Orphan, ...]:
        """What bears our label and has no living job."""

    @abstractmethod
    def clean_up(self, only: Sequence[Orphan] | None = None) -> tuple[Orphan, ...]:
        """Remove the orphans, or those of them that somebody has seen; those that were asked to go."""


@runtime_checkable
class Preflights(Protocol):
    """Looks at what jobs need before one is made."""

    @abstractmethod
    def preflight(self, spec: TrainingSpec | None, wanted: Sequence[Candidate], job_id: str) -> Checks:
        """What this spec needs at the places it may run at; with no spec, what every job needs."""


@runtime_checkable
class TellsQuotas(Protocol):
    """Reads how jobs stand with the platform's quotas."""

    @abstractmethod
    def quotas(self, gpus: Sequence[GpuRequest] = (), *, num_nodes: int = 1,
               models: Sequence[ProvisioningModel] = (), regions: Sequence[str] = ()) -> Quotas:  # fmt: skip
        """A row for each kind, model and region; where none is named, for all there are."""


@runtime_checkable
class OpensShells(Protocol):
    """Lets a person into the nodes of a job."""

    @abstractmethod
    def ssh_command(self, ref: JobRef, node_rank: int = 0) -> str:
        """The command that leads there."""


@runtime_checkable
class SpeaksGcloud(Protocol):
    """Its jobs are also made by gcloud, from a file."""

    @classmethod
    @abstractmethod
    def from_gcloud(cls, config: str | Mapping[str, Any], **arguments: Any) -> Backend:
        """The backend that such a file speaks of; ``arguments`` of the constructor that no file holds."""

    @abstractmethod
    def to_gcloud(self, request: Request) -> GcloudJob:
        """The job as a file, and the command that makes it."""
