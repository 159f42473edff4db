"""A backend: what one platform offers, what it does with attempts of jobs, and the values it exchanges.

A backend translates. It does not wait for a job, print, or retry. What it cannot honour of a spec is among
the limits of its supply. It names everything that it makes after the attempt: only the attempt that the job's
record names may train (docs/design/record.md). A method that takes a record means its ``attempt``: the
current one, or the last of a job that has ended.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gputrain.catalog import Price
from gputrain.causes import Cause
from gputrain.display.table import TableDisplay, TextDisplay
from gputrain.errors import RequestError
from gputrain.fields import invalid
from gputrain.jobstore import Attempt, DocumentStore, FolderStore, JobRecord, JobRef
from gputrain.jobstore.folder import explained, usual_root
from gputrain.lifecycle import Failure, State
from gputrain.planning import Candidate, Fact, GcloudJob, Supply
from gputrain.spec import GpuRequest, TrainingSpec
from gputrain.text import sanitize

if TYPE_CHECKING:
    from gputrain.doctor import Checks
    from gputrain.images import ImageBuilder
    from gputrain.quota import Quotas


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
class Request:
    """What a backend sends to launch one attempt: pure data, looked at in golden tests."""

    job_id: str
    attempt: Attempt
    candidate: Candidate
    body: Mapping[str, Any]
    """JSON types only."""
    image: str = ""
    """What its ranks run in, by digest; empty: in none, or its tag is all that is known."""
    is_fenced: bool = True
    """As of `Backend`."""


@attrs.frozen(kw_only=True)
class LogLine(TextDisplay):
    """One line that a rank (or a node's agent, where ``rank`` is None) wrote."""

    message: str
    rank: int | None = None
    node_rank: int | None = None
    severity: str = "INFO"
    time: datetime | None = None
    """When it was written; timezone-aware."""

    def __str__(self) -> str:
        return f"[{'agent' if self.rank is None else self.rank}] {sanitize(self.message)}"


@attrs.frozen(kw_only=True)
class LogPage:
    """Lines since a cursor, oldest first, and the cursor for the next page."""

    lines: tuple[LogLine, ...]
    cursor: str
    has_more: bool = False
    """More is there already, though these may be none."""


class NotSupportedError(RequestError):
    """A backend has no way to do this."""


@attrs.frozen(kw_only=True)
class Status(TextDisplay):
    """What one look at an attempt saw. What comes next is decided by the first eight fields alone."""

    state: State | None = None
    """None: its backend could not be asked, and nothing follows from that."""
    exists: bool = False
    """Anything of it can be seen: an operation, a group, a machine, a job. Gone is a 404 for each name."""
    is_whole: bool = False
    """All its nodes are there and none has ended."""
    lost_for_s: float | None = None
    """How long ago the first of its nodes ended or was lost, while others live; None: no such."""
    cause: Cause | None = None
    """Why it ended without success."""
    has_run: bool = False
    """Ranks have started."""
    handle: str = ""
    """The job that holds the attempt's claim, by name; empty where the backend's names decide."""
    ran_s: float = 0.0
    """How long its ranks have run, once it is over: what is paid and what the time limit counts."""
    detail: str = ""
    """A few words for a person: what the platform says, in its own terms."""
    failure: Failure | None = None
    """The first cause, with the failing rank's traceback."""
    started_at: datetime | None = None
    """When its ranks first ran."""
    ended_at: datetime | None = None
    restarts: int = 0
    """How often its platform has started it again by itself."""

    def __str__(self) -> str:
        return ": ".join(filter(None, ("unknown" if self.state is None else self.state.value, self.detail)))


LAYOUT = {"output_dir": "output", "checkpoint_dir": "checkpoints"}
"""Fields of a spec -> where that lies below the job's folder, unless the spec names another place."""


@attrs.frozen(kw_only=True)
class JobFile(TextDisplay):
    """A file among a job's outputs or checkpoints."""

    name: str
    """Its path below the place, with ``/``."""
    size: int
    """In bytes."""
    generation: int | None = attrs.field(default=None, repr=False)
    """Which content of the name it is, where the store counts them."""

    def __str__(self) -> str:
        return f"{self.name} ({self.size:,} bytes)"


@attrs.frozen(kw_only=True)
class Machine(TableDisplay):
    """Something that is there and has our labels: a VM, a custom job, a group in a queue, a process."""

    backend: str
    name: str
    place: str
    job_id: str
    attempt: str
    """The id of the attempt that it was made for; empty where its labels do not tell."""
    status: str
    """As the platform calls it."""
    price: Price | None
    """What it costs an hour, at the dated price; None: unknown. A halted machine pays for its disk only."""
    is_sure: bool = True
    """Whether it is an orphan where no record of this trainer's names it."""


class Backend(ABC):
    """One platform that runs jobs: what it offers, and what it does with attempts of jobs."""

    name: str
    """The word for it in records and settings: ``local``, ``vertex``, ``compute``."""
    needed_beyond_plans: tuple[str, ...] = ()
    """Arguments that may be missing where it only plans."""
    poll_s = 5.0
    """Seconds between two looks at a job."""
    launch_ttl_s = 90.0
    """How long a launch of which nothing can be seen may still be on its way, in seconds."""
    restarts_itself = False
    """The platform starts an interrupted attempt again by itself."""
    emulator = ""
    """The address of the emulator that stands for the platform; empty: it is the platform itself."""
    settings: Mapping[str, str] = MappingProxyType({})
    """What jobs are and may do by its settings: another process reconciles only under the same ones."""

    @cached_property
    def documents(self) -> DocumentStore:
        """Where records of its jobs are kept; by default in this machine's folder."""
        return FolderStore(usual_root())

    @property
    @abstractmethod
    def supply(self) -> Supply:
        """The machines it offers, and what it cannot honour. It makes no call."""

    @abstractmethod
    def package(self, spec: TrainingSpec, job_id: str) -> Bundle:
        """Find the code, and say where the job will find it. It writes nothing."""

    @abstractmethod
    def build_request(
        self, record: JobRecord, spec: TrainingSpec, attempt: Attempt, candidate: Candidate, bundle: Bundle
    ) -> Request:
        """The request that launches an attempt, as it is sent. It may read, and changes nothing.

        Args:
            record: of the job, which does not name the attempt yet.
            spec: with what is left of the job's time and money.
            attempt: its id and its names are in all that is made for it.
            candidate: where.
            bundle: the code, which is in its place.
        """

    @abstractmethod
    def launch(self, request: Request) -> str:
        """Request the machines; the attempt's handle. Repeating it is safe.

        Raises:
            TransientError: whether they come is not known.
            CapacityError, QuotaExceededError: no room, or no quota, and nothing is left of the try.
            GputrainError: it was refused, and nothing is there.
        """

    def is_fenced(self, spec: TrainingSpec) -> bool:  # noqa: ARG002
        """Whether our code in such a job leaves where its attempt was superseded."""
        return True

    @abstractmethod
    def inspect_many(self, records: Sequence[JobRecord]) -> Mapping[str, Status]:
        """What one look sees of the attempts, by their jobs' ids. It changes nothing.

        One that cannot be seen now has a Status without a state, with the reason in its ``detail``.

        Raises:
            AccessError, TransientError: none of them can be looked at.
        """

    @abstractmethod
    def terminate(self, record: JobRecord, grace_s: float) -> None:
        """End an attempt, and with it what is left of one that is over.

        Args:
            grace_s: what ranks have to save. With a grace, what runs is asked to save and to leave by itself,
                and is not waited for; what has no ranks goes at once. With 0 everything goes, and has gone
                when this returns.

        Raises:
            AccessError, TransientError: something may be there still.
        """

    @abstractmethod
    def logs(self, record: JobRecord, cursor: str = "") -> LogPage:
        """Log lines of the attempt since ``cursor``; from the beginning where it is empty.

        A cursor that begins with its attempt's id and a slash is kept when another attempt follows; then the
        rest of the one before comes first.
        """

    @property
    def image_builder(self) -> ImageBuilder | None:
        """Where images are built and kept; None: its jobs run in no containers."""
        return None

    @classmethod
    def for_job(cls, ref: JobRef, record: JobRecord, **arguments: Any) -> Backend:  # noqa: ARG003
        """The backend that a job's name speaks of, so that `gputrain.attach` needs nothing else.

        Args:
            ref: the job's name.
            record: of the job. It says in which regions it may run.
            arguments: of the constructor, which no name holds.
        """
        fix, name = f"gputrain.attach(uri, backend={cls.__name__}(...))", cls.__name__
        what = f"{name} cannot be made from a job's name alone"
        raise invalid("backend", name, "one that a job's name leads to", fix, what=what)

    def availability(self, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:  # noqa: ARG002
        """Quota and advice for the candidates; what cannot be read is left out."""
        return {}

    def upload(self, bundle: Bundle) -> None:  # noqa: B027
        """Put the code of `package` where jobs find it, unless it is there."""

    def preflight(self, spec: TrainingSpec | None, wanted: Sequence[Candidate]) -> Checks:  # noqa: ARG002
        """What the spec needs at the places where it may run; without a spec, what every job needs."""
        from gputrain.doctor.report import Probe, run_checks, unknown

        nothing = Probe(subject="preflight", run=lambda: [unknown("this backend checks nothing beforehand")])
        return run_checks(self.name, [nothing])

    has_quotas = False
    """Whether `quotas` can be asked."""

    def quotas(self, gpus: Sequence[GpuRequest] = (), **size: Any) -> Quotas:  # noqa: ARG002
        """A row for each kind, model and region; where none is named, for all there are.

        Args:
            size: ``num_nodes`` (1), ``models`` and ``regions`` (all).
        """
        raise NotSupportedError(f"{self.name} has no quotas")

    def to_gcloud(self, request: Request) -> GcloudJob:  # noqa: ARG002
        """The job as a file, and the gcloud command that makes it."""
        fix = "plan for VertexAI, whose custom jobs gcloud makes from a file"
        what = f"gcloud makes no jobs of {self.name}"
        raise invalid("backend", self.name, "one with such jobs", fix, what=what)

    def find_code(self, sha256: str, argv: Sequence[str]) -> Bundle | None:  # noqa: ARG002
        """The code of an earlier attempt, where it is kept still; None where it is not. It writes nothing."""
        return None

    def cursor_near_end(self, record: JobRecord, lines: int) -> str:  # noqa: ARG002
        """A cursor for `logs` after which about so many lines are left; empty: the beginning. A guess."""
        return ""

    def python(self, record: JobRecord) -> str:  # noqa: ARG002
        """The interpreter of the job's ranks, where it is one of this machine's; empty: not known."""
        return ""

    def ask_for_stacks(self, record: JobRecord, nonce: str) -> None:  # noqa: ARG002
        """Ask the agents of all nodes where their ranks stand; ``nonce`` tells answers from earlier ones."""
        raise NotSupportedError(f"the ranks of a job on {self.name} cannot be asked", fix="read job.logs()")

    def stacks(self, record: JobRecord, nonce: str) -> Mapping[int, Sequence[Mapping[str, Any]]]:  # noqa: ARG002
        """The answers that have come: of each node, by its rank, where its ranks stand."""
        return {}

    def job_folder(self, job_id: str) -> str:  # noqa: ARG002
        """What a job keeps from attempt to attempt lies below it, a path or ``gs://``; empty: not known."""
        return ""

    def place(self, record: JobRecord, field: str, given: str | None) -> str:
        """Where a job's outputs or checkpoints are, by the field of `LAYOUT` and what its spec says there."""
        folder = self.job_folder(record.job_id)
        return given or (f"{folder}/{LAYOUT[field]}" if folder else "")

    def list_files(self, place: str) -> Sequence[JobFile]:
        """The files below a place of a job, by name; of this machine's file system unless overridden.

        Raises:
            AccessError, TransientError: they cannot be listed.
        """
        found = (os.path.join(top, one) for top, _, names in os.walk(place) for one in names)
        with explained(place, "read"):
            return [
                JobFile(name=Path(one).relative_to(place).as_posix(), size=os.path.getsize(one))
                for one in sorted(found)
                if os.path.isfile(one)
            ]

    def read_file(self, place: str, file: JobFile, first: int, count: int) -> bytes:
        """So many bytes of a file from ``first`` on; fewer where it ends, or is another one by now."""
        with explained(place, "read"), open(os.path.join(place, file.name), "rb") as opened:
            opened.seek(first)
            return opened.read(count)

    def ssh_command(self, record: JobRecord, node_rank: int = 0) -> str:  # noqa: ARG002
        """The command that leads a person to a node."""
        raise NotSupportedError(f"no shell leads to the nodes of {self.name}", fix="read job.logs()")

    def machines(self, job_id: str = "") -> Sequence[Machine]:  # noqa: ARG002
        """All that is there and may bill: of every job whose id begins so, whether it is current or not.

        Raises:
            TransientError: it could not all be listed; a PartialListError holds what was.
        """
        return ()

    def remove(self, machine: Machine) -> None:  # noqa: B027
        """Remove one of `machines`."""
