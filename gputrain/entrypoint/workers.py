"""The ranks of this node together: started, asked to stop, killed, reaped, and their ends told."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time

from . import contract, host, launch, processes
from .ranks import Rank, explain
from .verdict import node_cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from .logs import Pump
    from .options import Options

    Message = Dict[str, Any]

LAST_WORDS_S = 0.5
"""How long a rank's end waits for the last lines it wrote; a child of it may hold its pipes open."""


class Workers:
    """All ranks of one node; `tell` takes the message of each one's end."""

    def __init__(self, options: Options, node_rank: int, pump: Pump, tell: Callable[[Message], None]) -> None:
        self.ranks: List[Rank] = []
        self.folder = ""
        self._options = options
        self._node_rank = node_rank
        self._pump = pump
        self._tell = tell
        self._not_ours = set(host.children_of(os.getpid()))
        self._kill_at = self._stuck_at = float("inf")
        self._oom_kills: Optional[int] = None

    @property
    def are_running(self) -> bool:
        """Whether any rank has been started and not reaped."""
        return any(rank.is_running for rank in self.ranks)

    def start(self, place: launch.NodePlace) -> None:
        """Start them; one that cannot be started has ended with the agent's own code for that."""
        options = self._options
        try:
            self.folder = launch.error_folder(options.result_dir)
            environments = launch.environments(options, place, os.environ, self.folder)
        except OSError as error:
            for local_rank in range(place.nproc):
                rank = Rank(place.base_rank + local_rank, local_rank, "")
                self.ranks.append(rank)
                self._refuse(rank, f"cannot prepare the start of ranks: {error}")
            return
        command = launch.commands(options, place)
        self._oom_kills = host.oom_kills()
        for local_rank, environ in enumerate(environments):
            rank = Rank(place.base_rank + local_rank, local_rank, environ[contract.ERROR_FILE])
            self.ranks.append(rank)
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
        cause = node_cause(contract.REFUSED, self._node_rank, socket.gethostname(), message)
        cause.update(rank.summary())
        self._tell_ended(rank, cause, age=0.0)

    def deadline(self) -> float:
        return min([self._kill_at, self._stuck_at, *map(self._reports_at, self.ranks)])

    def tick(self) -> None:
        """Tell of those that have ended, and kill those that had time enough."""
        self.reap()
        self._report()
        if time.monotonic() >= self._kill_at:
            self.kill()
        if time.monotonic() >= self._stuck_at:
            self._give_up_on_stuck()

    def ask_to_stop(self, why: str, grace: float) -> None:
        """Ask all to end, and kill within the grace time those that do not."""
        for rank in self.ranks:
            rank.ask_to_stop(why)
        self._kill_at = min(self._kill_at, time.monotonic() + grace)

    def kill(self) -> None:
        """End everything in the ranks' sessions now."""
        self._kill_at, self._stuck_at = float("inf"), time.monotonic() + processes.UNKILLABLE_S
        for rank in self.ranks:
            rank.kill_session()

    def _give_up_on_stuck(self) -> None:
        """Let the job end without a rank that SIGKILL does not end."""
        for rank in self.ranks:
            if rank.is_running:
                self._pump.say(f"rank {rank.rank} cannot be killed: it is stuck in the kernel", "ERROR")
                rank.end(processes.Ending(signal.SIGKILL))
        self._stuck_at = float("inf")

    def reap(self) -> None:
        """Take in every child that ended: ranks, and orphans that were handed to us."""
        ended = processes.reap()
        # An orphan that was handed to us may have the number of a rank that ended long ago.
        for rank in (one for one in self.ranks if one.is_running and one.pid in ended):
            rank.end(ended[rank.pid])
            self._note_if_killed(rank)
            if rank.exit_code not in (contract.DONE, contract.STOPPED):
                rank.kill_session()

    def _note_if_killed(self, rank: Rank) -> None:
        """For whoever sends what ranks write; one that heeds SIGTERM may write until it ends itself."""
        if self._options.result_dir and (rank.exit_code or 0) > contract.BY_SIGNAL:
            heeds = rank.told_at and rank.exit_code == contract.BY_SIGNAL + signal.SIGTERM
            at = rank.told_at if heeds and rank.told_at else time.time()
            processes.note_killed(os.path.join(self._options.result_dir, contract.KILLED), at)

    def _reports_at(self, rank: Rank) -> float:
        return float("inf") if rank.is_reported or rank.exit_code is None else rank.ended_at + LAST_WORDS_S

    def _report(self) -> None:
        """Tell the gang of ranks that have ended, once their last words are in."""
        for rank in self.ranks:
            now = time.monotonic()
            if rank.exit_code is None or rank.is_reported:
                continue
            if self._pump.is_silent(rank.rank) or now >= rank.ended_at + LAST_WORDS_S:
                rank.is_reported = True
                oom_killed = (host.oom_kills() or 0) > (self._oom_kills or 0)
                cause = explain(rank, self._node_rank, self._pump.tail(rank.rank), oom_killed)
                self._tell_ended(rank, cause, age=now - rank.ended_at)

    def _tell_ended(self, rank: Rank, cause: Optional[Message], age: float) -> None:
        self._tell({"type": "ended", "age": age, "cause": cause, **rank.summary()})

    def close(self) -> None:
        """Leave no process and no file behind."""
        processes.end_children(self._not_ours, within_s=processes.ORPHANS_S)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
