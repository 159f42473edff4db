"""Trees of processes: children end with their parent, orphans are adopted, nothing is left."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import time

from . import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Any, Dict, Iterable, Mapping, NoReturn, Optional, Sequence, Set

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PRCTL = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
"""None on macOS: there a child does not end with a parent that is killed, and orphans do not come home."""

_WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CANNOT_START = 127
_signals: Optional[int] = None
"""A pipe: the numbers of the signals that came since the last `wait`."""

ORPHANS_S = 1.0
"""How long an agent's end waits for what its ranks left behind, from the last of it that went."""


class Ending:
    """How one process ended: with an exit code, or by a signal."""

    def __init__(self, status: int) -> None:
        self.signal: Optional[int] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        self.exit_code: Optional[int] = None if self.signal else os.WEXITSTATUS(status)


def adopt_orphans() -> None:
    """Become the parent of what those below leave behind, where the kernel can."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """In a child: be killed when the parent ends, where the kernel can; it may have ended already."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(_CANNOT_START)


def hold_signals() -> None:
    """Have signals wait until `wait` asks for them."""
    global _signals  # a process has one set of signals
    _signals, writer = os.pipe()
    for end in (_signals, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in _WATCHED:
        signal.signal(number, lambda *_: None)


def wait(seconds: float) -> bool:
    """Sleep until a child ends, or so long; True where somebody asked this process itself to end."""
    pipes = [] if _signals is None else [_signals]
    heard = [
        number
        for pipe in select.select(pipes, [], [], max(0.0, seconds))[0]
        for number in os.read(pipe, 4096)
    ]
    return any(number != signal.SIGCHLD for number in heard)


def start(
    argv: Sequence[str], env: Mapping[str, str], folder: str, out: int, given: Optional[int] = None
) -> int:
    """Start a program in ``folder``, in a session of its own, which ends with this process; its pid.

    ``out`` and ``given`` are open files for all that it writes, and for what it reads.
    """
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)  # what is sent to the child, it hears itself
    pid = os.fork()
    if pid == 0:
        try:
            _become(parent, argv, env, folder, out, given)
        except OSError as error:
            os.write(2, f"gputrain: {argv[0]} cannot be started in {folder}: {error}\n".encode())
        finally:
            os._exit(_CANNOT_START)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _become(
    parent: int, argv: Sequence[str], env: Mapping[str, str], folder: str, out: int, given: Optional[int]
) -> NoReturn:
    os.setsid()
    die_with(parent)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY) if given is None else given, 0)
    os.chdir(folder)
    # what Python or a caller under nohup set aside
    for number in (*_WATCHED, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
    os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606  # a list, no shell


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


def tell(pids: Iterable[int], number: int) -> Set[int]:
    """Send a signal to children of ours; those that may not be told, as one that became root by ``sudo``."""
    refused = set()
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:  # noqa: PERF203
            pass
        except PermissionError:
            refused.add(pid)
    return refused


def output_of(argv: Sequence[str], within_s: float, **how: Any) -> bytes:
    """What a program writes, standard error too unless ``stderr`` says otherwise. ``how``: as of `Popen`.

    Raises OSError where it cannot be started, or TimeoutError where it has not ended by then. It is killed
    and left behind: `subprocess.run` would wait for one that is stuck in a driver, or for its children.
    """
    import subprocess

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


UNKILLABLE_S = 30.0
"""How long what was killed may take to be gone; what is stuck in a driver or a file system never is."""


def end_children(spared: AbstractSet[int] = frozenset(), within_s: float = 0.0) -> Dict[int, Ending]:
    """Kill and reap every child, and those that are inherited meanwhile, but those spared; how each ended.

    One that SIGKILL does not end in time is left behind: it must not keep a machine, and its bill.
    """
    ended: Dict[int, Ending] = {}
    until, pause_s = time.monotonic() + (within_s or UNKILLABLE_S), 0.002
    latest = until + 10 * ORPHANS_S
    while time.monotonic() < until:
        reaped = reap()
        if reaped:  # what they hid behind them is inherited now
            ended.update(reaped)
            until, pause_s = min(latest, max(until, time.monotonic() + ORPHANS_S)), 0.002
        left = set(host.children_of(os.getpid())) - spared
        if left == tell(left, signal.SIGKILL):  # none, or none that may be told
            break
        time.sleep(pause_s)
        pause_s = min(0.2, pause_s * 1.5)
    return ended
