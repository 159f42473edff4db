"""The supervisor of one node: meets the others, starts the ranks, passes on stops, ends as the job does.

One thread that looks at everything four times a second, and at once where a signal comes, a rank ends or
another node reports; the log forwarder, the metadata watch and the run directory have threads of their own.
"""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
from typing import Any

from . import contract, failures, host, launcher, processes, result, stacks
from .logs import LogForwarder
from .network import Meeting, NetWatch, free_port, loopback, numeric, own_address
from .options import EnvironmentRefused, Options, find_cluster
from .peers import Peers, open_directory, silence_limit_s
from .processes import Rank
from .telemetry import GpuCheck, Telemetry

Document = dict[str, Any]


TICK_S = 0.25

ABORT_GRACE_S = 5.0
"""How long ranks may take to leave when a peer has failed."""

PEERS_LEAVE_S = 60.0
"""How long a node's end waits for the run directory, and node 0 for the other nodes to leave first."""

AGREED_S = 3.0
"""How long ranks may take to leave by themselves once one left with 75."""

LATE_S, LATE_LOOKS = 5.0, 5
"""How much longer than this node's ranks those of others may take: so long, or so many looks."""

STANDINGS_S = 5.0
"""How long nodes may take to report their ranks' stacks."""

_NEVER = float("inf")


class Node:
    """One node. Raises EnvironmentRefused when the environment contradicts itself."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._cluster = find_cluster(options, os.environ)
        self._rank = self._cluster.node_rank
        self._started_at = time.time()
        self._notices: list[str] = []
        self._interrupts = 0
        self._logs = LogForwarder(options.log_format, options.log_dir, self._rank, processes.wake)
        apart = (options.output_dir, options.checkpoint_dir, options.log_dir, options.result_dir)
        self._outputs = result.Outputs(options.code_dir or os.getcwd(), apart)
        self._silent_s: float | None = None
        self._requests = stacks.Requests(options.result_dir, self._rank)
        nproc = options.nproc_per_node or self._cluster.nproc or host.gpu_count(os.environ) or 1
        self._nproc = nproc if options.starts_ranks else 1
        self._result: Document | None = None
        self._peers = self._meet()
        self._reset()

    def _meet(self) -> Peers:
        cluster, options = self._cluster, self._options
        is_several = cluster.num_nodes > 1
        addr = options.local_addr or (own_address(cluster.host) if is_several else loopback())
        try:
            port, master = free_port(addr), ""
            if is_several and not options.run_dir:
                master = numeric(cluster.host)
        except OSError as error:
            raise EnvironmentRefused(str(error)) from None
        hello: Document = {
            "boot": os.urandom(8).hex(), "num_nodes": cluster.num_nodes, "nproc": self._nproc,
            "host": socket.gethostname(), "addr": addr, "port": port, "master_addr": master,
        }  # fmt: skip
        directory = open_directory(options.run_dir) if is_several and options.run_dir else None
        return Peers(directory, cluster, options, hello, processes.wake, self._logs.say)

    def _reset(self) -> None:
        """Forget all of the run before."""
        self._go: Document | None = None
        self._workers = launcher.Workers(self._options, self._rank, self._logs, self._note_end)
        self._own: Document = {"ends": [], "is_final": False, "standings": None}
        self._cause: Document | None = None
        self._heard: dict[tuple[Any, ...], float] = {}
        self._lost: set[int] = set()
        self._is_stopping = self._is_changing = False
        self._ask_at = self._leave_by = self._hang_by = _NEVER
        self._ended_at = 0.0

    def run(self) -> int:
        """Run the node to its end; the answer is the exit code.

        A fault of the supervisor itself must not look like a hang: its ranks are killed and the node fails.
        """
        try:
            self._prepare()
            while not self._is_finished():
                self._turn()
        except Exception as error:  # noqa: BLE001  # the top of the supervisor, see above
            self._logs.say(traceback.format_exc(), "ERROR")
            cause = self._cause_here(contract.REFUSED, f"the supervisor itself failed: {error!r}")
            self._result = failures.job_result(contract.STATE_FAILED, contract.BAD_ENVIRONMENT, cause, None)
            self._workers.kill()
        return self._leave()

    def _prepare(self) -> None:
        processes.adopt_orphans()
        result.make_folders(self._options.result_dir, self._options.log_dir)
        processes.hold_signals()
        if host.is_on_google(os.environ):
            host.watch_notices(self._hear_notice)
        advice = host.shared_memory_advice()
        if advice:
            self._logs.say(advice, "WARNING")
        self._peers.begin()

    def _turn(self) -> None:
        """Wait for the next thing to happen, and do what it asks for."""
        if self._peers.go is not self._go:
            self._change_run()
            if self._is_finished():
                return
        self._pass_on_stops(processes.wait(TICK_S))
        self._workers.tick()
        self._requests.answer(self._workers, self._options)
        if self._result is None and self._go and self._peers.go is self._go:
            self._heed_stop()
            self._watch_ranks()
            self._decide()

    def _is_finished(self) -> bool:
        return self._result is not None and not self._workers.are_running

    def _change_run(self) -> None:
        """Begin the run that counts, once no rank of the one before is left."""
        if self._workers.are_running:
            if not self._is_changing:
                self._is_changing = True
                self._logs.say("a node was started again: all nodes start their ranks anew", "WARNING")
                self._workers.ask_to_stop("abort", ABORT_GRACE_S)
            return
        if self._go:
            self._telemetry.end()
            self._workers.close()
            self._reset()
        go = self._go = self._peers.go
        if go is None or "end" in go:
            self._result = go and go["end"]
            return
        nodes = go["nodes"]
        place = launcher.NodePlace(self._rank, nodes)
        options, say = self._options, self._logs.say
        self._workers.start(place)
        meet = options.starts_ranks and self._rank == 0
        self._meeting = Meeting(place.world_size if meet else 1, place.ports[0], say)
        self._gpu_check = GpuCheck()
        if options.target.kind != "program":
            self._gpu_check.begin(self._workers.environ)
        self._silence = stacks.Silence(options.hang_timeout, self._logs)
        self._telemetry: Telemetry = Telemetry(self._rank, self._logs.write, os.environ)
        self._net = NetWatch(options.nccl_net, self._rank, len(nodes), say)

    def _note_end(self, rank: Rank, cause: Document | None) -> None:
        """Take in the end of a rank; before a failure it is asked whether the machine has failed."""
        if rank.asked_to == "abort":
            return
        at = time.time() - (time.monotonic() - rank.ended_at)
        if cause and rank.exit_code and rank.pid:
            self._note_fault(self._telemetry.fault_now())
        if cause:
            cause.update(traceback=stacks.as_sent(cause[contract.C_TRACEBACK] or "", self._options) or None)
            self._note_cause(cause, at)
        elif self._peers.stop is None:
            self._ask_to_stop(failures.UNASKED, is_agreed=True)

    def _note_fault(self, why: str) -> None:
        """The driver says that a GPU has failed: what ranks say is the effect of it."""
        if why and contract.GPU_FAULT not in [end["cause"]["kind"] for end in self._own["ends"]]:
            self._note_cause(self._cause_here(contract.GPU_FAULT, why), time.time())

    def _cause_here(self, kind: str, message: str) -> Document:
        return failures.node_cause(kind, self._rank, socket.gethostname(), message)

    def _note_cause(self, cause: Document, at: float) -> None:
        self._own["ends"].append({"at": at, "cause": cause})
        self._report()

    def _report(self) -> None:
        """Write this node's result for the others, as a copy."""
        assert self._go
        self._peers.report(self._go["run"], {**self._own, "ends": list(self._own["ends"])})

    def _hear_notice(self, reason: str) -> None:
        self._notices.append(reason)
        processes.wake()

    def _pass_on_stops(self, signals: list[int]) -> None:
        self._interrupts += signals.count(signal.SIGINT)
        for number in signals:
            self._ask_to_stop(signal.Signals(number).name)
        while self._notices:
            self._ask_to_stop(self._notices.pop(0))
        if signals and self._interrupts > 1:  # a person pressed Ctrl-C twice
            self._workers.kill()

    def _ask_to_stop(self, reason: str, is_agreed: bool = False) -> None:
        """Have all nodes stop, unless they do already or nothing is left to stop."""
        if self._result is not None or self._peers.stop:
            return
        stop = {"reason": reason, "node_rank": self._rank, "at": time.time(), "is_agreed": is_agreed}
        if self._go is None:
            asked = {"reason": reason, "node_rank": self._rank}
            self._result = failures.job_result(contract.STATE_STOPPED, contract.STOPPED, None, asked)
            self._peers.leave_before_the_start(self._result)
        elif is_agreed or not all(one["is_final"] for one in self._results().values()):
            self._peers.ask_to_stop(stop)

    def _heed_stop(self) -> None:
        """Pass a stop on to the ranks, whichever node asked."""
        stop = self._peers.stop
        if stop is None or self._is_stopping:
            return
        self._is_stopping = True
        self._silent_s = round(self._silence.seconds(self._workers.folder), 1)
        if stop["reason"] == contract.HANG:
            self._own["standings"] = self._log_standings() if self._workers.are_running else []
            self._report()
            self._hang_by = time.monotonic() + STANDINGS_S
            return
        self._logs.say(f"stopping: {stop['reason']} on {self._cluster.name_of(stop['node_rank'])}")
        if stop.get("is_agreed"):
            self._ask_at = time.monotonic() + AGREED_S
        else:
            self._end_ranks("stop", self._options.grace)

    def _end_ranks(self, why: str, grace: float) -> None:
        """Ask this node's ranks to leave; when others have had as long, they are waited for no more."""
        self._workers.ask_to_stop(why, grace)
        late_s = max(LATE_S, LATE_LOOKS * self._peers.poll_s)
        self._leave_by = min(self._leave_by, time.monotonic() + grace + late_s)

    def _watch_ranks(self) -> None:
        now = time.monotonic()
        if now >= self._ask_at:
            self._ask_at = _NEVER
            self._end_ranks("stop", self._options.grace)
        if self._silence.has_changed(self._workers.folder):
            self._peers.report_silence(self._silence.is_quiet)
        pids = [rank.pid for rank in self._workers.ranks if rank.is_running]
        self._note_fault(self._telemetry.look(pids))
        why = self._gpu_check.look(pids)
        if why and not self._own["ends"]:
            cause = self._cause_here(contract.REFUSED, why)
            self._note_cause({**cause, "exit_code": contract.BAD_ENVIRONMENT}, time.time())
        self._net.look(self._workers.folder)
        self._meeting.look(pids)
        if not self._own["is_final"] and self._workers.have_ended:
            self._own["is_final"] = True
            self._report()

    def _results(self) -> dict[int, Document]:
        nothing: Document = {"ends": [], "is_final": False, "standings": None}
        others = {rank: self._peers.results.get(rank, nothing) for rank in self._peers.expected}
        return {**others, self._rank: self._own}

    def _decide(self) -> None:
        """End this node's ranks where one has failed anywhere; conclude once all nodes' ranks have ended."""
        now, results = time.monotonic(), self._results()
        self._look_for_lost(results)
        ends = failures.Ends(results, self._peers.stop)
        for one in (*ends.failures, *ends.left, *ends.unsaved):
            key = (one.cause["kind"], one.cause["node_rank"], one.cause["rank"])
            if key not in self._heard:
                self._ended_at = now  # a sign of life of the others: they may have their own end before them
            one.heard_at = self._heard.setdefault(key, now)
        lost = failures.lost_nodes(results)
        is_over = all(one["is_final"] or rank in lost for rank, one in results.items())
        decides_at = min((one.decides_at for one in ends.failures), default=_NEVER)
        if self._cause is None and ends.failures and (is_over or now >= decides_at):
            self._abort(failures.first_cause(ends.failures, ends.left))
        self._look_for_hang(now, results, ends)
        have_reported = all(one["is_final"] or one["standings"] is not None for one in results.values())
        if self._hang_by != _NEVER and (have_reported or now >= self._hang_by):
            self._hang_by = _NEVER  # not before, as ranks whose peers go stand elsewhere
            self._end_ranks("abort", ABORT_GRACE_S)
        if self._own["is_final"] and now >= self._leave_by:
            for rank in (rank for rank, one in results.items() if not one["is_final"] and rank not in lost):
                self._note_lost(rank, 0.0)
            is_over = True
        if is_over and self._own["is_final"]:
            timeout, name_of = self._options.hang_timeout, self._cluster.name_of
            self._result = failures.conclusion(self._results(), self._peers.stop, timeout, name_of)

    def _abort(self, cause: Document) -> None:
        self._cause = cause
        self._logs.say("\n".join(failures.describe(cause)), "ERROR")
        self._end_ranks("abort", min(ABORT_GRACE_S, self._options.grace))

    def _look_for_lost(self, results: dict[int, Document]) -> None:
        """Nodes that ended without a result, or are silent while this node writes and its ranks wait."""
        limit_s = silence_limit_s(self._options.hang_timeout)
        for rank, silent_s in list(self._peers.silent.items()):
            waits = not silent_s or self._silence.seconds(self._workers.folder) >= limit_s
            if waits and rank not in self._lost and not results[rank]["is_final"]:
                self._note_lost(rank, silent_s)

    def _note_lost(self, rank: int, silent_s: float) -> None:
        self._lost.add(rank)
        assert self._go
        cause = failures.lost_node(
            rank, self._go["nodes"][rank]["host"], self._cluster.name_of(rank), round(silent_s)
        )
        self._note_cause(cause, time.time())

    def _look_for_hang(self, now: float, results: dict[int, Document], ends: failures.Ends) -> None:
        """The first node: end a job of which all nodes that run are silent."""
        quiet = {**self._peers.quiet, self._rank: self._silence.is_quiet}
        running = [rank for rank, one in results.items() if not one["is_final"]]
        is_open = self._cause is None and not ends.failures and self._peers.stop is None
        is_first = self._rank == self._peers.expected[0]
        if not is_first or not running or not is_open or not all(quiet.get(rank) for rank in running):
            return
        if now >= self._ended_at + (self._options.hang_timeout or 0.0):
            self._ask_to_stop(contract.HANG)
            self._heed_stop()

    def _log_standings(self) -> list[Document]:
        """Where this node's ranks stand, which are to be ended; all stacks in the log, equal ones once."""
        found = stacks.of_node(self._workers, self._options)
        traces: dict[str, list[str]] = {}
        for one in found:
            traces.setdefault(one["trace"], []).append(str(one["rank"]))
        traces.pop("", None)
        for trace, ranks in traces.items():
            self._logs.say(f"rank {', '.join(ranks)} stands at, most recent call first:\n{trace}", "WARNING")
        return found

    def _leave(self) -> int:
        """Leave nothing behind, write the result, let the other nodes go first."""
        try:
            if self._workers.ranks:
                self._telemetry.end()
                self._net.look(self._workers.folder, is_last=True)
                self._meeting.look((), is_last=True)
            self._workers.close()
            self._report_outputs()
        except Exception as error:  # noqa: BLE001  # no fault of an end takes the ranks' result
            self._logs.say(f"the node's end was not whole: {error!r}", "ERROR")
        document = self._document()
        if self._cause is None and document[contract.R_CAUSE]:
            self._logs.say("\n".join(failures.describe(document[contract.R_CAUSE])), "ERROR")
        if self._options.result_dir:
            try:
                result.write(document, self._options.result_dir)
            except OSError as error:
                self._logs.say(f"no result in {self._options.result_dir}: {error}", "ERROR")
        self._logs.write(result.line(document))
        self._logs.finish()
        self._peers.end()
        until = time.monotonic() + PEERS_LEAVE_S
        while not self._peers.is_released and time.monotonic() < until:
            if signal.SIGINT in processes.wait(TICK_S):  # the result stands, and a person does not wait
                break
            self._workers.reap()
        return int(document[contract.R_EXIT_CODE])

    def _report_outputs(self) -> None:
        """Keep, or else name, what the ranks wrote where it is lost."""
        options = self._options
        if not (options.code_dir or options.keeps_outputs) or not self._workers.ranks:
            return
        found = self._outputs.find()
        if found and options.keeps_outputs:
            target = os.path.join(options.output_dir, f"node-{self._rank}" if self._rank else "")
            lost = self._outputs.keep(found, target)
            kept = [one for one in found if one[0] not in lost]
            if kept:
                self._logs.say(f"kept in {target}: {result.summary(kept)}")
            for why in list(lost.values())[:1]:
                rest = result.summary([one for one in found if one[0] in lost])
                self._logs.say(f"not kept in {target}, {why}: {rest}", "ERROR")
        elif found:
            self._logs.say(
                f"lost with this machine: {result.summary(found)}; give keep_outputs=True, or write below "
                f"${contract.OUTPUT_DIR}",
                "WARNING",
            )

    def _document(self) -> Document:
        assert self._result is not None
        return result.document(
            self._result,
            job=self._options.job,
            attempt=self._options.attempt,
            node_rank=self._rank,
            num_nodes=self._cluster.num_nodes,
            ranks=[rank.summary() for rank in self._workers.ranks],
            lost_lines=self._logs.lost_lines,
            silent_s=self._silent_s,
            started_at=self._started_at,
        )
