"""The seam between gputrain and a platform: one protocol that every backend keeps, one for each thing that
some can do besides, and the values that are handed across.

A backend translates, never waits for a job and never prints; what it cannot honour it names in its supply's
limits. What it can do is what it has. Type checkers tell a class that inherits a protocol what it lacks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from gputrain.backends.values import Bundle, JobRef, LogLine, LogPage, Orphan, Request, Start
from gputrain.catalog import ProvisioningModel
from gputrain.lifecycle import Observation
from gputrain.planning import Candidate, Fact, GcloudJob, Supply
from gputrain.spec import GpuRequest, TrainingSpec

if TYPE_CHECKING:
    from gputrain.preflight import Checks
    from gputrain.quota import Quotas

__all__ = [
    "Attaches",
    "Backend",
    "Bundle",
    "ChecksRefs",
    "CleansUp",
    "Completes",
    "JobRef",
    "LogLine",
    "LogPage",
    "OpensShells",
    "Orphan",
    "Preflights",
    "Request",
    "SendsCode",
    "SpeaksGcloud",
    "Start",
    "TellsQuotas",
    "Tidies",
]


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
class ChecksRefs(Protocol):
    """Its jobs are told apart by more than their id: by an account, or a bucket."""

    @abstractmethod
    def check_ref(self, ref: JobRef) -> None:
        """Raise SpecError where a job's name speaks of a job that is not this backend's, and ask nobody."""


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
    def quotas(
        self,
        gpus: Sequence[GpuRequest] = (),
        *,
        num_nodes: int = 1,
        models: Sequence[ProvisioningModel] = (),
        regions: Sequence[str] = (),
    ) -> Quotas:
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
