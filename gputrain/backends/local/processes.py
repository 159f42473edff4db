"""The agents' processes: started so that none outlives the supervisor, waited for, swept up.

Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

from gputrain.entrypoint import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CANNOT_START = 127


class Ending:
    """How one process ended: with an exit code, or by a signal."""

    def __init__(self, status: int) -> None:
        self.signal: int | None = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        self.exit_code: int | None = None if self.signal else os.WEXITSTATUS(status)


def prepare() -> None:
    """Become the parent of all orphans below, and have signals wait until `wait` asks for them."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
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
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the supervisor died in between
        os._exit(_CANNOT_START)
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


def has_children(pid: int) -> bool:
    """Whether a process has children that live."""
    with contextlib.suppress(OSError):  # one small read, where the kernel offers it; not all do
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                if file.read().strip():
                    return True
        return False
    return bool(host.children_of(pid))


def tell(pids: Sequence[int], number: int) -> None:
    """Send a signal to children of ours."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def sweep() -> None:
    """Kill whatever is left below this process, and reap it, until there is nothing."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            tell(host.children_of(os.getpid()), signal.SIGKILL)
            wait(0.2)
