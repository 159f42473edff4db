"""`Local`: the smallest of the backends, and a real one."""

from __future__ import annotations

import functools
import os
import platform
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from gputrain import staging
from gputrain.arguments import refusing
from gputrain.backends.base import Backend, Bundle, JobRef, LogPage, Request, Start
from gputrain.backends.local import code, devices, offers, render, start, states
from gputrain.backends.local.settings import ROWS, usual_root
from gputrain.backends.results import AsksForStacks
from gputrain.errors import JobLostError, RequestError, SpecError, TransientError
from gputrain.fields import read_whole
from gputrain.keeper import folder
from gputrain.lifecycle import Observation
from gputrain.planning import Candidate, Fact, Supply, Verdict
from gputrain.records import WITHDRAWN, Code, FolderBoard, Record
from gputrain.records.folder import listed
from gputrain.spec import TrainingSpec

if TYPE_CHECKING:
    from gputrain.preflight import Checks


POLL_S = 0.03
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
RECORDS = ".records"


class Local(Backend, AsksForStacks):
    """Runs jobs on this machine: its GPUs where a spec asks for some, CPU ranks with gloo otherwise.

    A job goes on when its client ends, and leaves no process behind when it ends itself.

    Args:
        gpus: how many of this machine's GPUs to use at most; None: all that ``nvidia-smi`` finds and
            ``CUDA_VISIBLE_DEVICES`` shows.
        root: the folder that holds the jobs; None: ``$GPUTRAIN_HOME/jobs``, else
            ``$XDG_STATE_HOME/gputrain/jobs``, else ``~/.local/state/gputrain/jobs``.

    Raises:
        SpecError: ``gpus`` is not a count, or ``root`` no folder; or this is Windows.

    >>> Local(gpus=0).supply.offers[0].shape
    'CPU'
    """

    @refusing(ROWS)
    def __init__(self, *, gpus: int | None = None, root: str | os.PathLike[str] | None = None) -> None:
        found = read_whole("Local(...)", ROWS, {"gpus": gpus, "root": root})
        if not hasattr(os, "fork"):
            raise SpecError(
                f"Local does not run on {platform.system()}",
                why="its jobs are trees of processes as Linux and macOS have them",
                fix="name a cloud, as Trainer(VertexAI(...)); or use gputrain inside WSL, which is Linux",
            )
        self._most: int | None = found["gpus"]
        self._root: Path = found["root"] or usual_root()
        self._found: Supply | None = None

    def __repr__(self) -> str:
        return f"Local(gpus={self._most}, root={str(self._root)!r})"

    @classmethod
    def for_ref(cls, ref: JobRef, **arguments: Any) -> Local:
        """The backend that a job's name speaks of."""
        return cls(root=ref.place or None, **arguments)

    @property
    def poll_s(self) -> float:
        """A look is one small file: looking often costs little, and the end is seen soon."""
        return POLL_S

    @functools.cached_property
    def _usual(self) -> Path:
        return usual_root()

    @property
    def name(self) -> str:
        """``local``."""
        return offers.NAME

    @property
    def _gpus(self) -> tuple[offers.LocalGpu, ...]:
        return () if self._most == 0 else offers.find_gpus()[: self._most]

    @property
    def supply(self) -> Supply:
        """CPU ranks, each kind and count of this machine's GPUs, and what it cannot honour."""
        if self._found is None:  # looked for once; two threads that do so find the same
            self._found = offers.supply(self._gpus)
        return self._found

    def availability(self, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:
        """This machine is here: what it offers, it has. Jobs wait for GPUs that other jobs hold."""
        return {one: Fact(verdict=Verdict.FITS) for one in wanted}

    def preflight(self, spec: TrainingSpec | None, wanted: Sequence[Candidate], job_id: str) -> Checks:  # noqa: ARG002
        """What this machine has for jobs, or for this one; nothing is made."""
        from gputrain.backends.local import preflight

        return preflight.preflight(self._root, self._gpus, spec)

    def stage(self, spec: TrainingSpec, job_id: str) -> Bundle:  # noqa: ARG002  # the code stays where it lies
        """Find the code, which runs where it lies; only a function is to be written down, beside the jobs.

        Raises:
            SpecError: a file, folder, module or program is not there, or a function cannot travel.
        """
        return code.stage(staging.resolve(spec, installed=True), self._root)

    def send(self, bundle: Bundle) -> None:
        """Write down the function that was staged.

        Raises:
            PermissionDeniedError: the folder of jobs cannot be written.
            CapacityError: its disk is full.
        """
        code.send(bundle, self._root)

    def render(self, start: Start) -> Request:
        """The order that the job's supervisor would get."""
        one, job_id = start.candidate, start.job_id
        uuids = [gpu.uuid for gpu in self._gpus if gpu.kind == one.gpu]
        body = render.order(start, uuids=uuids, locks=devices.FOLDER)
        return Request(ref=self._ref(job_id), candidate=one, body=body, names=(job_id,))

    def create(self, request: Request) -> JobRef:
        """Start the job, or take up the one of this name that is there already.

        Raises:
            SpecError: ``checkpoint_dir`` or ``output_dir`` cannot be made.
            PermissionDeniedError: the folder of jobs cannot be written, or the job's is not ours alone.
            CapacityError: its disk is full.
        """
        start.create(str(self._root), request.ref.name, request.body)
        return request.ref

    def recorder(self) -> FolderRecorder:
        """The records beside the jobs."""
        return FolderRecorder(self._root, self._ref("job"))

    def observe(self, ref: JobRef) -> Observation:
        """One look at the job, from any process of this machine.

        Raises:
            JobLostError: its folder is not there.
        """
        return states.observe(self._folder_of(ref))

    def logs(self, ref: JobRef, cursor: str = "") -> LogPage:
        """What all nodes wrote since ``cursor``, in the order of time. Raises as `observe`."""
        path = self._folder_of(ref)
        return states.read_logs(path, cursor, is_over=states.is_over(path))

    def cancel(self, ref: JobRef) -> None:
        """Ask the job to stop; its ranks may save first. Raises as `observe`."""
        path = self._folder_of(ref)
        if not states.is_over(path):
            start.ask_to_stop(path)

    def cursor_near_end(self, ref: JobRef, lines: int) -> str:
        """As of `FindsTheEnd`, by the lines' usual length. Raises as `observe`."""
        return states.near_end(self._folder_of(ref), lines)

    def python(self, ref: JobRef) -> str:
        """As of `RunsInAPython`: that of whoever submitted it, by its order. Raises as `observe`."""
        start = (folder.read_json(os.path.join(self._folder_of(ref), folder.ORDER)) or {}).get("start")
        return str(start[0]) if isinstance(start, list) and start else ""

    def ask_for_stacks(self, ref: JobRef, nonce: str) -> None:
        """Leave the question where the agents look. Raises as `observe`."""
        states.ask_for_stacks(self._folder_of(ref), nonce)

    def stacks(self, ref: JobRef, nonce: str) -> Mapping[int, Sequence[Mapping[str, Any]]]:
        """The answers that are there. Raises as `observe`."""
        return states.read_stacks(self._folder_of(ref), nonce)

    def find(self, *, name: str = "") -> tuple[JobRef, ...]:
        """The jobs in this backend's folder, newest first; those whose name starts with ``name``.

        Raises:
            PermissionDeniedError: the folder is there and cannot be read.
        """
        there = listed(str(self._root))
        names = [one for one in there if one.startswith(name) and _NAME.fullmatch(one)]
        own = [one for one in names if folder.is_own(str(self._root / one))]
        orders = {one: folder.read_json(str(self._root / one / folder.ORDER)) for one in own}
        made_at = {one: order.get("created_at", 0.0) for one, order in orders.items() if order is not None}
        newest_first = sorted(made_at, key=lambda one: (made_at[one], one), reverse=True)
        return tuple(attrs.evolve(self._ref(one), made_at=made_at[one]) for one in newest_first)

    def _ref(self, job_id: str) -> JobRef:
        if self._root == self._usual:  # a short name, for what most people have most of
            return JobRef(backend=self.name, project="", place="", name=job_id)
        return JobRef(backend=self.name, project=_host(), place=str(self._root), name=job_id)

    def _folder_of(self, ref: JobRef) -> str:
        """The job's folder; the name came from a string, so it must name one folder and nothing above it."""
        path = os.path.join(ref.place or self._usual, ref.name)
        if not _NAME.fullmatch(ref.name) or not os.path.exists(os.path.join(path, folder.ORDER)):
            here = (
                ""
                if ref.project in ("", _host())
                else f"; it was started on {ref.project}, and this is {_host()}"
            )
            raise JobLostError(
                f"there is no job {ref.name}",
                why=f"{path} is not a job's folder{here}",
                fix="list the jobs there are with trainer.jobs(), or attach on the machine that runs it",
                uri=ref.uri,
            )
        start.refuse_foreign(path)
        return path


def _host() -> str:
    return socket.gethostname() or "this-machine"


@attrs.define(eq=False)
class FolderRecorder:
    """As of `Recorder`."""

    root: Path
    ref: JobRef
    """The name of any job there, whose last part is filled in."""
    settles_s: float = attrs.field(default=0.0, init=False)
    """A folder is made once, by whoever is first."""
    turn_s: float = attrs.field(default=0.0, init=False)
    """Whether its asker lives is seen at once."""
    repeats: bool = attrs.field(default=True, init=False)
    """A job has one folder."""

    @property
    def board(self) -> FolderBoard:
        """The records beside the jobs."""
        return FolderBoard(self.root / RECORDS)

    @property
    def choices(self) -> Mapping[str, str]:
        """Which folder it is; a job keeps nothing of the settings, and its supervisor starts it again."""
        return {"folder": self.board.identity()}

    def code(self, code: Code) -> Bundle | None:  # noqa: ARG002  # it lies in somebody's folder
        """Code is not kept here: it runs where it lies."""
        return None

    def name_of(self, record: Record) -> JobRef:
        """The job's name."""
        return attrs.evolve(self.ref, name=record.job_id)

    def there(self, record: Record) -> JobRef | None:
        """The job's name, if it was started; one whose creator died before that is started by a create.

        Raises:
            RequestError: it was asked of a folder of another machine, or of one that is gone.
        """
        path, told = str(self.root / record.job_id), record.settings.get(offers.NAME, {})
        if "folder" in told and told["folder"] != self.choices["folder"]:
            raise RequestError(
                f"{record.job_id} was asked for in another folder than {self.root}",
                why="it may run there, on a machine that cannot be looked at from here",
                fix="attach to it there, or submit this one under another key",
            )
        if not os.path.lexists(path):
            return None
        start.refuse_foreign(path)
        start.await_start(path)
        return None if states.is_abandoned(path) else self.name_of(record)

    def clear(self, record: Record) -> bool:
        """Undo a create that was interrupted, at once: there is no job then, and its name is free.

        A job that another process made is left alone, unless it was killed as it took the ask back.

        Raises:
            TransientError: its processes have not ended yet.
        """
        ask = record.latest.nonce if record.over == WITHDRAWN else ""
        if not start.withdraw(str(self.root), record.job_id, ask):
            raise TransientError(
                f"{record.job_id} was withdrawn, and its processes have not ended yet",
                fix="wait a moment: without their folder they end by themselves",
            )
        return True
