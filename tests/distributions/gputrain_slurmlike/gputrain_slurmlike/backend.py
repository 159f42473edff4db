"""`Slurm`: jobs in the partitions of a batch system."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from gputrain import causes
from gputrain.backends.agent_reports import first_cause
from gputrain.backends.base import Backend, Bundle, LogPage, Machine, Request, Status
from gputrain.code import resolve
from gputrain.errors import CapacityError, FieldError, SpecError, TransientError
from gputrain.jobstore import Attempt, FolderStore, JobRecord, JobRef, Launch
from gputrain.lifecycle import Failure, State
from gputrain.planning import Candidate, Fact, Supply, Verdict
from gputrain.runtime import contract, zipapp
from gputrain.spec import TrainingSpec
from gputrain_slurmlike import batch
from gputrain_slurmlike.log import read_log
from gputrain_slurmlike.supply import PARTITIONS, supply

GRACE_S = 5
ENDS_WITHIN_S = 10.0


class Slurm(Backend):
    """Runs jobs in the partitions of a batch system, whose nodes share a folder.

    An attempt is a folder, ``ROOT/PARTITION/JOB/ATTEMPT``. The nodes do not see the record, so the folder
    alone says whether an attempt may run: once it was ended, its folder is there, and nothing starts in it.

    Args:
        root: the folder that all nodes see.
        partitions: where to run, in order of preference.
    """

    name = "slurm"
    poll_s = 0.1
    launch_ttl_s = 10.0

    def __init__(
        self, root: str | os.PathLike[str], *, partitions: Sequence[str] = tuple(PARTITIONS)
    ) -> None:
        unknown = [one for one in partitions if one not in PARTITIONS]
        if unknown:
            known = ", ".join(PARTITIONS)
            fault = FieldError(
                field="partitions", value=repr(unknown), expected=f"some of {known}", fix="see sinfo"
            )
            raise SpecError(str(fault), faults=(fault,))
        self._root = Path(root).absolute()
        self.documents = FolderStore(self._root)
        self._supply = supply(partitions)

    @classmethod
    def for_job(cls, ref: JobRef, record: JobRecord, **arguments: Any) -> "Slurm":
        """The backend of a job: the folder of its attempt lies in the shared folder."""
        if record.attempt and record.attempt.handle:
            arguments["root"] = Path(record.attempt.handle).parents[2]
        return cls(**arguments) if arguments.get("root") else super().for_job(ref, record)

    @property
    def supply(self) -> Supply:
        """What each partition has."""
        return self._supply

    def availability(self, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:
        """A partition that is drained takes nothing."""
        why = {one: "it is drained" if _is_drained(self._root, one.place) else "" for one in wanted}
        return {one: Fact(verdict=Verdict.FITS, absent_why=why[one]) for one in wanted}

    def package(self, spec: TrainingSpec, job_id: str) -> Bundle:  # noqa: ARG002  # code is named by its content
        """The code stays where it lies, for all nodes see it; only a function is to be written down."""
        source = resolve(spec, installed=True)
        if not source.made_files:
            return Bundle(location=source.folder, argv=source.argv)
        (content,) = (text.encode() for text in source.made_files.values())
        sha256 = hashlib.sha256(content).hexdigest()
        path = self._root / ".code" / sha256 / source.argv[0]
        argv = (str(path), *source.argv[1:])
        return Bundle(location=source.folder, argv=argv, sha256=sha256, content=content)

    def upload(self, bundle: Bundle) -> None:
        """Write down the function that was staged."""
        if bundle.content:
            path = Path(bundle.argv[0])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bundle.content)

    def build_request(
        self, record: JobRecord, spec: TrainingSpec, attempt: Attempt, candidate: Candidate, bundle: Bundle
    ) -> Request:
        """The order that the batch process would get. Pure."""
        body = {
            "location": bundle.location,
            "nodes": [
                _node(record.job_id, rank, spec, candidate, bundle, self.job_folder(record.job_id))
                for rank in range(candidate.num_nodes)
            ],
            "max_run_s": int(candidate.max_run_duration.total_seconds()),
            "grace_s": GRACE_S,
        }
        return Request(job_id=record.job_id, attempt=attempt, candidate=candidate, body=body)

    def launch(self, request: Request) -> str:
        """Queue the attempt, unless its folder is there already."""
        partition, body = request.candidate.place, request.body
        folder = self._root / partition / request.job_id / request.attempt.id
        if _is_drained(self._root, partition):
            raise CapacityError(f"the partition {partition} is drained", fix="see sinfo -R", place=partition)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _queue(self._root, folder, body)
        return str(folder)

    def inspect_many(self, records: Sequence[JobRecord]) -> Mapping[str, Status]:
        """What the folders say."""
        return {one.job_id: _status(self._folder(one), one) for one in records}

    def terminate(self, record: JobRecord, grace_s: float) -> None:
        """Leave the file that the batch process looks for."""
        folder = self._folder(record)
        if grace_s == 0:
            _end(folder)
        elif (folder / "order.json").exists():
            (folder / "cancel").touch()

    def logs(self, record: JobRecord, cursor: str = "") -> LogPage:
        """What all nodes wrote since the cursor."""
        folder = self._folder(record)
        order = _read(folder / "order.json")
        if order is None:
            return LogPage(lines=(), cursor=cursor)
        state = _status(folder, record).state
        is_over = state is not None and state.is_terminal
        return read_log(folder, len(order["nodes"]), cursor, is_over=is_over)

    def machines(self, job_id: str = "") -> tuple[Machine, ...]:
        """The folders in which something runs."""
        folders = sorted(one.parent for one in self._root.glob("*/*/*/order.json"))
        return tuple(
            Machine(
                backend=self.name, name=str(one.relative_to(self._root)), place=one.parent.parent.name,
                job_id=one.parent.name, attempt=one.name, status="running", price=None,
            )
            for one in folders
            if one.parent.name.startswith(job_id) and (_is_held(one) or _agents_of(one))
        )  # fmt: skip

    def remove(self, machine: Machine) -> None:
        """End what runs there."""
        _end(self._root / machine.place / machine.job_id / machine.attempt)

    def job_folder(self, job_id: str) -> str:
        """What the job keeps from attempt to attempt, in the shared folder."""
        return str(self._root / "kept" / job_id)

    def _folder(self, record: JobRecord) -> Path:
        assert record.attempt is not None
        return self._root / record.attempt.option.place / record.job_id / record.attempt.id


def _status(folder: Path, record: JobRecord) -> Status:
    is_held = _is_held(folder)  # before the state is read: a batch process writes that, and then lets go
    told = _read(folder / "state.json")
    if told is None and not is_held:
        is_gone = record.attempt is not None and record.attempt.state is Launch.LAUNCHED
        return Status(state=State.FAILED, cause=causes.LOST) if is_gone else Status(state=State.QUEUED)
    told = told or {"state": "queued"}
    state, detail, code = State(told["state"]), told.get("detail", ""), told.get("exit_code")
    failure = None
    if not state.is_terminal and not is_held:
        state, failure = State.FAILED, Failure(kind="lost", message="its batch process was killed")
    elif state is State.FAILED:
        results = [found for path in sorted(folder.glob("result-*.json")) if (found := _read(path))]
        message = detail or f"it ended with exit code {code}"
        failure = first_cause(results) or Failure(kind="exit", message=message, exit_code=code)
    elif state is State.CANCELLED:
        failure = Failure(kind="cancelled", message=detail, exit_code=code)
    elif state is State.EXPIRED:
        failure = Failure(kind="time_limit", message=detail, exit_code=code)
    started, ended = told.get("started_at"), told.get("ended_at")
    return Status(
        state=state,
        exists=True,
        is_whole=state is State.RUNNING,
        cause=causes.of(failure.kind) if failure else None,
        has_run=started is not None,
        handle=str(folder),
        ran_s=ended - started if started and ended else 0.0,
        detail=detail,
        failure=failure,
        started_at=_moment(started),
        ended_at=_moment(ended),
    )


def _end(folder: Path) -> None:
    """Kill what runs, and see it gone."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kill").touch()
    until = time.monotonic() + ENDS_WITHIN_S
    while (is_held := _is_held(folder)) or _agents_of(folder):
        for pid in () if is_held else _agents_of(folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > until:
            raise TransientError(f"what runs in {folder} has not ended", fix="see squeue")
        time.sleep(0.02)


def _agents_of(folder: Path) -> list[int]:
    agents = (_read(folder / "state.json") or {}).get("agents", [])
    return [pid for pid, began in agents if began and batch.identity(pid) == [pid, began]]


def _queue(root: Path, folder: Path, body: Mapping[str, Any]) -> None:
    """Make the attempt's folder, whole, and start its batch process; not where there is such a folder."""
    fresh = Path(tempfile.mkdtemp(dir=root, prefix=".new-"))
    for name in (contract.CHECKPOINT_DIR, contract.OUTPUT_DIR):
        os.makedirs(body["nodes"][0]["env"][name], exist_ok=True)
    made = {contract.RUN_DIR: str(folder), contract.RESULT_DIR: str(folder)}
    nodes = [{**node, "env": {**node["env"], **made}} for node in body["nodes"]]
    (fresh / "agent.pyz").write_bytes(zipapp.build())
    batch.write(fresh / "order.json", {**body, "nodes": nodes, "agent": str(folder / "agent.pyz")})
    with open(fresh / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            fresh.rename(folder)
        except OSError:  # a folder that is not empty is not replaced
            shutil.rmtree(fresh)
            return
        with open(folder / "batch.log", "wb") as log:
            subprocess.run(
                [sys.executable, batch.__file__, str(folder), str(lock.fileno())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=[lock.fileno()], start_new_session=True, check=True,
            )  # fmt: skip


def _is_drained(root: Path, partition: str) -> bool:
    return (root / "drained" / partition).exists()


def _node(
    job_id: str, rank: int, spec: TrainingSpec, candidate: Candidate, bundle: Bundle, folder: str
) -> dict[str, Any]:
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
    for name, given, below in (
        (contract.CHECKPOINT_DIR, spec.checkpoint_dir, "checkpoints"),
        (contract.OUTPUT_DIR, spec.output_dir, "output"),
    ):
        env[name] = given or f"{folder}/{below}"
    return {"rank": rank, "argv": list(bundle.argv), "env": env}


def _address(job_id: str, rank: int) -> str:
    """An address of the node's own: all of 127/8 is this machine."""
    digest = hashlib.sha256(job_id.encode()).digest()
    return f"127.{16 + digest[0] % 32}.{digest[1]}.{rank + 1}"


def _is_held(folder: Path) -> bool:
    """Whether a batch process looks after the attempt."""
    try:
        with open(folder / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
