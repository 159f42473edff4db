"""The supervisor of one attempt on this machine, which keeps running when its client ends.

Standard library only, so that it starts in milliseconds and stays small.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from gputrain.backends.local import folder
from gputrain.runtime import contract, host, processes
from gputrain.runtime.contract import CANCELLED, SUPERSEDED, WAIT_LIMIT, WAITING
from gputrain.runtime.peers import Folder
from gputrain.runtime.supervisor import TICK_S, Rules, Site, Supervisor

KILL_MARGIN_S = 5.0
"""How much longer than its own grace time an agent is given before it is killed."""

_CALLERS = (contract.JOIN_TIMEOUT, contract.GRACE)
"""What a caller may set for the agents."""
RECORD_EVERY_S = 2.0
"""How often the record is read."""
LAST_WRITE_S = 10.0
"""How long the end is written again to a disk that takes nothing."""


class Gone(Exception):
    """Somebody has removed the attempt's folder, and with it the attempt."""


class AttemptFolder:
    """The folder of an attempt, where its state is written and its stop is read; as of `StatusBoard`.

    The order names the file of the job's record, which may name another attempt by now
    (docs/design/record.md). Where it names none, as for a record in a bucket, nothing but this folder says
    whether the attempt may run.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.order: dict[str, Any] = host.read_json(self.file(folder.ORDER)) or {}
        self._document: dict[str, Any] = {}
        self._is_written = True
        self._record_says = ""
        self._read_at: float | None = None

    def file(self, name: str) -> str:
        """The path of a file in the folder."""
        return os.path.join(self._path, name)

    def rename(self, path: str) -> None:
        """Give the folder its name. Raises OSError where there is one of that name."""
        os.rename(self._path, path)
        self._path = path

    def write(self, document: dict[str, Any]) -> None:
        """Write the state whole. Raises OSError where that cannot be done."""
        self._document, self._is_written = document, False
        host.put(self.file(folder.STATE), json.dumps(document), folder.FILE_MODE)
        self._is_written = True

    def show(self, document: dict[str, Any]) -> None:
        """As of `StatusBoard`: on a full disk the job keeps running, and the next look tries again."""
        with contextlib.suppress(OSError):
            self.write(document)

    def last(self, document: dict[str, Any]) -> None:
        """As of `StatusBoard`; where the disk is full, into the room that was kept for it."""
        until = time.monotonic() + LAST_WRITE_S
        self.show(document)
        while not self._is_written and time.monotonic() < until:
            self._check()
            with contextlib.suppress(OSError):
                os.unlink(self.file(folder.RESERVE))
            self.show({**document, "disk_was_full": True})
            if not self._is_written:
                processes.wait(TICK_S)

    def wants(self) -> str:
        """As of `StatusBoard`. At the first call an error of reading the record is raised as it is; later it
        stops no training.
        """
        self._check()
        if not self._is_written:
            self.show(self._document)
        if os.path.exists(self.file(folder.KILL)):
            return SUPERSEDED
        record = self.order.get("record")
        if record and (self._read_at is None or time.monotonic() > self._read_at + RECORD_EVERY_S):
            is_first, self._read_at = self._read_at is None, time.monotonic()
            try:
                self._record_says = self._read_record(record)
            except FileNotFoundError:
                self._record_says = SUPERSEDED if is_first else self._record_says
            except (OSError, ValueError, AttributeError, RecursionError):  # not one of our documents
                if is_first:
                    raise
        if self._record_says != SUPERSEDED and os.path.exists(self.file(folder.CANCEL)):
            return CANCELLED
        return self._record_says

    def _read_record(self, path: str) -> str:
        with open(path, "rb") as file:
            metadata = json.loads(file.readline()).get("metadata", {})  # as `FolderStore` writes it
        if metadata.get("attempt") != self.order["attempt"]:
            return SUPERSEDED
        return CANCELLED if metadata.get("wanted") == "cancel" else ""

    def _check(self) -> None:
        if not os.path.exists(self.file(folder.ORDER)):
            raise Gone


_SHARED = 0o1777
"""Of the folder of lock files: all users of the machine write there."""


def allot(uuids: Sequence[str], count: int, folder: str) -> dict[str, int]:
    """So many free GPUs and the open lock file of each, or none where there are too few, so that no two jobs
    hold each other up. The kernel unlocks a file when it is closed, or the supervisor ends.
    """
    held: dict[str, int] = {}
    for uuid in uuids:
        if len(held) == count:
            break
        file = _lock(uuid, folder)
        if file is not None:
            held[uuid] = file
    if len(held) < count:
        free(held)
    return held


def free(held: dict[str, int]) -> None:
    """Give GPUs back."""
    while held:
        os.close(held.popitem()[1])


def _lock(uuid: str, folder: str) -> int | None:
    import fcntl  # not on Windows, where `Local` says so itself

    file = _open(os.path.join(folder, re.sub(r"[^A-Za-z0-9-]", "_", uuid)), folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _open(path: str, folder: str) -> int:
    """The lock file, made where there is none; another user's can be read, which is enough to lock it."""
    if not os.path.isdir(folder):
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, _SHARED)
    flags = os.O_RDONLY | os.O_NOFOLLOW
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            os.close(os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644))
        except FileExistsError:
            continue


class ThisMachine(Site):
    """All nodes of a job as agents of this machine, whose GPUs it shares with other jobs."""

    asked = CANCELLED

    def __init__(self, board: AttemptFolder) -> None:
        self._board, self._order = board, board.order
        self._gpus: dict[str, int] = {}
        self._results = ""
        self.restarts = int(self._order["max_restarts"])
        env = {**os.environ, **self._order["nodes"][0]["env"]}
        super().__init__(env, KILL_MARGIN_S)

    def waiting(self) -> Rules:
        patience_s = self._order["created_at"] + self._order["max_wait_s"] - time.time()
        return Rules(time.monotonic() + patience_s, WAIT_LIMIT, 0.0)

    def wait(self, supervisor: Supervisor) -> None:
        """Other jobs may hold the GPUs; and the job may have been cancelled before this process was up."""
        supervisor.until(lambda: not self._board.wants())
        gpus = self._order["gpus"]
        if gpus is None or self._has_gpus(gpus):
            return
        supervisor.show(WAITING, message="waits for GPUs that other jobs hold")
        supervisor.until(lambda: self._has_gpus(gpus))

    def _has_gpus(self, gpus: dict[str, Any]) -> bool:
        self._gpus = allot(gpus["uuids"], len(self._order["nodes"]) * gpus["per_node"], gpus["locks"])
        return bool(self._gpus)

    def deadline(self) -> float:
        """Waiting for GPUs took nothing of the job's time."""
        return time.monotonic() + float(self._order["max_run_s"])

    def start(self, supervisor: Supervisor, attempt: int) -> dict[int, int]:
        self._results = results = self._board.file(folder.ATTEMPT.format(attempt=attempt))
        os.mkdir(results, folder.FOLDER_MODE)
        common, nodes, gpus = self._environment(attempt, results), self._order["nodes"], list(self._gpus)
        agents = {}
        for rank, node in enumerate(nodes):
            own = ",".join(gpus[rank * len(gpus) // len(nodes) : (rank + 1) * len(gpus) // len(nodes)])
            env = {**common, **node["env"], "CUDA_VISIBLE_DEVICES": own}
            agents[self._agent(supervisor, node, env)] = rank
        return agents

    def _agent(self, supervisor: Supervisor, node: dict[str, Any], env: dict[str, str]) -> int:
        log = self._board.file(folder.NODE_LOG.format(node_rank=node["node_rank"]))
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, folder.FILE_MODE)
        try:
            return supervisor.start([*self._order["start"], *node["argv"]], env, self._order["location"], out)
        finally:
            os.close(out)

    def _environment(self, attempt: int, results: str) -> dict[str, str]:
        """The caller's environment, without what an agent around us left there, and this attempt's own."""
        ours = [*contract.ENVIRONMENT, *contract.RANK_ENVIRONMENT]
        env = {name: value for name, value in os.environ.items() if name in _CALLERS or name not in ours}
        env[contract.ATTEMPT] = str(attempt)
        env[contract.RESULT_DIR] = env[contract.LOG_DIR] = results
        nodes = len(self._order["nodes"])
        if nodes > 1:
            ranks = nodes * int(self._order["nodes"][0]["env"][contract.NPROC_PER_NODE])
            env.setdefault("OMP_NUM_THREADS", str(max(1, host.cpu_count() // ranks)))  # one machine for all
            env[contract.RUN_DIR] = results
        return env

    def have_ranks(self) -> bool:
        """An agent makes the folder of its ranks as it starts them."""
        return any(name.startswith(contract.ERROR_FOLDER) for name in os.listdir(self._results))

    def node_ended(self, node_rank: int) -> None:
        """Others need not wait for the status of a node that was killed."""
        directory = Folder(self._results)
        go = directory.get("go")
        if go:
            directory.create(f"{go['run']}/ended-{node_rank}", {})

    def finish(self, supervisor: Supervisor) -> dict[str, Any]:  # noqa: ARG002  # it is a `Site`
        """The GPUs are free again. What the agents found lies beside their logs."""
        free(self._gpus)
        return {}


def main() -> NoReturn:
    """Look after the attempt in the folder ``sys.argv[1]``, and name it ``sys.argv[2]`` once it has a state.

    If there is a folder of that name, the attempt was launched already, and nothing happens.

    The process that was started returns at once; a child of it, detached, does the work. Where
    the folder takes no state, there is none, and the status is the number of the system's error.
    """
    draft, path = sys.argv[1:3]
    board = AttemptFolder(draft)
    folder.hold(draft)
    supervisor = Supervisor(board, ThisMachine(board))
    try:
        board.write(supervisor.document)
        board.rename(path)
    except OSError as error:  # it does not start: its end could not be seen
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            os._exit(0)
        with contextlib.suppress(OSError):  # the disk may be full
            sys.stderr.write(f"{error}\n")
        os._exit(error.errno or 1)
    if os.fork():
        os._exit(0)
    processes.adopt_orphans()
    processes.hold_signals()
    supervisor.document = {**supervisor.document, "supervisor": [os.getpid(), host.began(os.getpid())]}
    try:
        supervisor.run()
    except Gone:
        processes.end_children()
    except BaseException:  # this process is detached: the folder says how it ended
        supervisor.crashed()
        raise
    os._exit(0)
