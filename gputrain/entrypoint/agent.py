"""One node's agent: joins the gang, starts the ranks, passes on stops, ends with the job's verdict.

One thread and one `select` with long timeouts; the log pump and the metadata watch have threads of their own.
What is looked after tells by its `deadline` when it should be called at the latest.
"""

from __future__ import annotations

import os
import selectors
import socket
import time

from . import contract, host, launch, processes, result, standings
from .discovery import discover
from .gauges import Gauges
from .hang import Silence
from .hub import Hub
from .logs import Pump
from .result import Outputs, told
from .stops import Stops
from .uplink import Uplink
from .verdict import describe, exit_code_of, node_cause, verdict
from .workers import Workers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Union

    from .options import Options

    Message = Dict[str, Any]

ABORT_GRACE_S = 5.0
"""How long ranks may take to leave when a peer has failed."""

PEERS_LEAVE_S = 60.0
"""How long node 0 waits at the end for the other nodes to leave first."""

AGREED_S = 3.0
"""How long ranks may take to leave by themselves once one left with 75."""


class Agent:
    """The agent of one node. Raises EnvironmentRefused when the environment contradicts itself."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._cluster = discover(options, os.environ)
        self._started_at = time.time()
        self._selector = selectors.DefaultSelector()
        self._stops = Stops()
        self._selector.register(self._stops, selectors.EVENT_READ, lambda _: None)
        self._ask_at = float("inf")
        self._cause: Optional[Message] = None
        self._verdict: Optional[Message] = None
        self._pump = Pump(options.log_format, options.log_dir, self._cluster.node_rank)
        node_rank = self._cluster.node_rank
        apart = (options.output_dir, options.checkpoint_dir, options.log_dir, options.result_dir)
        self._outputs = Outputs(options.code_dir or os.getcwd(), apart)
        self._workers = Workers(options, node_rank, self._pump, self._tell_end)
        self._gauges = Gauges(node_rank, self._pump.write)
        self._net = launch.NetWatch(options.nccl_net, node_rank, self._pump.say)
        self._silent_s: Optional[float] = None
        self._silence = Silence(options.hang_timeout, self._pump)
        self._asks = standings.Asks(options.result_dir, node_rank)
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
            self._workers.kill()
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
        self._tell(self._hello())
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
            "clock": time.time(),
        }

    def _tell(self, message: Message) -> None:
        self._control.send(message, time.monotonic())

    def _tell_end(self, message: Message) -> None:
        """Tell of a rank's end; before a failure it is asked whether the machine has failed."""
        cause = message["cause"]
        if cause and cause[contract.C_TRACEBACK]:
            cause.update(traceback=standings.as_sent(cause[contract.C_TRACEBACK], self._options))
        if cause and message["exit_code"]:
            self._tell_fault(self._gauges.fault_now())
        self._tell(message)

    def _tell_fault(self, why: str) -> None:
        if why:
            self._tell({"type": "faulty", "why": why})

    def _turn(self) -> None:
        """Wait for the next thing to happen, and do what it asks for."""
        now = time.monotonic()
        self._control.tick(now)
        while self._control.inbox:
            self._heed(self._control.inbox.pop(0))
            self._control.tick(time.monotonic())
        if self._is_finished():
            return
        due = min(
            self._control.deadline(), self._ask_at, self._workers.deadline(), self._silence.deadline(),
            self._asks.deadline(), self._gauges.deadline(), self._net.deadline(),
        )  # fmt: skip
        timeout = None if due == float("inf") else max(0.0, due - time.monotonic())
        for key, _ in self._selector.select(timeout):
            key.data(time.monotonic())
        self._pass_on_stops()
        if time.monotonic() >= self._ask_at:
            self._ask_at = float("inf")
            self._workers.ask_to_stop("stop", self._options.grace)
        self._workers.tick()
        is_quiet = self._silence.look(self._workers.folder)
        if is_quiet is not None and self._workers.are_running:
            self._tell({"type": "quiet", "is_quiet": is_quiet})
        self._tell_fault(self._gauges.look([rank.pid for rank in self._workers.ranks if rank.is_running]))
        self._net.look(self._workers.folder)
        nonce = self._asks.look()
        if nonce:
            self._asks.answer(nonce, standings.of(self._workers, self._options))

    def _log_standings(self) -> List[Message]:
        """Where this node's ranks stand, which are to be ended; all stacks in the log, equal ones once."""
        found = standings.of(self._workers, self._options, is_ending=True)
        traces: Dict[str, List[str]] = {}
        for one in found:
            traces.setdefault(one["trace"], []).append(str(one["rank"]))
        traces.pop("", None)
        for trace, ranks in traces.items():
            self._pump.say(f"rank {', '.join(ranks)} stands at, most recent call first:\n{trace}", "WARNING")
        return found

    def _is_finished(self) -> bool:
        return self._verdict is not None and not self._workers.are_running

    def _heed(self, message: Message) -> None:
        """Do what the gang says."""
        kind = message["type"]
        if kind == "start":
            self._workers.start(launch.NodePlace(self._cluster.node_rank, self._nproc, message))
            self._silence.begin()
            self._gauges.begin(self._selector, os.environ)
            self._net.begin(self._cluster.num_nodes)
        elif kind == "stand":
            self._tell({"type": "standings", "ranks": self._log_standings()})
        elif kind == "stop":
            self._silent_s = round(self._silence.seconds(self._workers.folder), 1)
            self._pump.say(f"stopping: {message['reason']} on {self._cluster.name_of(message['node_rank'])}")
            if message["is_agreed"]:
                self._ask_at = time.monotonic() + AGREED_S
            else:
                self._workers.ask_to_stop("stop", self._options.grace)
        elif kind in ("abort", "orphaned"):
            self._cause = message["cause"]
            self._pump.say("\n".join(describe(message["cause"])), "ERROR")
            self._workers.ask_to_stop("abort", min(ABORT_GRACE_S, self._options.grace))
            if kind == "orphaned":
                self._verdict = verdict(contract.STATE_FAILED, exit_code_of(self._cause), self._cause, None)
        elif kind == "over":
            self._verdict = message["verdict"]
            if self._workers.are_running:
                self._workers.ask_to_stop("abort", 0.0)

    def _pass_on_stops(self) -> None:
        for reason in self._stops.take():
            self._tell({"type": "stop", "reason": reason})
            if self._stops.is_insistent:
                self._workers.kill()

    def _leave(self, waits_for_peers: bool = True) -> int:
        """Leave nothing behind, write the result, let the other nodes go first."""
        net = lambda: self._net.look(self._workers.folder, is_last=True)  # noqa: E731
        for last in (self._gauges.end, net, self._workers.close, self._tell_outputs):
            try:
                last()
            except Exception as error:  # noqa: BLE001, PERF203  # no fault of an end takes the ranks' verdict
                self._pump.say(f"the agent's end was not whole: {error!r}", "ERROR")
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

    def _tell_outputs(self) -> None:
        """Keep, or else name, what the ranks wrote where it is lost."""
        options = self._options
        if not (options.code_dir or options.keeps_outputs) or not self._workers.ranks:
            return
        found = self._outputs.find()
        if found and options.keeps_outputs:
            node_rank = self._cluster.node_rank
            target = os.path.join(options.output_dir, f"node-{node_rank}" if node_rank else "")
            lost = self._outputs.keep(found, target)
            kept = [one for one in found if one[0] not in lost]
            if kept:
                self._pump.say(f"kept in {target}: {told(kept)}")
            for why in list(lost.values())[:1]:
                rest = told([one for one in found if one[0] in lost])
                self._pump.say(f"not kept in {target}, {why}: {rest}", "ERROR")
        elif found:
            self._pump.say(
                f"lost with this machine: {told(found)}; give keep_outputs=True, or write below "
                f"${contract.OUTPUT_DIR}",
                "WARNING",
            )

    def _wait_for_peers(self) -> None:
        until = time.monotonic() + PEERS_LEAVE_S
        while not self._control.is_released and time.monotonic() < until:
            for key, _ in self._selector.select(max(0.0, until - time.monotonic())):
                key.data(time.monotonic())
            self._workers.reap()
            if "SIGINT" in self._stops.take():  # the verdict stands, and a person does not wait
                return

    def _document(self) -> Message:
        assert self._verdict is not None
        return result.document(
            self._verdict,
            job=self._options.job,
            attempt=self._options.attempt,
            node_rank=self._cluster.node_rank,
            num_nodes=self._cluster.num_nodes,
            ranks=[rank.summary() for rank in self._workers.ranks],
            lost_lines=self._pump.lost_lines,
            silent_s=self._silent_s,
            started_at=self._started_at,
        )
