"""A backend whose machines are processes of this machine, and whose places answer by their names."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

from gputrain import causes
from gputrain.backends.base import Backend, Bundle, LogPage, Request, Status
from gputrain.errors import CapacityError, TransientError
from gputrain.jobstore import FolderStore, JobRecord, JobStore
from gputrain.lifecycle import State
from gputrain.orchestration.look import Context
from gputrain.orchestration.options import option_of
from gputrain.planning import Candidate
from gputrain.spec import TrainingSpec

GUEST = Path(__file__).with_name("guest.py")


class Processes(Backend):
    name, launch_ttl_s = "processes", 0.5

    def __init__(self, root, seconds=0.3):
        self.root, self.seconds, self.launches = Path(root), seconds, 0

    supply = None

    def package(self, _spec, _job_id):
        return Bundle(location="", argv=())

    def build_request(self, record, _spec, attempt, candidate, _bundle):
        return Request(job_id=record.job_id, attempt=attempt, candidate=candidate, body={})

    def launch(self, request):
        job_id, attempt, candidate = request.job_id, request.attempt, request.candidate
        self.launches += 1
        if candidate.place.startswith("full"):
            raise CapacityError(f"{candidate.place} is full", place=candidate.place)
        if candidate.place.startswith("silent"):
            raise TransientError("no answer came, and nothing does")
        folder = self.root / job_id / attempt.id
        if folder.is_dir():
            return str(folder)
        folder.mkdir(parents=True)
        record = self.root / "records" / f"{job_id}.json"
        for rank in range(len(attempt.names)):
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-S",
                    GUEST,
                    record,
                    folder.parent,
                    attempt.id,
                    str(rank),
                    str(self.seconds),
                ],
                start_new_session=True,
            )
            (folder / f"pid-{rank}").write_text(str(process.pid))
        if candidate.place.startswith("lost"):
            raise TransientError("no answer came, but it is there")
        if candidate.place.startswith("struck"):
            raise KeyboardInterrupt
        return str(folder)

    def inspect_many(self, records):
        return {one.job_id: self._status(one.job_id, one.attempt) for one in records}

    def logs(self, _record, cursor=""):
        return LogPage(lines=(), cursor=cursor)

    def _status(self, job_id, attempt):
        folder = self.root / job_id / attempt.id
        if not folder.is_dir():
            return Status(state=State.INTERRUPTED if attempt.handle else State.QUEUED)
        whys = {one.name[6:]: one.read_text() for one in folder.glob("ended-*")}
        alive = [rank for rank, pid in self._pids(folder).items() if rank not in whys and is_alive(pid)]
        lost = len(attempt.names) > len(alive)
        has_run = (folder.parent / "log").is_file() and f"starts {attempt.id}" in (
            folder.parent / "log"
        ).read_text()
        if alive:
            lost_for_s = time.time() - folder.stat().st_mtime if lost else None
            return Status(
                state=State.RUNNING, exists=True, is_whole=not lost, lost_for_s=lost_for_s, has_run=has_run
            )
        ends = {"done": State.SUCCEEDED, "cancelled": State.CANCELLED}
        state = ends.get(next(iter(sorted(whys.values())), ""), State.INTERRUPTED)
        if len(whys) < len(attempt.names):
            state = State.INTERRUPTED
        cause = causes.PREEMPTED if state is State.INTERRUPTED else None
        return Status(state=state, exists=False, cause=cause, has_run=has_run, ran_s=1.0)

    def terminate(self, record, grace_s):
        folder = self.root / record.job_id / record.attempt.id
        until = time.monotonic() + grace_s
        for rank, pid in self._pids(folder).items():
            while is_alive(pid) and time.monotonic() < until and not (folder / f"ended-{rank}").exists():
                time.sleep(0.02)
            kill(pid)

    def _pids(self, folder):
        return {one.name[4:]: int(one.read_text() or 0) for one in sorted(folder.glob("pid-*"))}


def is_alive(pid):
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    while is_alive(pid):
        time.sleep(0.005)


def candidate(place, num_nodes=1):
    return Candidate(
        backend="processes", gpu=None, gpu_count=0, machine_type="this", place=place, region=place,
        provisioning_model=None, num_nodes=num_nodes, nproc_per_node=1, price=None,
        max_run_duration=timedelta(hours=1),
    )  # fmt: skip


def first_record(places, job_id="bert", num_nodes=1, **spec):
    spec = TrainingSpec(script="train.py", num_nodes=num_nodes, **spec).to_dict()
    options = tuple(option_of(candidate(place, num_nodes)) for place in places)
    return JobRecord(job_id=job_id, spec=spec, options=options)


def context(root, places, *, seconds=0.3, num_nodes=1):
    found = tuple(candidate(place, num_nodes) for place in places)
    return Context(
        jobs=JobStore(FolderStore(Path(root))),
        backends={"processes": Processes(root, seconds)},
        code=lambda *_: Bundle(location="", argv=()),
        candidates_left=lambda _: found,
        refresh=tuple,
        now=lambda: datetime.now(timezone.utc),
        sleep=lambda s: time.sleep(min(s, 0.1)),
    )
