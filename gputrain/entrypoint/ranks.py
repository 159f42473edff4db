"""One process of this node: started so that it does not outlive the agent, signalled, and how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any

from . import contract, host, processes

_SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh", "busybox")


class Rank:
    """One process of this node."""

    def __init__(self, rank: int, local_rank: int, error_file: str) -> None:
        self.rank = rank
        self.local_rank = local_rank
        self.error_file = error_file
        self.pid = 0
        self.stdout = self.stderr = -1
        self.exit_code: int | None = None
        self.signal: str | None = None
        self.exit_signal = ""
        """The signal that ended it after its script had ended."""
        self.ended_at = 0.0
        self.asked_to: str | None = None
        """Why it is to end: "stop" or "abort"."""
        self.is_reported = False

    def start(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start it in a session of its own. Raises OSError when the command cannot be run."""
        (self.stdout, out), (self.stderr, errors) = os.pipe(), os.pipe()
        try:
            self.pid = processes.start(command, environ, out=out, errors=errors)
        finally:
            os.close(out)
            os.close(errors)

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and not reaped."""
        return self.pid > 0 and self.exit_code is None

    def end(self, ending: processes.Ending) -> None:
        """Take in how it ended."""
        self.exit_code, self.ended_at = ending.exit_code, time.monotonic()
        if ending.signal is not None:
            self.exit_code = contract.BY_SIGNAL + ending.signal
            with contextlib.suppress(ValueError):
                self.signal = signal.Signals(ending.signal).name
            with contextlib.suppress(OSError, ValueError), open(self.error_file + contract.ENDED) as file:
                self.exit_code = int(file.read())  # the script had ended: native threads crashed its exit
                self.exit_signal, self.signal = self.signal or "a signal", None

    def ask_to_stop(self, why: str) -> None:
        """SIGTERM to the rank itself, not to its DataLoader workers; past a shell."""
        if not self.is_running:
            return
        self.asked_to = self.asked_to or why
        processes.send(self._stop_targets(), signal.SIGTERM)

    def _stop_targets(self) -> list[int]:
        """The process; or its children, when it is a shell that would not pass the signal on.

        Of a pipeline those that heed the signal: who only reads what they write ends when they end.
        """
        if host.program_of(self.pid) not in _SHELLS or host.catches(self.pid, signal.SIGTERM):
            return [self.pid]
        children = host.children_of(self.pid)
        heeding = [pid for pid in children if host.catches(pid, signal.SIGTERM)]
        return heeding or children or [self.pid]

    def kill(self) -> None:
        """SIGKILL to the rank's process group; only while it runs or as it ends, as pids are used again."""
        with contextlib.suppress(OSError):  # none is left, or a rank became root
            os.killpg(self.pid, signal.SIGKILL)

    def summary(self) -> dict[str, Any]:
        """How it ended, for the result document."""
        fields = (contract.C_RANK, contract.C_LOCAL_RANK, contract.C_EXIT_CODE, contract.C_SIGNAL)
        return {field: getattr(self, field) for field in fields}
