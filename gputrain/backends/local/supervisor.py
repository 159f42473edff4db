"""Looks after one job from its first process to its last, on its own: the client may die while it goes on.

Standard library only, so that it starts in milliseconds and stays small.
It waits for GPUs, starts one agent a node, passes on a stop, keeps the time limits, starts again after a
lost node, writes ``state.json``, and leaves no process behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback

from gputrain.backends.local import devices, folder, status
from gputrain.backends.local.agents import Agents
from gputrain.backends.local.status import (
    CANCELLED,
    EXPIRED,
    FAILED,
    INTERRUPTED,
    PROVISIONING,
    QUEUED,
    RUNNING,
    STOPPING,
    SUCCEEDED,
)
from gputrain.entrypoint import contract, processes
from gputrain.keeper.rules import KILL, TICK_S, Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

STARTING_TICK_S = 0.05
"""How often a look is taken while ranks start: their start is told to the client within this."""
STRANDED_S = 5.0
"""How long agents may go on after one of them ended before any rank ran: they wait for what cannot come."""
ENDING_S = 65.0
"""How long agents may go on after one of them ended: the gang's own limit for a verdict is 60 s."""
KILL_MARGIN_S = 5.0
"""How much longer than its own grace time an agent is given before it is killed."""
RESTART_AFTER_S = 1.0
LAST_WORDS_S = 10.0
"""How long the end of a job is told again to a disk that takes nothing."""
RESTARTS = (contract.NODE_LOST, contract.STOPPED)

_DEFAULT_GRACE = contract.ENVIRONMENT[contract.GRACE][1]
# What a caller may set for the agents; every other name of theirs is ours to set.
_CALLERS = (contract.JOIN_TIMEOUT, contract.GRACE, contract.AGENT)


class Withdrawn(Exception):
    """The job's folder is gone, or another's has its name: there is no job any more."""


class Supervisor:
    """Runs the job in ``path``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = os.stat(path).st_ino
        self._order: dict[str, Any] = folder.read_json(self._file(folder.ORDER)) or {}
        self._state: dict[str, Any] = {}
        self._told: dict[str, Any] = {}
        self._grace = _seconds(os.environ.get(contract.GRACE, "")) or _seconds(_DEFAULT_GRACE)
        self._rules = Rules(float("inf"), EXPIRED, 0.0)
        self._begun_at = 0.0

    def check_in(self) -> None:
        """Tell that somebody looks after the job now. Raises OSError where that cannot be written."""
        self._state = {"state": QUEUED, "attempt": 0, "detail": ""}
        status.write(self._path, self._state)
        self._told = self._state

    def run(self) -> None:
        """Run the job to its end."""
        allotment = self._wait_for_gpus()
        if allotment is not None:
            self._run_attempts(allotment)
            allotment.close()

    def _run_attempts(self, allotment: devices.Allotment) -> None:
        deadline = time.monotonic() + self._order["max_run_s"]
        for attempt in range(self._order["max_restarts"] + 1):
            self._tell(state=PROVISIONING, attempt=attempt)
            self._rules = Rules(deadline, EXPIRED, self._grace + KILL_MARGIN_S)
            agents = self._start(attempt, allotment)
            self._watch(agents)
            processes.end_children()
            code = agents.exit_code
            again = code in RESTARTS and not self._rules.stop and attempt < self._order["max_restarts"]
            if not again or not self._pause(code, deadline):
                self._end(agents, code)
                return

    def _wait_for_gpus(self) -> devices.Allotment | None:
        """The GPUs that the job asked for, once they are free; None where it ended while it waited."""
        gpus = self._order["gpus"]
        if gpus is None:
            return devices.Allotment([()] * len(self._order["nodes"]), ())
        patience = time.monotonic() + self._order["created_at"] + self._order["max_wait_s"] - folder.now()
        while True:
            allotment = devices.allot(
                gpus["uuids"], len(self._order["nodes"]), gpus["per_node"], gpus["locks"]
            )
            if allotment is not None:
                return allotment
            if self._was_asked_to_stop(processes.wait(TICK_S)):
                self._tell_end(state=CANCELLED)
                return None
            if time.monotonic() >= patience:
                self._tell_end(state=EXPIRED, detail="its GPUs were not free within max_wait_duration")
                return None
            self._tell(state=QUEUED, detail="waits for GPUs that other jobs hold")

    def _start(self, attempt: int, allotment: devices.Allotment) -> Agents:
        agents = Agents()
        self._begun_at = folder.now()
        results = self._file(folder.ATTEMPT.format(attempt=attempt))
        self._check_folder()
        os.mkdir(results, folder.FOLDER_MODE)
        common = self._environment(attempt, results)
        for node, gpus in zip(self._order["nodes"], allotment.nodes):
            env = {**common, **node["env"], "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
            log = self._file(folder.NODE_LOG.format(node_rank=node["node_rank"]))
            argv = [*self._order["start"], *node["argv"]]
            pid = processes.start(argv, env, self._order["location"], log, folder.FILE_MODE)
            agents.nodes[pid] = node["node_rank"]
        return agents

    def _environment(self, attempt: int, results: str) -> dict[str, str]:
        """The caller's environment, without what an agent around us left there, and this attempt's own."""
        ours = [*contract.ENVIRONMENT, *contract.RANK_ENVIRONMENT]
        env = {name: value for name, value in os.environ.items() if name in _CALLERS or name not in ours}
        with open(self._file(folder.TOKEN), encoding="ascii") as file:
            env[contract.TOKEN] = file.read()
        env[contract.ATTEMPT] = str(attempt)
        env[contract.RESULT_DIR] = env[contract.LOG_DIR] = results
        if len(self._order["nodes"]) > 1:
            address = self._order["nodes"][0]["address"]
            env[contract.COORDINATOR] = f"{address}:{_free_port(address)}"
        return env

    def _watch(self, agents: Agents) -> None:
        """Until every agent has ended: pass on a stop, keep the limits, tell when ranks run."""
        while True:
            agents.look()
            running = agents.running
            if not running:
                return
            if agents.have_ranks and self._state["state"] == PROVISIONING:
                self._tell(state=RUNNING, started_at=self._state.get("started_at") or folder.now())
            self._write()
            late = self._grace + ENDING_S if agents.have_ranks else STRANDED_S
            leave_by = agents.first_ending_at + late if agents.endings else float("inf")
            self._do(running, self._rules.at(time.monotonic(), leave_by=leave_by))
            tick = TICK_S if agents.have_ranks else STARTING_TICK_S
            asked = self._was_asked_to_stop(processes.wait(self._rules.pause_s(time.monotonic(), tick)))
            if asked and not self._rules.stop:
                self._tell(state=STOPPING)
                self._do(running, self._rules.at(time.monotonic(), CANCELLED))

    def _do(self, running: list[int], what: str) -> None:
        if what:
            processes.tell(running, signal.SIGKILL if what == KILL else signal.SIGTERM)

    def _check_folder(self) -> None:
        """Raise Withdrawn where the folder is not there: nothing may run that nobody can see or stop."""
        try:
            is_there = os.stat(self._path).st_ino == self._folder
        except OSError:
            is_there = False
        if not is_there:
            raise Withdrawn

    def _was_asked_to_stop(self, by_signal: bool) -> bool:
        self._check_folder()
        return by_signal or os.path.exists(self._file(folder.CANCEL))

    def _pause(self, code: int, deadline: float) -> bool:
        """Wait before the next attempt; False where there is to be none."""
        why = "a node was lost" if code == contract.NODE_LOST else "it was stopped from outside"
        self._tell(state=INTERRUPTED, detail=f"{why}; starts again")
        until = min(time.monotonic() + RESTART_AFTER_S, deadline)
        word = ""
        while time.monotonic() < until and not word:
            word = CANCELLED if self._was_asked_to_stop(processes.wait(until - time.monotonic())) else ""
        self._rules.at(time.monotonic(), word)
        return not self._rules.stop

    def _end(self, agents: Agents, code: int) -> None:
        state = SUCCEEDED if code == 0 else self._rules.stop or FAILED
        detail = "max_run_duration is over" if state == EXPIRED else ""
        # A job may be over between two looks; then no look has seen its ranks.
        never_ran = code in (contract.BAD_ENVIRONMENT, contract.NODE_LOST)
        began = self._state.get("started_at") or (None if never_ran else self._begun_at)
        self._tell_end(state=state, detail=detail, exit_code=code, lost=agents.lost, started_at=began)

    def _tell(self, **news: Any) -> None:
        self._state = {**self._state, "detail": "", **news}
        self._write()

    def _write(self) -> bool:
        """Write the state, unless it is written; where the disk is full the job goes on, and the next look
        tries again.
        """
        if self._state == self._told:
            return True
        try:
            status.write(self._path, self._state)
        except OSError as error:
            with contextlib.suppress(OSError):  # the same full disk
                sys.stderr.write(f"the state cannot be written: {error}\n")
            return False
        self._told = dict(self._state)
        return True

    def _tell_end(self, **news: Any) -> None:
        """Write the last state; where the disk is full, with patience and into the room kept for it."""
        self._state = {**self._state, "detail": "", "ended_at": folder.now(), **news}
        until = time.monotonic() + LAST_WORDS_S
        while not self._write() and time.monotonic() < until:
            self._check_folder()
            self._state["disk_was_full"] = True
            with contextlib.suppress(OSError):
                os.unlink(self._file(folder.RESERVE))
            if not self._write():
                processes.wait(TICK_S)

    def crashed(self) -> None:
        """Leave nothing running, and a word where the supervisor itself went wrong."""
        with contextlib.suppress(OSError):
            traceback.print_exc()
        processes.end_children()
        self._tell_end(state=FAILED, detail=traceback.format_exc(limit=-3))

    def _file(self, name: str) -> str:
        return os.path.join(self._path, name)


def _seconds(text: str) -> float:
    """A setting in seconds; 0 where it is none, of which the agents themselves will complain."""
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def _free_port(address: str) -> int:
    import socket

    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def main() -> NoReturn:
    """Look after the job in ``sys.argv[1]``, whose lock is the open file ``sys.argv[2]``.

    The process that was started returns at once; a child of it, which nobody waits for, does the work.
    """
    path, lock = sys.argv[1], int(sys.argv[2])
    os.set_inheritable(lock, False)
    supervisor = Supervisor(path)
    supervisor.check_in()
    if os.fork():
        os._exit(0)
    processes.adopt_orphans()
    processes.hold_signals()
    try:
        supervisor.run()
    except Withdrawn:
        processes.end_children()
    except BaseException:  # the top of a process that nobody waits for: its end is told through the folder
        supervisor.crashed()
        raise
    os._exit(0)
