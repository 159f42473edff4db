"""Trees of processes: what is started dies with whoever started it, orphans come home, nothing is left."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import time

from . import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Any, Dict, Iterable, Mapping, NoReturn, Optional, Sequence, Set

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PRCTL = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
if _PRCTL is None:  # no Linux, but macOS
    from . import portable

_WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CANNOT_START = 127

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


def before_fork() -> int:
    """Be ready for children that end with this process; what they give to `die_with`."""
    if _PRCTL is None:
        portable.LEASH.hold()
    return os.getpid()


def keep_child(pid: int) -> None:
    """The latest child is this one: it ends with this process, whoever sees to that."""
    if _PRCTL is None:
        portable.LEASH.keep(pid)


def forgo_child() -> None:
    """The latest child came to nothing, and whoever tried to start it has reaped it."""
    if _PRCTL is None:
        portable.LEASH.forgo()


def die_with(parent: int) -> None:
    """In a child that leads a session: be killed when the parent ends; it may have ended already."""
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        portable.LEASH.bind()
    if os.getppid() != parent:
        os._exit(_CANNOT_START)


def hold_signals() -> None:
    """Have signals wait until `wait` asks for them."""
    if _PRCTL is None:
        portable.listen(_WATCHED)
    else:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else the kernel may tell of no child's end
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)


def wait(seconds: float) -> bool:
    """Sleep until a child ends, or so long; True where somebody asked this process itself to end."""
    if _PRCTL is None:
        return bool(portable.hear(max(0.0, seconds)) - {signal.SIGCHLD})
    seen = signal.sigtimedwait(_WATCHED, max(0.0, seconds))
    return seen is not None and seen.si_signo != signal.SIGCHLD


def start(
    argv: Sequence[str], env: Mapping[str, str], folder: str, out: int, given: Optional[int] = None
) -> int:
    """Start a program in ``folder``, in a session of its own, which ends with this process; its pid.

    ``out`` and ``given`` are open files for all that it writes, and for what it reads.
    """
    parent = before_fork()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)  # what is sent to the child, it hears itself
    pid = os.fork()
    if pid == 0:
        try:
            _become(parent, argv, env, folder, out, given)
        except OSError as error:
            os.write(2, f"gputrain: {argv[0]} cannot be started in {folder}: {error}\n".encode())
        finally:
            os._exit(_CANNOT_START)
    keep_child(pid)
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
    if ended and _PRCTL is None:
        portable.LEASH.loosen(ended)
    return ended


def note_killed(path: str, at: float) -> None:
    """Note that a process was killed then, seconds since 1970: the last it wrote may be half a file."""
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a") as file:
            file.write(f"{at}\n")


def tell(pids: Iterable[int], number: int) -> Set[int]:
    """Send a signal to children of ours; those that may not be told, as one that became root by ``sudo``."""
    return {pid for pid in pids if _refuses(pid, number)}


def _refuses(pid: int, number: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        try:
            os.kill(pid, number)
        except PermissionError:
            return True
    return False


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
