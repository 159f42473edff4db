"""`Local`: runs jobs on this machine. An attempt has a folder, and a supervisor that outlives its client.

::

    ROOT/records/JOB.json      the job's record, which its supervisor reads every few seconds
    ROOT/JOB/ATTEMPT/          one attempt; `gputrain.backends.local.folder` says what lies in it

A record may also lie in a bucket, where a job may run on a cloud as well. The supervisor reads no buckets:
then only the folder of the attempt tells it to leave, and so only a process of this machine can.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from gputrain import causes, fields
from gputrain.backends.base import Backend, Bundle, LogPage, Machine, Request, Status
from gputrain.backends.local import folder, offers, request as orders, status
from gputrain.code import resolve
from gputrain.errors import GputrainError, RequestError, SpecError, TransientError
from gputrain.fields import Field, read_whole
from gputrain.jobstore import Attempt, FolderStore, JobRecord, JobRef, Launch
from gputrain.jobstore.folder import explained, folder_path, make_private, usual_root
from gputrain.lifecycle import State
from gputrain.planning import Candidate, Fact, Supply, Verdict
from gputrain.runtime import host
from gputrain.spec import TrainingSpec

if TYPE_CHECKING:
    from gputrain.doctor import Checks

_FUNCTIONS = ".functions"
ENDS_WITHIN_S = 10.0
"""How long a supervisor has to end what runs; then it is killed, and the kernel ends the rest."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")

ROWS = {
    "gpus": Field(fields.whole(0, 64), "a count of GPUs, or None", "Local(gpus=2)"),
    "root": Field(folder_path, "a folder's path, or None", "Local(root='jobs')"),
}
"""How each argument is read."""


class Local(Backend):
    """Runs jobs on this machine: its GPUs where a spec asks for some, CPU ranks with gloo otherwise.

    A job keeps running when its client ends, and leaves no process behind when it ends itself.

    Args:
        gpus: how many of this machine's GPUs to use at most; None: all that ``nvidia-smi`` finds and
            ``CUDA_VISIBLE_DEVICES`` shows.
        root: the folder that holds the jobs; None: ``$GPUTRAIN_HOME/jobs``, else
            ``$XDG_STATE_HOME/gputrain/jobs``, else ``~/.local/state/gputrain/jobs``.

    Raises:
        SpecError: ``gpus`` is not a count, or ``root`` no folder; or this is Windows.

    >>> Local(gpus=0).supply.offers[0].gpu is None
    True
    """

    name = offers.NAME
    poll_s = 0.03
    launch_ttl_s = 10.0
    restarts_itself = True

    def __init__(self, *, gpus: int | None = None, root: str | os.PathLike[str] | None = None) -> None:
        found = read_whole("Local(...)", ROWS, {"gpus": gpus, "root": root})
        if not hasattr(os, "fork"):
            fix = "name a cloud, as Trainer(VertexAI(...)); or use gputrain inside WSL, which is Linux"
            why = "its jobs are trees of processes as Linux and macOS have them"
            raise SpecError(f"Local does not run on {platform.system()}", why=why, fix=fix)
        self._most: int | None = found["gpus"]
        self._root: Path = found["root"] or usual_root()
        self.documents = FolderStore(self._root)

    def __repr__(self) -> str:
        return f"Local(gpus={self._most}, root={str(self._root)!r})"

    @classmethod
    def for_job(cls, ref: JobRef, record: JobRecord, **arguments: Any) -> Local:  # noqa: ARG003
        return cls(root=ref.home or None, **arguments)

    @cached_property
    def supply(self) -> Supply:
        """CPU ranks, each kind and count of this machine's GPUs, and what it cannot honour."""
        return offers.supply(self.gpus)

    def availability(self, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:
        """This machine is here: what it offers, it has. Jobs wait for GPUs that other jobs hold."""
        return {one: Fact(verdict=Verdict.FITS) for one in wanted}

    def preflight(self, spec: TrainingSpec | None, wanted: Sequence[Candidate]) -> Checks:  # noqa: ARG002
        from gputrain.backends.local import preflight

        return preflight.preflight(self._root, self.gpus, spec)

    def package(self, spec: TrainingSpec, job_id: str) -> Bundle:  # noqa: ARG002  # the code stays where it lies
        """Find the code, which runs where it lies; only a function is to be written down, beside the jobs."""
        source = resolve(spec, installed=True)
        if not source.made_files:
            return Bundle(location=source.folder, argv=source.argv)
        name, text = next(iter(source.made_files.items()))
        digest = hashlib.sha256(text.encode()).hexdigest()
        path = self._root / _FUNCTIONS / digest[:16] / name
        argv = (str(path), *source.argv[1:])
        return Bundle(location=source.folder, argv=argv, sha256=digest, content=text.encode())

    def upload(self, bundle: Bundle) -> None:
        if bundle.content:
            path = Path(bundle.argv[0])
            with explained(str(self._root)):
                make_private(path.parent)
                host.put(str(path), bundle.content, folder.FILE_MODE)

    @property
    def gpus(self) -> tuple[offers.LocalGpu, ...]:
        """The GPUs that jobs may have."""
        return () if self._most == 0 else offers.find_gpus()[: self._most]

    def build_request(
        self, record: JobRecord, spec: TrainingSpec, attempt: Attempt, candidate: Candidate, bundle: Bundle
    ) -> Request:
        uuids = [gpu.uuid for gpu in self.gpus if gpu.kind == candidate.gpu]
        body = orders.order(
            record.job_id, attempt.id, spec, candidate, bundle,
            uuids=uuids, locks=orders.GPU_LOCKS, folder=self.job_folder(record.job_id),
        )  # fmt: skip
        return Request(job_id=record.job_id, attempt=attempt, candidate=candidate, body=body)

    def launch(self, request: Request) -> str:
        """Start the attempt's supervisor, unless its folder is there already."""
        job_id = request.job_id
        path = self._root / job_id / request.attempt.id
        with explained(self._root):
            if not os.path.lexists(path):
                make_private(path.parent)
                orders.refuse_foreign(str(path.parent))
                record = self._root / "records" / f"{job_id}.json"
                order = orders.complete(self._root, request.body)
                orders.start(self._root, path, {**order, "record": str(record) if record.exists() else ""})
        return _handle(path)

    def inspect_many(self, records: Sequence[JobRecord]) -> Mapping[str, Status]:
        return {one.job_id: self._inspect(one) for one in records}

    def _inspect(self, record: JobRecord) -> Status:
        try:
            path = self._folder(record)
        except GputrainError as error:  # of another host, or a folder that others may write
            return Status(detail=error.what)
        if _is_there(path):
            seen = status.inspect(path)
            return attrs.evolve(seen, handle=_handle(path) if seen.exists else "")
        if record.current.state is Launch.LAUNCHING:
            return Status(state=State.QUEUED)
        return Status(state=State.FAILED, cause=causes.LOST, detail=f"{path} is gone")

    def terminate(self, record: JobRecord, grace_s: float) -> None:
        """As of `Backend`. An attempt that was ended before it began never begins: its folder is there."""
        try:
            path = self._folder(record)
        except RequestError:
            if grace_s > 0:
                return  # its record tells it
            raise
        if grace_s > 0 and _is_there(path):
            if not status.is_over(path):
                with explained(path):
                    _touch(path, folder.CANCEL)
        else:
            _end(path)

    def logs(self, record: JobRecord, cursor: str = "") -> LogPage:
        path = self._folder(record)
        if not _is_there(path):
            return LogPage(lines=(), cursor=cursor)
        return status.logs(path, is_over=status.is_over(path)).read(cursor)

    def cursor_near_end(self, record: JobRecord, lines: int) -> str:
        return status.logs(self._folder(record), is_over=True).near_end(lines)

    def python(self, record: JobRecord) -> str:
        order = host.read_json(os.path.join(self._folder(record), folder.ORDER)) or {}
        return str(order["start"][0]) if order.get("start") else ""

    def job_folder(self, job_id: str) -> str:
        return str(self._root / job_id)

    def place(self, record: JobRecord, field: str, given: str | None) -> str:
        """As of `Backend`: where its last attempt wrote."""
        order = host.read_json(os.path.join(self._folder(record), folder.ORDER)) if given else None
        return str(order[field]) if order and field in order else super().place(record, field, given)

    def ask_for_stacks(self, record: JobRecord, nonce: str) -> None:
        status.ask_for_stacks(self._folder(record), nonce)

    def stacks(self, record: JobRecord, nonce: str) -> Mapping[int, Sequence[Mapping[str, Any]]]:
        return status.read_stacks(self._folder(record), nonce)

    def machines(self, job_id: str = "") -> tuple[Machine, ...]:
        """The supervisors that run. Of one whose record lies in a bucket, its owner is not known here."""
        paths = sorted(one.parent for one in self._root.glob(f"*/*/{folder.ORDER}"))
        return tuple(
            Machine(
                backend=self.name,
                name=f"{path.parent.name}/{path.name}",
                place=offers.MACHINE,
                job_id=path.parent.name,
                attempt=path.name,
                status=str(status.inspect(str(path)).state),
                price=None,
                is_sure=bool((host.read_json(str(path / folder.ORDER)) or {}).get("record")),
            )
            for path in paths
            if path.parent.name.startswith(job_id) and orders.is_own(str(path)) and folder.is_held(str(path))
        )

    def remove(self, machine: Machine) -> None:
        job_id, _, attempt = machine.name.partition("/")
        if _NAME.fullmatch(job_id) and _NAME.fullmatch(attempt):
            _end(str(self._root / job_id / attempt))

    def _folder(self, record: JobRecord) -> str:
        """The attempt's folder.

        Raises:
            RequestError: the attempt was launched on another host, or in another folder.
            PermissionDeniedError: it is not a folder of this user alone.
        """
        path, handle = self._root / record.job_id / record.current.id, record.current.handle
        if handle not in ("", _handle(path)):
            other, _, where = handle.partition(":")
            raise RequestError(
                f"it runs on {other}" if other != _host() else f"it runs in {where}",
                fix=f"do that on {other}, with the folder of jobs that it was submitted with",
            )
        if os.path.lexists(path):
            orders.refuse_foreign(str(path))
        return str(path)


def _host() -> str:
    return socket.gethostname() or "this-machine"


def _handle(path: str | Path) -> str:
    return f"{_host()}:{path}"


def _is_there(path: str) -> bool:
    """Whether it was launched: a folder that was made to bar it has no state."""
    return os.path.lexists(os.path.join(path, folder.STATE))


def _touch(path: str, name: str) -> None:
    os.close(os.open(os.path.join(path, name), os.O_WRONLY | os.O_CREAT, folder.FILE_MODE))


def _end(path: str) -> None:
    """Kill what runs there, and see it gone. The folder stays, so that nothing starts in it later."""
    with explained(path):
        make_private(Path(path))
        _touch(path, folder.KILL)
        until = time.monotonic() + ENDS_WITHIN_S
        while folder.is_held(path):
            late_s = time.monotonic() - until
            if late_s > 0:
                _kill_supervisor(path)
            if late_s > ENDS_WITHIN_S:
                raise TransientError(
                    f"the processes of {path} have not ended", fix="see whether one hangs in a driver: ps axf"
                )
            time.sleep(0.02)


def _kill_supervisor(path: str) -> None:
    named = (host.read_json(os.path.join(path, folder.STATE)) or {}).get("supervisor")
    pid, began = named if isinstance(named, list) else (0, "")
    if began and host.began(pid) == began:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
