"""Trees of processes: what is started dies with whoever started it, orphans come home, nothing is left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time

from . import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Dict, Iterable, Mapping, NoReturn, Optional, Sequence

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CANNOT_START = 127

ORPHANS_S = 1.0
"""How long an agent's end waits for what its ranks left behind to be gone."""


class Ending:
    """How one process ended: with an exit code, or by a signal."""

    def __init__(self, status: int) -> None:
        self.signal: Optional[int] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        self.exit_code: Optional[int] = None if self.signal else os.WEXITSTATUS(status)


def adopt_orphans() -> None:
    """Become the parent of what those below leave behind, as process 1 is anyway."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """In a child: be killed when the parent ends, however that happens; it may have ended already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(_CANNOT_START)


def hold_signals() -> None:
    """Have signals wait until `wait` asks for them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)


def wait(seconds: float) -> bool:
    """Sleep until a child ends, or so long; True where somebody asked this process itself to end."""
    seen = signal.sigtimedwait(_WATCHED, max(0.0, seconds))
    return seen is not None and seen.si_signo != signal.SIGCHLD


def start(argv: Sequence[str], env: Mapping[str, str], folder: str, log: str, mode: int) -> int:
    """Start a program in ``folder``, in a session of its own, its output appended to ``log``; its pid.

    It is killed by the kernel when this process ends, however that happens.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            _become(parent, argv, env, folder, log, mode)
        except OSError as error:
            os.write(2, f"gputrain: {argv[0]} cannot be started in {folder}: {error}\n".encode())
        finally:
            os._exit(_CANNOT_START)
    return pid


def _become(
    parent: int, argv: Sequence[str], env: Mapping[str, str], folder: str, log: str, mode: int
) -> NoReturn:
    os.setsid()
    die_with(parent)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    for number in (
        *_WATCHED,
        signal.SIGPIPE,
        signal.SIGXFSZ,
    ):  # what Python or a caller under nohup set aside
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
    os.execve(argv[0], list(argv), dict(env))  # noqa: S606  # a list, no shell


def reap() -> Dict[int, Ending]:
    """The children that have ended since the last call, by pid."""
    ended: Dict[int, Ending] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = Ending(status)
    return ended


def has_children(pid: int) -> bool:
    """Whether a process has children that live."""
    with contextlib.suppress(OSError):  # one small read, where the kernel offers it; not all do
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                if file.read().strip():
                    return True
        return False
    return bool(host.children_of(pid))


def tell(pids: Iterable[int], number: int) -> None:
    """Send a signal to children of ours."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_children(spared: AbstractSet[int] = frozenset(), within_s: float = float("inf")) -> None:
    """Kill and reap every child, and those that are inherited meanwhile, until only the spared are left."""
    until, pause_s = time.monotonic() + within_s, 0.002
    while time.monotonic() < until:
        reap()
        left = set(host.children_of(os.getpid())) - spared
        if not left:
            return
        tell(left, signal.SIGKILL)
        time.sleep(pause_s)
        pause_s = min(0.2, pause_s * 1.5)
