"""Trees of processes: children end with their parent, orphans are adopted, nothing is left; and ranks."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from typing import Any

from . import contract, host

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PRCTL = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
"""None on macOS: there a child does not end with a parent that is killed, and orphans do not come home."""

_signals: tuple[int, int] | None = None
"""A pipe: the numbers of the signals that came since the last `wait`, and 0 for each `wake`."""

ORPHANS_S = 1.0
"""How long an agent's end waits for what its ranks left behind, from the last of it that went."""

UNKILLABLE_S = 30.0
"""How long what was killed may take to be gone; what is stuck in a driver or a file system never is."""


class Ending:
    """How one process ended: with an exit code, or by a signal."""

    def __init__(self, status: int) -> None:
        self.signal: int | None = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        self.exit_code: int | None = None if self.signal else os.WEXITSTATUS(status)


def adopt_orphans() -> None:
    """Become the parent of what those below leave behind, where the kernel can."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def hold_signals() -> None:
    """Have signals wait until `wait` takes them, but those that a caller ignores, as nohup does."""
    global _signals  # a process has one set of signals
    _signals = os.pipe()
    for end in _signals:
        os.set_blocking(end, False)
    signal.set_wakeup_fd(_signals[1], warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if number == signal.SIGCHLD or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def wait(seconds: float) -> list[int]:
    """Sleep until a signal comes, a child ends or `wake` is called, or so long; the signals but SIGCHLD."""
    pipes = [_signals[0]] if _signals else []
    ready = select.select(pipes, [], [], max(0.0, seconds))[0]
    numbers = [number for pipe in ready for number in os.read(pipe, 4096)]
    return [number for number in numbers if number not in (0, signal.SIGCHLD)]


def wake(*_: object) -> None:
    """End a `wait`, from any thread."""
    with contextlib.suppress(BlockingIOError):
        if _signals:
            os.write(_signals[1], b"\0")


def start(
    argv: Sequence[str], env: Mapping[str, str], *, out: int, errors: int = subprocess.STDOUT,
    folder: str | None = None, given: int = subprocess.DEVNULL,
) -> int:  # fmt: skip
    """Start a program in a session of its own, which ends with this process; its pid. Raises OSError."""
    parent = os.getpid()

    def die_with_parent() -> None:  # two system calls, which need no lock
        if _PRCTL is not None:
            _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    process = subprocess.Popen(
        list(argv), env=dict(env), cwd=folder, stdin=given, stdout=out, stderr=errors,
        start_new_session=True, preexec_fn=die_with_parent,
    )  # fmt: skip
    process.returncode = 0  # `reap` waits for it
    return process.pid


def reap() -> dict[int, Ending]:
    """The children that have ended since the last call, by pid."""
    ended: dict[int, Ending] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = Ending(status)
    return ended


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to our children; some may be gone, or have become root by ``sudo``."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def kill(pids: Iterable[int]) -> None:
    """SIGKILL to our children, and first to theirs where these would neither end with them nor come home."""
    if _PRCTL is None:
        send([below for pid in pids for below in host.children_of(pid)], signal.SIGKILL)
    send(pids, signal.SIGKILL)


def output_of(argv: Sequence[str], within_s: float, **how: Any) -> bytes:
    """What a program writes. Raises OSError, or TimeoutError: then it is killed and left behind, since
    `subprocess.run` would wait for one that is stuck in a driver, or for its children."""
    words = {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, **how}
    process: subprocess.Popen[bytes] = subprocess.Popen(argv, stdout=subprocess.PIPE, **words)
    try:
        return process.communicate(timeout=within_s)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise TimeoutError(errno.ETIMEDOUT, f"{argv[0]} has not ended within {within_s:g} s") from None
    finally:
        assert process.stdout
        process.stdout.close()


def end_children(spared: AbstractSet[int] = frozenset(), within_s: float = 0.0) -> dict[int, Ending]:
    """Kill and reap every child, inherited ones too, but those spared; how each ended. One that SIGKILL does
    not end in time is left behind: it must not keep a machine, and its bill."""
    ended: dict[int, Ending] = {}
    until, pause_s = time.monotonic() + (within_s or UNKILLABLE_S), 0.002
    latest = until + 10 * ORPHANS_S
    while time.monotonic() < until:
        reaped = reap()
        if reaped:  # what they hid behind them is inherited now
            ended.update(reaped)
            until, pause_s = min(latest, max(until, time.monotonic() + ORPHANS_S)), 0.002
        left = set(host.children_of(os.getpid())) - spared
        if not left:
            break
        kill(left)
        time.sleep(pause_s)
        pause_s = min(0.2, pause_s * 1.5)
    return ended


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
            self.pid = start(command, environ, out=out, errors=errors)
        finally:
            os.close(out)
            os.close(errors)

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and not reaped."""
        return self.pid > 0 and self.exit_code is None

    def end(self, ending: Ending) -> None:
        """Take in how it ended."""
        self.exit_code, self.ended_at = ending.exit_code, time.monotonic()
        if ending.signal is not None:
            self.exit_code = contract.BY_SIGNAL + ending.signal
            with contextlib.suppress(ValueError):
                self.signal = signal.Signals(ending.signal).name
            with contextlib.suppress(OSError, ValueError), open(self.error_file + contract.EXITED) as file:
                self.exit_code = int(file.read())  # the script had ended: native threads crashed its exit
                self.exit_signal, self.signal = self.signal or "a signal", None

    def ask_to_stop(self, why: str) -> None:
        """SIGTERM to the rank itself, not to its DataLoader workers; past a shell."""
        if not self.is_running:
            return
        self.asked_to = self.asked_to or why
        send(self._stop_targets(), signal.SIGTERM)

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
