"""The keeper of one job on this machine: the client may die while it goes on.

Standard library only, so that it starts in milliseconds and stays small.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from gputrain.backends.local import devices
from gputrain.entrypoint import contract, host, processes
from gputrain.keeper import folder
from gputrain.keeper.board import StatusFolder, Withdrawn
from gputrain.keeper.keeper import Keeper, grace_s
from gputrain.keeper.rules import Rules
from gputrain.keeper.status import CANCELLED, WAIT_LIMIT, WAITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

KILL_MARGIN_S = 5.0
"""How much longer than its own grace time an agent is given before it is killed."""

# What a caller may set for the agents; every other name of theirs is ours to set.
_CALLERS = (contract.JOIN_TIMEOUT, contract.GRACE, contract.AGENT)


class ThisMachine:
    """All nodes of a job as agents of this machine, whose GPUs it shares with other jobs; as of `Site`."""

    asked = CANCELLED

    def __init__(self, board: StatusFolder) -> None:
        self._board = board
        self._order: dict[str, Any] = folder.read_json(board.file(folder.ORDER)) or {}
        self._allotment = devices.Allotment([()] * len(self._order["nodes"]), ())
        self.restarts = int(self._order["max_restarts"])
        env = {**os.environ, **self._order["nodes"][0]["env"]}
        self.saves_s = grace_s(env.get(contract.GRACE, ""))
        self.patience_s = self.saves_s + KILL_MARGIN_S

    def waiting(self) -> Rules:
        patience_s = self._order["created_at"] + self._order["max_wait_s"] - folder.now()
        return Rules(time.monotonic() + patience_s, WAIT_LIMIT, 0.0)

    def wait(self, keeper: Keeper) -> None:
        """Other jobs may hold them."""
        gpus = self._order["gpus"]
        if gpus is None or self._has_gpus(gpus):
            return
        keeper.tell(WAITING, message="waits for GPUs that other jobs hold")
        keeper.until(lambda: self._has_gpus(gpus))

    def _has_gpus(self, gpus: dict[str, Any]) -> bool:
        found = devices.allot(gpus["uuids"], len(self._order["nodes"]), gpus["per_node"], gpus["locks"])
        self._allotment = found or self._allotment
        return found is not None

    def deadline(self) -> float:
        """Waiting for GPUs took nothing of the job's time."""
        return time.monotonic() + float(self._order["max_run_s"])

    def start(self, keeper: Keeper, attempt: int) -> dict[int, int]:
        results = self._board.file(folder.ATTEMPT.format(attempt=attempt))
        os.mkdir(results, folder.FOLDER_MODE)
        common = self._environment(attempt, results)
        return {
            self._agent(keeper, node, {**common, **node["env"], "CUDA_VISIBLE_DEVICES": ",".join(gpus)}): rank
            for rank, (node, gpus) in enumerate(zip(self._order["nodes"], self._allotment.nodes))
        }

    def _agent(self, keeper: Keeper, node: dict[str, Any], env: dict[str, str]) -> int:
        log = self._board.file(folder.NODE_LOG.format(node_rank=node["node_rank"]))
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, folder.FILE_MODE)
        try:
            return keeper.start([*self._order["start"], *node["argv"]], env, self._order["location"], out)
        finally:
            os.close(out)

    def _environment(self, attempt: int, results: str) -> dict[str, str]:
        """The caller's environment, without what an agent around us left there, and this attempt's own."""
        ours = [*contract.ENVIRONMENT, *contract.RANK_ENVIRONMENT]
        env = {name: value for name, value in os.environ.items() if name in _CALLERS or name not in ours}
        with open(self._board.file(folder.TOKEN), encoding="ascii") as file:
            env[contract.TOKEN] = file.read()
        env[contract.ATTEMPT] = str(attempt)
        env[contract.RESULT_DIR] = env[contract.LOG_DIR] = results
        nodes = len(self._order["nodes"])
        if nodes > 1:
            ranks = nodes * int(self._order["nodes"][0]["env"][contract.NPROC_PER_NODE])
            env.setdefault("OMP_NUM_THREADS", str(max(1, host.cpu_count() // ranks)))  # one machine for all
            address = self._order["nodes"][0]["address"]
            env[contract.COORDINATOR] = f"{address}:{_free_port(address)}"
        return env

    def have_ranks(self, agents: Sequence[int]) -> bool:
        return any(host.children_of(pid) for pid in agents)

    def has_a_result(self) -> bool:
        """Its agents end by themselves."""
        return False

    def spared(self) -> frozenset[int]:
        return frozenset()

    def finish(self, keeper: Keeper) -> dict[str, Any]:  # noqa: ARG002  # it is a `Site`
        """The GPUs are free again. What the agents found lies beside their logs."""
        self._allotment.close()
        return {}


def _free_port(address: str) -> int:
    import socket

    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def main() -> NoReturn:
    """Look after the job in ``sys.argv[1]``, whose lock is the open file ``sys.argv[2]``.

    The process that was started returns at once; a child of it, which nobody waits for, does the work. Where
    the folder takes no state, there is none, and the status is the number of the system's error.
    """
    path, lock = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(lock, False)
    board = StatusFolder(path)
    if not os.path.samestat(os.fstat(lock), os.stat(board.file(folder.LOCK))):
        os._exit(1)  # its job was withdrawn before it was up, and this is the next one of that name
    keeper = Keeper(board, ThisMachine(board))
    try:
        board.write(keeper.document)
    except OSError as error:  # it does not start: nobody could see how it ends
        with contextlib.suppress(OSError):  # the same full disk, which takes no words: the status must do
            sys.stderr.write(f"{error}\n")
        os._exit(error.errno or 1)
    if os.fork():
        os._exit(0)
    processes.adopt_orphans()
    processes.hold_signals()
    try:
        keeper.keep()
    except Withdrawn:
        processes.end_children()
        board.clear(keeper.document["attempt"])
    except BaseException:  # the top of a process that nobody waits for: its end is told through the folder
        keeper.crashed()
        raise
    os._exit(0)
