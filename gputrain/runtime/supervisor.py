"""Looks after the agents of a job on one machine, from the wait for its GPUs to its last status.

There is one loop, `Supervisor.until`: during every wait the limits hold, a stop is passed on, and what does
not heed it is killed. How GPUs are had and agents start differs from machine to machine (`Site`), and so does
where the job's status is shown (`StatusBoard`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from typing import Any, Protocol

from . import contract, processes
from .logs import timestamp

NOTHING, ASK, KILL = "", "ask", "kill"
TICK_S = 0.2
"""How often a supervisor looks at its rules; the end of a process wakes it at once where that can be."""

AGAIN_S = 1.0
"""How soon what does not die of SIGKILL gets another one."""

STARTING_TICK_S = 0.05
"""How often a look is taken while ranks start: their start is shown within this."""
STRANDED_S = 5.0
"""How long agents may run after one of them ended before any rank ran: they wait in vain."""
ENDING_S = 65.0
"""How much longer than the ranks' time to save an agent may take: 60 s is a node's limit for its end."""
RESTART_AFTER_S = 1.0
HALTED = "the unit or container of the agent was stopped, or its machine shut down, before it had a result"
AGAIN = {contract.NODE_LOST: "a node was lost", contract.STOPPED: "it was stopped from outside"}
"""The ends of an attempt after which there may be another."""
CANNOT_START = 127

_NEVER = float("inf")


class StatusBoard(Protocol):
    """Where the status of a job is shown; no call holds up a limit."""

    def show(self, document: dict[str, Any]) -> None:
        """Show this document from now on, as soon as that can be done."""

    def wants(self) -> str:
        """Why the job should stop; empty while it should not."""

    def last(self, document: dict[str, Any]) -> None:
        """Show the document of a job that has ended, with patience."""


class Site:
    """Where agents run."""

    asked = contract.SHUTDOWN
    """Why the job stops when this process is asked to end."""
    restarts = 0
    """How often an attempt that lost a node, or was stopped from outside, is followed by another here."""

    def __init__(self, env: Mapping[str, Any], margin_s: float) -> None:
        self.saves_s = seconds_of(contract.GRACE, env)
        """How long agents give their ranks to save."""
        self.patience_s = self.saves_s + margin_s
        """How long agents that were asked to stop may take."""

    def waiting(self) -> Rules:
        """The limits while it waits for GPUs."""
        return Rules(self.deadline(), contract.RUN_LIMIT, self.patience_s)

    def wait(self, supervisor: Supervisor) -> None:
        """Wait for the GPUs. Raises Failed where they cannot be had."""

    def deadline(self) -> float:
        """When the job's time is over, once the GPUs are there."""
        return _NEVER

    def start(self, supervisor: Supervisor, attempt: int) -> dict[int, int]:
        """Start the agents; the node of each, by pid. Raises Failed, or OSError."""
        raise NotImplementedError

    def have_ranks(self) -> bool:
        """Whether ranks run below the agents, as far as that can be seen."""
        return True

    def node_ended(self, node_rank: int) -> None:
        """The agent of a node has ended, with a result or without."""

    def has_a_result(self) -> bool:
        """Whether an agent has reported its result: one whose container cannot end has not ended."""
        return False

    def spared(self) -> AbstractSet[int]:
        """The processes that outlive an attempt."""
        return frozenset()

    def finish(self, supervisor: Supervisor) -> dict[str, Any]:  # noqa: ARG002
        """End all else; what to report beside the exit code. Raises Failed where no agent ran."""
        return {}


class Rules:
    """When the processes of one attempt are asked to stop, `over` being the reason at its deadline, and when
    they are killed, `patience_s` after that: no clock, no process."""

    def __init__(self, deadline: float, over: str, patience_s: float) -> None:
        self.stop = ""
        """Why the job was asked to stop; empty while it was not, and where it only had to leave."""
        self._deadline, self._over, self._patience_s = deadline, over, patience_s
        self._kill_at = _NEVER

    def at(self, now: float, reason: str = "", leave_by: float = _NEVER) -> str:
        """What to do now: `reason` says why the job should stop, `leave_by` when the rest has to go."""
        if reason == contract.SUPERSEDED and self.stop != contract.SUPERSEDED:
            self.stop, self._kill_at = contract.SUPERSEDED, now
        if not self.stop:
            self.stop = reason or (self._over if now >= self._deadline else "")
        if self._kill_at == _NEVER:
            if self.stop or now >= leave_by:
                self._kill_at = now + self._patience_s
                return ASK
        elif now >= self._kill_at:
            self._kill_at = now + AGAIN_S
            return KILL
        return NOTHING

    def pause_s(self, now: float, tick_s: float) -> float:
        """How long nothing is due, a tick at most."""
        soonest = min(_NEVER if self.stop else self._deadline, self._kill_at)
        return max(0.0, min(tick_s, soonest - now))


class Failed(Exception):
    """This machine cannot run the job; the text says why and what to do."""

    def __init__(self, text: str, why: str = contract.BOOT) -> None:
        super().__init__(text)
        self.why = why


class Stopped(Exception):
    """A stop came while nothing ran that could save."""


def seconds_of(name: str, environ: Mapping[str, Any]) -> float:
    """A setting of the agents in seconds; agents themselves refuse one that makes no sense."""
    try:
        return max(0.0, float(environ.get(name) or contract.ENVIRONMENT[name][1]))
    except ValueError:
        return 0.0


class Supervisor:
    """Keeps one job, or one node of it."""

    def __init__(self, board: StatusBoard, machine: Site, **who: Any) -> None:
        self.rules = machine.waiting()
        self.asked = ""
        """Why this process itself was asked to end; empty while it was not."""
        first = {"schema": contract.SCHEMA, "phase": contract.WAITING, "attempt": 0}
        self.document: dict[str, Any] = {**first, **who}
        self.endings: dict[int, processes.Ending] = {}
        self._board, self._machine = board, machine
        self._agents: dict[int, int] = {}
        self._first_ending_at = self._first_kill_at = 0.0

    def run(self) -> None:
        """Run the job to its end, and report that."""
        code: int | None = None
        news: dict[str, Any] = {}
        try:
            self._machine.wait(self)
            code = self._attempts()
        except Stopped:
            pass
        except (Failed, OSError) as error:
            code, news = contract.BAD_ENVIRONMENT, self._refusal(error)
        self._end_children()
        try:
            news = {**self._machine.finish(self), **news}
        except Failed as error:
            code, news = contract.BAD_ENVIRONMENT, self._refusal(error)
        if self.rules.stop == contract.SHUTDOWN and not news.get("result"):  # the other nodes may wait for it
            news = {"message": HALTED, **news, "why": contract.HALTED}
        self._end(code, news)

    def crashed(self) -> None:
        """Leave nothing running, and a status, where the supervisor itself went wrong."""
        with contextlib.suppress(OSError):
            traceback.print_exc()
        self._end_children()
        with contextlib.suppress(Exception):
            self._machine.finish(self)
        self._end(None, {"why": contract.BOOT, "message": traceback.format_exc(limit=-3)})

    def _refusal(self, error: Exception) -> dict[str, Any]:
        why = self.rules.stop or getattr(error, "why", contract.BOOT)
        return {"why": why, "message": str(error)}

    def _attempts(self) -> int:
        deadline, attempt = self._machine.deadline(), self.document["attempt"]
        last = attempt + self._machine.restarts
        while True:
            self.rules = Rules(deadline, contract.RUN_LIMIT, self._machine.patience_s)
            self._agents, self._first_ending_at, self._first_kill_at = {}, 0.0, 0.0
            self.show(contract.STARTING, attempt=attempt)
            self._agents = self._machine.start(self, attempt)
            self.until(lambda: not self._running(self._agents))
            self._end_children()
            code = self._code(min(self._agents, key=lambda pid: self._agents[pid]))  # node 0's result counts
            if attempt == last or not self._goes_on(code):
                return code
            attempt += 1

    def _goes_on(self, code: int) -> bool:
        """Whether another attempt follows, a moment later."""
        if code not in AGAIN or self.rules.stop:
            return False
        self.show(contract.INTERRUPTED, message=AGAIN[code] + "; starts again")
        with contextlib.suppress(Stopped):
            self.sleep(RESTART_AFTER_S)
        return not self.rules.stop

    def until(self, is_so: Callable[[], bool], *others: int) -> None:
        """Let time pass until something is so; a stop reaches the agents, and these others. Raises Stopped
        where a stop came first, and none of them runs."""
        while not is_so():
            running = self._running([*self._agents, *others])
            is_starting = self.document["phase"] == contract.STARTING
            if is_starting and self._agents and self._machine.have_ranks():
                self.show(contract.RUNNING)
            reason = self._board.wants()
            if reason != contract.SUPERSEDED:
                reason = self.asked or reason
            due = self.rules.at(time.monotonic(), reason, self._leave_by())
            if self.rules.stop and not running:
                raise Stopped
            if due:
                processes.kill(running) if due == KILL else processes.send(running, signal.SIGTERM)
            if due == KILL:
                self._give_up_on_stuck(running)
            if due == ASK and self.rules.stop == contract.CANCELLED:
                self.show(contract.STOPPING)
            tick_s = STARTING_TICK_S if is_starting else TICK_S
            self.pause(self.rules.pause_s(time.monotonic(), tick_s))

    def _give_up_on_stuck(self, pids: Iterable[int]) -> None:
        """Count as dead what SIGKILL does not end: it must not keep the machine, and its bill."""
        self._first_kill_at = self._first_kill_at or time.monotonic()
        if time.monotonic() > self._first_kill_at + processes.UNKILLABLE_S:
            self.endings.update((pid, processes.Ending(signal.SIGKILL)) for pid in pids)

    def pause(self, seconds: float) -> None:
        """Let a moment pass, and take in which children have ended and whether this one is asked to end."""
        if processes.wait(seconds):
            self.asked = self._machine.asked
        ended = processes.reap()
        self.endings.update(ended)
        for pid in ended.keys() & self._agents.keys():
            self._machine.node_ended(self._agents[pid])
        has_ended = any(pid in self.endings for pid in self._agents)
        if not self._first_ending_at and (has_ended or (self._agents and self._machine.has_a_result())):
            self._first_ending_at = time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let so much time pass. Raises as `until`."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end)

    def start(self, argv: Sequence[str], env: Mapping[str, str], folder: str, out: int, **files: int) -> int:
        """Start a child as of `processes.start`. Raises Stopped where a stop came before, or OSError."""
        if self.rules.stop:
            raise Stopped
        pid = processes.start(argv, env, folder=folder, out=out, **files)
        self.endings.pop(pid, None)  # another's, long ago
        return pid

    def call(
        self, argv: Sequence[str], env: Mapping[str, str] = os.environ, given: bytes = b"",
        within_s: float = _NEVER,
    ) -> tuple[int, str]:  # fmt: skip
        """Run a program that a stop reaches as well: its exit code, and what it wrote. Raises as `until`. One
        that has not ended by then is killed and left behind."""
        import tempfile  # half of what a supervisor of this machine would load, and that one calls nothing

        read, write = os.pipe()
        os.write(write, given)
        os.close(write)
        with tempfile.TemporaryFile() as said:
            try:
                pid = self.start(argv, env, "/", said.fileno(), given=read)
            except OSError as error:
                return CANNOT_START, f"{argv[0]} cannot be started: {error}"
            finally:
                os.close(read)
            until = time.monotonic() + within_s
            self.until(lambda: pid in self.endings or time.monotonic() > until, pid)
            if pid not in self.endings:
                processes.send([pid], signal.SIGKILL)
                return contract.NODE_LOST, f"{argv[0]} has not ended within {within_s:g} s"
            said.seek(0)
            return self._code(pid), said.read().decode("utf-8", "replace").strip()

    def show(self, phase: str, **news: Any) -> None:
        """Show how far the job has come."""
        self._board.show(self._turn(phase, news))

    def _turn(self, phase: str, news: Mapping[str, Any]) -> dict[str, Any]:
        """The document with what is new; the job runs since its first attempt does."""
        at = phase + "_at"
        before = self.document.get(at) if phase == contract.RUNNING else None
        moment = before or timestamp(time.time())
        self.document = {**self.document, "message": "", **news, "phase": phase, at: moment}
        return self.document

    def _end(self, code: int | None, news: Mapping[str, Any]) -> None:
        ended = {node: self.endings[pid] for pid, node in self._agents.items() if pid in self.endings}
        lost = {node: ending.signal for node, ending in ended.items() if ending.signal}
        news = {"why": self.rules.stop, "exit_code": code, "lost": lost, **news}
        self._board.last(self._turn(contract.ENDED, news))

    def _end_children(self) -> None:
        self.endings.update(processes.end_children(self._machine.spared()))

    def _running(self, pids: Iterable[int]) -> list[int]:
        return [pid for pid in pids if pid not in self.endings]

    def _leave_by(self) -> float:
        """When the agents have to go that are left after the first has ended."""
        if not self._first_ending_at:
            return _NEVER
        late = self._machine.saves_s + ENDING_S if self.document["phase"] != contract.STARTING else STRANDED_S
        return self._first_ending_at + late

    def _code(self, pid: int) -> int:
        code = self.endings[pid].exit_code
        return contract.NODE_LOST if code is None else code
