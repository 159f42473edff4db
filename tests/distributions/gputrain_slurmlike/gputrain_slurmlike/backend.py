"""`Slurm`: jobs in the partitions of a batch system."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from gputrain import staging
from gputrain.backends.base import Backend, Bundle, JobRef, LogPage, Orphan, Request, Start
from gputrain.backends.results import first_cause
from gputrain.entrypoint import contract, zipapp
from gputrain.errors import CapacityError, Fault, JobLostError, SpecError
from gputrain.lifecycle import Failure, Observation, State
from gputrain.planning import Candidate, Fact, Supply, Verdict
from gputrain.spec import TrainingSpec
from gputrain_slurmlike import batch
from gputrain_slurmlike.log import read_log
from gputrain_slurmlike.supply import PARTITIONS, supply

GRACE_S = 5


class Slurm(Backend):
    """Runs jobs in the partitions of a batch system, whose nodes share a folder.

    Args:
        root: the folder that all nodes see.
        partitions: where to run, in order of preference.
    """

    def __init__(
        self, root: str | os.PathLike[str], *, partitions: Sequence[str] = tuple(PARTITIONS)
    ) -> None:
        unknown = [one for one in partitions if one not in PARTITIONS]
        if unknown:
            known = ", ".join(PARTITIONS)
            fault = Fault(
                field="partitions", value=repr(unknown), allowed=f"some of {known}", fix="see sinfo"
            )
            raise SpecError(str(fault), faults=(fault,))
        self._root = Path(root).absolute()
        self._supply = supply(partitions)

    @classmethod
    def for_ref(cls, ref: JobRef, **arguments: Any) -> "Slurm":
        """The backend that a job's name speaks of: its project is the shared folder."""
        return cls(ref.project, **arguments)

    @property
    def name(self) -> str:
        """``slurm``."""
        return "slurm"

    @property
    def poll_s(self) -> float:
        """A look is a file or two."""
        return 0.1

    @property
    def supply(self) -> Supply:
        """What each partition has."""
        return self._supply

    def availability(self, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:
        """A partition that is drained takes nothing."""
        return {
            one: Fact(verdict=Verdict.FITS, absent_why="it is drained" if self._is_drained(one.place) else "")
            for one in wanted
        }

    def stage(self, spec: TrainingSpec, job_id: str) -> Bundle:  # noqa: ARG002  # code is named by its content
        """The code stays where it lies, for all nodes see it; only a function is to be written down."""
        source = staging.resolve(spec, installed=True)
        if not source.made_files:
            return Bundle(location=source.folder, argv=source.argv)
        (content,) = (text.encode() for text in source.made_files.values())
        sha256 = hashlib.sha256(content).hexdigest()
        path = self._root / ".code" / sha256 / source.argv[0]
        argv = (str(path), *source.argv[1:])
        return Bundle(location=source.folder, argv=argv, sha256=sha256, content=content)

    def send(self, bundle: Bundle) -> None:
        """Write down the function that was staged."""
        if bundle.content:
            path = Path(bundle.argv[0])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bundle.content)

    def render(self, start: Start) -> Request:
        """The order that the batch process would get. Pure."""
        candidate = start.candidate
        body = {
            "location": start.bundle.location,
            "nodes": [_node(start, rank) for rank in range(candidate.num_nodes)],
            "max_run_s": int(candidate.max_run_duration.total_seconds()),
            "grace_s": GRACE_S,
        }
        return Request(ref=self._ref(candidate.place, start.job_id), candidate=candidate, body=body)

    def create(self, request: Request) -> JobRef:
        """Queue the job, or take up the one of this id that is there already."""
        there = self._known(request.ref.name)
        if there is not None:
            return there
        place = request.ref.place
        if self._is_drained(place):
            raise CapacityError(f"the partition {place} is drained", fix="see sinfo -R", place=place)
        folder = self._folder(request.ref)
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = self._queued(folder, request.body)
        if lock is not None:
            with lock:
                _start(folder, lock.fileno())
        return request.ref

    def _queued(self, folder: Path, body: Mapping[str, Any]) -> Any:
        """Make the job's folder, whole; its lock, or None where another process was quicker."""
        fresh = Path(tempfile.mkdtemp(dir=self._root, prefix=".new-"))
        made = {contract.TOKEN: secrets.token_hex(32), contract.RESULT_DIR: str(folder)}
        if len(body["nodes"]) > 1:
            address = body["nodes"][0]["env"][contract.LOCAL_ADDR]
            made[contract.COORDINATOR] = f"{address}:{_free_port(address)}"
        nodes = [{**node, "env": {**node["env"], **made}} for node in body["nodes"]]
        (fresh / "agent.pyz").write_bytes(zipapp.build())
        batch.write(fresh / "order.json", {**body, "nodes": nodes, "agent": str(folder / "agent.pyz")})
        lock = open(fresh / "lock", "w")  # noqa: SIM115  # whoever starts the job closes it
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            fresh.rename(folder)
        except OSError:  # a folder that is not empty is not replaced
            lock.close()
            shutil.rmtree(fresh)
            return None
        return lock

    def _known(self, job_id: str) -> JobRef | None:
        """The job of that id, in whichever partition."""
        return next((ref for ref in self.find(name=job_id) if ref.name == job_id), None)

    def observe(self, ref: JobRef) -> Observation:
        """One look: the last state that was written, or that nobody looks after the job any more."""
        folder = self._there(ref)
        is_held = _is_held(folder / "lock")  # asked first: what was written before it let go is read after
        told = _read(folder / "state.json") or {"state": "queued"}
        state = State(told["state"])
        results = [found for path in sorted(folder.glob("result-*.json")) if (found := _read(path))]
        failure = None
        if not state.is_terminal and not is_held:
            state, failure = State.FAILED, Failure(kind="lost", message="its batch process was killed")
        elif state is State.FAILED:
            failure = first_cause(results) or Failure(
                kind="exit",
                message=told["detail"] or f"it ended with exit code {told['exit_code']}",
                exit_code=told["exit_code"],
            )
        elif state is State.CANCELLED:
            failure = Failure(kind="cancelled", message=told["detail"], exit_code=told["exit_code"])
        return Observation(
            state=state,
            detail=told.get("detail", ""),
            failure=failure,
            started_at=_moment(told.get("started_at")),
            ended_at=_moment(told.get("ended_at")),
            exit_code=told.get("exit_code"),
            raw={"state": told, "results": results},
        )

    def logs(self, ref: JobRef, cursor: str = "") -> LogPage:
        """What all nodes wrote since the cursor."""
        folder = self._there(ref)
        state = self.observe(ref).state
        nodes = len(_read(folder / "order.json")["nodes"])
        return read_log(folder, nodes, cursor, is_over=state is not None and state.is_terminal)

    def cancel(self, ref: JobRef) -> None:
        """Leave the word that the batch process looks for."""
        (self._there(ref) / "cancel").touch()

    def find(self, *, name: str = "") -> tuple[JobRef, ...]:
        """The jobs of all partitions, newest first."""
        folders = [
            one.parent for one in self._root.glob("*/*/order.json") if one.parent.name.startswith(name)
        ]
        folders.sort(key=lambda one: (one / "order.json").stat().st_mtime_ns, reverse=True)
        return tuple(self._ref(one.parent.name, one.name) for one in folders if one.parent.name in PARTITIONS)

    def orphans(self) -> tuple[Orphan, ...]:
        """Agents that still run though nobody looks after their job."""
        return tuple(
            Orphan(name=str(pid), place=ref.place, job_id=ref.name, status="running", price=None)
            for ref in self.find()
            for pid in self._left(ref)
        )

    def clean_up(self, only: Sequence[Orphan] | None = None) -> tuple[Orphan, ...]:
        """End them, or those of them that were seen before; their ranks end with them."""
        found = tuple(one for one in self.orphans() if only is None or one in only)
        for one in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(one.name), signal.SIGTERM)
        return found

    def _left(self, ref: JobRef) -> list[int]:
        folder = self._folder(ref)
        if _is_held(folder / "lock"):
            return []
        agents = (_read(folder / "state.json") or {"agents": []})["agents"]
        return [pid for pid, began in agents if began and batch.identity(pid) == [pid, began]]

    def _is_drained(self, partition: str) -> bool:
        return (self._root / "drained" / partition).exists()

    def _ref(self, partition: str, job_id: str) -> JobRef:
        return JobRef(backend=self.name, project=str(self._root), place=partition, name=job_id)

    def _folder(self, ref: JobRef) -> Path:
        return Path(ref.project) / ref.place / ref.name

    def _there(self, ref: JobRef) -> Path:
        folder = self._folder(ref)
        if not (folder / "order.json").exists():
            raise JobLostError(
                f"there is no job {ref.name} in {ref.place}", fix="see trainer.jobs()", uri=ref.uri
            )
        return folder


def _start(folder: Path, lock: int) -> None:
    with open(folder / "batch.log", "wb") as log:
        subprocess.run(
            [sys.executable, batch.__file__, str(folder), str(lock)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            pass_fds=[lock], start_new_session=True, check=True,
        )  # fmt: skip


def _node(start: Start, rank: int) -> dict[str, Any]:
    spec, candidate, job_id = start.spec, start.candidate, start.job_id
    env = {
        "GLOO_SOCKET_IFNAME": "lo",
        **spec.env,
        contract.JOB_ID: job_id,
        contract.NUM_NODES: str(candidate.num_nodes),
        contract.NODE_RANK: str(rank),
        contract.NPROC_PER_NODE: str(candidate.nproc_per_node),
        contract.LAUNCHER: spec.launcher.value,
        contract.LOG_FORMAT: "json",
        contract.LOCAL_ADDR: _address(job_id, rank),
        contract.GRACE: str(GRACE_S),
    }
    folders = {contract.CHECKPOINT_DIR: spec.checkpoint_dir, contract.OUTPUT_DIR: spec.output_dir}
    env |= {name: path for name, path in folders.items() if path}
    return {"rank": rank, "argv": list(start.bundle.argv), "env": env}


def _address(job_id: str, rank: int) -> str:
    """An address of the node's own: all of 127/8 is this machine."""
    digest = hashlib.sha256(job_id.encode()).digest()
    return f"127.{16 + digest[0] % 32}.{digest[1]}.{rank + 1}"


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _is_held(lock: Path) -> bool:
    with open(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
