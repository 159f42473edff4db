"""One node's agent: joins the gang, starts the ranks, passes on stops, ends with the job's verdict.

One thread and one `select` with long timeouts; the log pump and the metadata watch have threads of their own.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import time

from . import contract, host, launch, processes, result
from .discovery import discover
from .gang import node_cause
from .hub import Hub
from .lines import timestamp
from .logs import Pump
from .ranks import Rank, explain
from .stops import Stops
from .uplink import Uplink
from .verdict import describe, exit_code_of, verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Union

    from .options import Options

    Message = Dict[str, Any]

ABORT_GRACE_S = 5.0
"""How long ranks may take to leave when a peer has failed: there is nothing left for them to agree on."""

LAST_WORDS_S = 0.5
"""How long a rank's end waits for the last lines it wrote; a child of it may hold its pipes open."""

PEERS_LEAVE_S = 60.0
"""How long node 0 waits at the end for the other nodes to leave first."""

AGREED_S = 3.0
"""How long ranks may take to leave by themselves once one left with 75, as ranks that agreed on it do."""

UNKILLABLE_S = 30.0
"""How long a killed rank may take to be gone; one stuck in a driver or a file system never is."""


class Agent:
    """The agent of one node. Raises EnvironmentRefused when the environment contradicts itself."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._cluster = discover(options, os.environ)
        self._started_at = time.time()
        self._selector = selectors.DefaultSelector()
        self._stops = Stops()
        self._selector.register(self._stops, selectors.EVENT_READ, lambda _: None)
        self._ranks: List[Rank] = []
        self._not_ours = set(host.children_of(os.getpid()))
        self._ask_at = self._kill_at = self._stuck_at = float("inf")
        self._cause: Optional[Message] = None
        self._verdict: Optional[Message] = None
        self._oom_kills: Optional[int] = None
        self._error_dir = ""
        self._pump = Pump(options.log_format, options.log_dir, self._cluster.node_rank)
        now = time.monotonic()
        end: Callable[..., Union[Hub, Uplink]] = Hub if self._cluster.node_rank == 0 else Uplink
        self._control = end(self._cluster, options, self._selector, self._pump.say, now)

    def run(self) -> int:
        """Run the node to its end; the answer is the exit code.

        A fault of the agent itself must not look like a hang: its ranks are killed and the node fails.
        """
        try:
            self._prepare()
            while not self._is_finished():
                self._turn()
        except Exception as error:  # noqa: BLE001  # the top of the agent, see above
            import traceback

            self._pump.say(traceback.format_exc(), "ERROR")
            message = f"the agent itself failed: {error!r}"
            cause = node_cause(contract.REFUSED, self._cluster.node_rank, socket.gethostname(), message)
            self._verdict = verdict(contract.STATE_FAILED, contract.BAD_ENVIRONMENT, cause, None)
            self._kill()
            return self._leave(waits_for_peers=False)
        return self._leave()

    def _prepare(self) -> None:
        processes.adopt_orphans()
        result.make_folders(self._options.result_dir, self._options.log_dir)
        self._stops.listen(os.environ)
        for advice in (host.shared_memory_advice(), host.shell_advice(os.getppid())):
            if advice:
                self._pump.say(advice, "WARNING")
        nproc = self._options.nproc_per_node or self._cluster.nproc or host.gpu_count(os.environ) or 1
        self._nproc = nproc if launch.processes_on_node(self._options) else 1
        self._control.send(self._hello(), time.monotonic())
        self._pump.call_when_a_rank_falls_silent(self._stops.wake)

    def _hello(self) -> Message:
        options = self._options
        return {
            "type": "hello",
            "job": options.job,
            "attempt": options.attempt,
            "node_rank": self._cluster.node_rank,
            "nproc": self._nproc,
            "host": socket.gethostname(),
            "num_nodes": self._cluster.num_nodes,
            "port": options.master_port or 0,
            "versions": host.versions() if self._cluster.num_nodes > 1 else {},
        }

    def _turn(self) -> None:
        """Wait for the next thing to happen, and do what it asks for."""
        now = time.monotonic()
        self._control.tick(now)
        while self._control.inbox:
            self._heed(self._control.inbox.pop(0))
            self._control.tick(time.monotonic())
        if self._is_finished():
            return
        reports = [self._reports_at(rank) for rank in self._ranks]
        due = min([self._control.deadline(), self._ask_at, self._kill_at, self._stuck_at, *reports])
        timeout = None if due == float("inf") else max(0.0, due - time.monotonic())
        for key, _ in self._selector.select(timeout):
            key.data(time.monotonic())
        self._pass_on_stops()
        self._reap()
        self._report()
        if time.monotonic() >= self._ask_at:
            self._ask_at = float("inf")
            self._end_ranks("stop", self._options.grace)
        if time.monotonic() >= self._kill_at:
            self._kill()
        if time.monotonic() >= self._stuck_at:
            self._give_up_on_stuck()

    def _kill(self) -> None:
        self._kill_at, self._stuck_at = float("inf"), time.monotonic() + UNKILLABLE_S
        for rank in self._ranks:
            rank.kill_session()

    def _give_up_on_stuck(self) -> None:
        """Count a rank as dead that SIGKILL does not end, so that the job can end without it."""
        for rank in self._ranks:
            if rank.is_running:
                self._pump.say(f"rank {rank.rank} cannot be killed: it is stuck in the kernel", "ERROR")
                rank.reap(signal.SIGKILL, time.monotonic())
        self._stuck_at = float("inf")

    def _is_finished(self) -> bool:
        return self._verdict is not None and not any(rank.is_running for rank in self._ranks)

    def _heed(self, message: Message) -> None:
        """Do what the gang says."""
        kind = message["type"]
        if kind == "start":
            self._start(message)
        elif kind == "stop":
            self._pump.say(f"stopping: {message['reason']} on {self._cluster.name_of(message['node_rank'])}")
            if message["is_agreed"]:
                self._ask_at = time.monotonic() + AGREED_S
            else:
                self._end_ranks("stop", self._options.grace)
        elif kind in ("abort", "orphaned"):
            self._cause = message["cause"]
            self._pump.say("\n".join(describe(message["cause"])), "ERROR")
            self._end_ranks("abort", min(ABORT_GRACE_S, self._options.grace))
            if kind == "orphaned":
                self._verdict = verdict(contract.STATE_FAILED, exit_code_of(self._cause), self._cause, None)
        elif kind == "over":
            self._verdict = message["verdict"]
            if any(rank.is_running for rank in self._ranks):
                self._end_ranks("abort", 0.0)

    def _start(self, message: Message) -> None:
        options = self._options
        place = launch.Place(self._cluster.node_rank, self._nproc, message)
        try:
            self._error_dir = launch.error_folder()
            environments = launch.environments(options, place, os.environ, self._error_dir)
        except (OSError, subprocess.SubprocessError) as error:
            for local_rank in range(self._nproc):
                rank = Rank(place.base_rank + local_rank, local_rank, "")
                self._ranks.append(rank)
                self._refuse(rank, f"cannot prepare the start of ranks: {error}")
            return
        command = launch.commands(options, place)
        self._oom_kills = host.oom_kills()
        for local_rank, environ in enumerate(environments):
            rank = Rank(place.base_rank + local_rank, local_rank, environ[contract.ERROR_FILE])
            self._ranks.append(rank)
            time.sleep(launch.head_start_s(rank.rank, local_rank))
            try:
                if options.target.kind == "script":
                    os.stat(options.target.argv[0])
                rank.start(command, environ)
            except OSError as error:
                what = f"cannot run {options.target.argv[0]!r} in {os.getcwd()}"
                self._refuse(rank, f"{what}: {error.strerror}")
                continue
            self._pump.adopt(rank.rank, rank.stdout, rank.stderr)

    def _refuse(self, rank: Rank, message: str) -> None:
        rank.exit_code = contract.BAD_ENVIRONMENT
        rank.is_reported = True
        cause = node_cause(contract.REFUSED, self._cluster.node_rank, socket.gethostname(), message)
        cause.update(rank.summary())
        self._tell_ended(rank, cause, age=0.0)

    def _end_ranks(self, why: str, grace: float) -> None:
        for rank in self._ranks:
            rank.ask_to_stop(why)
        self._kill_at = min(self._kill_at, time.monotonic() + grace)

    def _pass_on_stops(self) -> None:
        for reason in self._stops.take():
            self._control.send({"type": "stop", "reason": reason}, time.monotonic())
            if self._stops.is_insistent:
                self._kill_at = time.monotonic()

    def _reap(self) -> None:
        """Take in every child that ended: ranks, and orphans that were handed to us."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for rank in self._ranks:
                if rank.pid == pid:
                    rank.reap(status, time.monotonic())
                    if rank.exit_code not in (contract.DONE, contract.STOPPED):
                        rank.kill_session()

    def _reports_at(self, rank: Rank) -> float:
        return float("inf") if rank.is_reported or rank.exit_code is None else rank.ended_at + LAST_WORDS_S

    def _report(self) -> None:
        """Tell the gang of ranks that have ended, once their last words are in."""
        for rank in self._ranks:
            now = time.monotonic()
            if rank.exit_code is None or rank.is_reported:
                continue
            if self._pump.is_silent(rank.rank) or now >= rank.ended_at + LAST_WORDS_S:
                rank.is_reported = True
                oom_killed = (host.oom_kills() or 0) > (self._oom_kills or 0)
                cause = explain(rank, self._cluster.node_rank, self._pump.tail(rank.rank), oom_killed)
                self._tell_ended(rank, cause, age=now - rank.ended_at)

    def _tell_ended(self, rank: Rank, cause: Optional[Message], age: float) -> None:
        message = {"type": "ended", "age": age, "cause": cause, **rank.summary()}
        self._control.send(message, time.monotonic())

    def _leave(self, waits_for_peers: bool = True) -> int:
        """Leave nothing behind, write the result, let the other nodes go first."""
        processes.end_children(self._not_ours, within_s=processes.ORPHANS_S)
        if self._error_dir:
            launch.remove(self._error_dir)
        document = self._document()
        if self._cause is None and document[contract.R_CAUSE]:
            self._pump.say("\n".join(describe(document[contract.R_CAUSE])), "ERROR")
        if self._options.result_dir:
            try:
                result.write(document, self._options.result_dir)
            except OSError as error:
                self._pump.say(f"no result in {self._options.result_dir}: {error}", "ERROR")
        self._pump.write(result.line(document))
        self._pump.finish()
        if waits_for_peers:
            self._wait_for_peers()
        return int(document[contract.R_EXIT_CODE])

    def _wait_for_peers(self) -> None:
        until = time.monotonic() + PEERS_LEAVE_S
        while not self._control.is_released and time.monotonic() < until:
            for key, _ in self._selector.select(max(0.0, until - time.monotonic())):
                key.data(time.monotonic())
            self._reap()

    def _document(self) -> Message:
        assert self._verdict is not None
        return {
            contract.R_SCHEMA: contract.RESULT_SCHEMA,
            contract.R_JOB: self._options.job,
            contract.R_ATTEMPT: self._options.attempt,
            contract.R_NODE_RANK: self._cluster.node_rank,
            contract.R_NUM_NODES: self._cluster.num_nodes,
            **self._verdict,
            contract.R_RANKS: [rank.summary() for rank in self._ranks],
            contract.R_LOST_LINES: self._pump.lost_lines,
            contract.R_STARTED_AT: timestamp(self._started_at),
            contract.R_ENDED_AT: timestamp(time.time()),
        }
