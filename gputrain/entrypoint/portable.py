"""What Linux does for a tree of processes, by other means where it does not: macOS.

There a process that waits for the parent's end kills the children, signals are heard through a pipe, and
`ps` tells which processes there are.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, NoReturn, Optional, Sequence, Set, Tuple

_MOST_FILES = 4096
"""Open files that a copy of this process closes."""

_SENT_TO_GROUPS = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGALRM,
    signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip


class Leash:
    """Children end with this process, however it ends: one who reads from it until then kills them."""

    def __init__(self) -> None:
        self._writer: Optional[int] = None
        self._turn = 0
        self._held: Set[int] = set()

    def hold(self) -> None:
        """Have the reader there; before the fork, as a parent may die at any moment after it."""
        if not self._tell("\n"):  # none yet, or somebody has killed it
            if self._writer is not None:
                os.close(self._writer)
            self._writer = None  # whoever comes to no reader has none
            self._writer = _start_holder()
            for pid in self._held:  # whom the last one knew
                self._tell("%d %d\n" % (self._turn, pid))
        self._turn += 1

    def keep(self, pid: int) -> None:
        """The latest child is this one, and has told so itself."""
        self._held.add(pid)

    def bind(self) -> None:
        """In a child that leads a session: go when the parent does, which may know nothing of us yet."""
        if not self._tell("%d %d\n" % (self._turn, os.getpid())):
            raise BrokenPipeError(errno.EPIPE, "who would end it with its parent has been killed")
        if self._writer is not None:
            os.close(self._writer)  # a copy: while it is open, the parent is not seen to end

    def loosen(self, pids: Iterable[int]) -> None:
        """These have ended, and their numbers may be others' soon."""
        for pid in pids:
            self._held.discard(pid)
            self._tell("0 %d\n" % pid)

    def forgo(self) -> None:
        """The latest child has ended before it was anything, and nobody told its number."""
        self._tell("%d 0\n" % self._turn)

    def _tell(self, line: str) -> bool:
        """Whether somebody hears it."""
        if self._writer is None:
            return False
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writer, line.encode())
            return True
        return False


LEASH = Leash()


def _start_holder() -> int:
    """The end of a pipe that a process reads which is nobody's child, and in nobody's group."""
    reader, writer = _pipe()
    # what is sent to our group meanwhile is for us alone: it waits until there is nobody else in it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT_TO_GROUPS)
    try:
        pid = os.fork()
        if pid == 0:
            _begin_holder(reader, writer)
        if os.waitpid(pid, 0)[1]:
            raise BlockingIOError(errno.EAGAIN, "there is no room for another process")
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return writer


def _pipe() -> Tuple[int, int]:
    """Both ends above the standard files, which a child puts others in the place of."""
    low = os.pipe()
    with contextlib.ExitStack() as kept:
        for end in low:
            kept.callback(os.close, end)
        reader = fcntl.fcntl(low[0], fcntl.F_DUPFD_CLOEXEC, 3)
        try:
            return reader, fcntl.fcntl(low[1], fcntl.F_DUPFD_CLOEXEC, 3)
        except OSError:
            os.close(reader)
            raise


def _begin_holder(reader: int, writer: int) -> NoReturn:
    """In a child: leave the group, then the family."""
    status = 1
    try:
        os.setsid()
        if os.fork():
            status = 0
        else:
            os.close(writer)
            _hold(reader)
    finally:
        os._exit(status)


def _hold(reader: int) -> None:
    """Wait for the writer's end, and kill the sessions that it named and did not take back."""
    os.closerange(0, reader)
    os.closerange(reader + 1, _MOST_FILES)
    turns: Dict[int, int] = {}
    text = b""
    while True:
        data = os.read(reader, 4096)
        if not data:
            break
        *lines, text = (text + data).split(b"\n")
        for turn, pid in (map(int, line.split()) for line in lines if line):
            if turn and pid:
                turns[pid] = turn
            else:
                turns = {one: told for one, told in turns.items() if one != pid and told != turn}
    for pid in turns:
        kill_group(pid)


def kill_group(pid: int) -> None:
    """SIGKILL to the group that a process leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


class Ears:
    """Signals that come are kept until they are asked for."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._reader, writer = os.pipe()
        for end in (self._reader, writer):
            os.set_blocking(end, False)
        self._heard: Set[int] = set()
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda *_: None)

    def wait(self, seconds: float) -> Set[int]:
        """The signals since the last call; sleeps so long where there was none."""
        if not self._heard:
            select.select([self._reader], [], [], seconds)
            self._listen()
        heard, self._heard = self._heard, set()
        return heard

    def _listen(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._heard.update(os.read(self._reader, 4096))

    def forget_child(self) -> None:
        """Pass over the end of a child that was waited for."""
        self._listen()
        self._heard.discard(signal.SIGCHLD)


ears: Optional[Ears] = None
"""Of a process that has signals wait."""


def listen(numbers: Sequence[int]) -> None:
    """Have these signals wait until `hear` asks for them."""
    global ears  # a process has one set of signals
    ears = Ears(numbers)


def hear(seconds: float) -> Set[int]:
    """See `Ears.wait`."""
    assert ears is not None, "nobody listens"
    return ears.wait(seconds)


def children_of(parent: int) -> List[int]:
    """The direct children of a process that are alive."""
    return [pid for pid, above, state in _table() if above == parent and not state.startswith("Z")]


def session_members(session: int) -> List[int]:
    """The processes of a session that are alive."""
    return [pid for pid, _, state in _table() if not state.startswith("Z") and _session_of(pid) == session]


def usage_of(sessions: Sequence[int]) -> Tuple[int, int]:
    """Clock ticks of CPU and pages of memory of all processes of some sessions, alive now."""
    seconds = memory_kib = 0.0
    for pid, time, rss in _told("pid", "time", "rss"):
        if _session_of(int(pid)) in sessions:
            seconds += seconds_of(time)
            memory_kib += int(rss)
    return int(seconds * os.sysconf("SC_CLK_TCK")), int(memory_kib * 1024) // os.sysconf("SC_PAGE_SIZE")


def seconds_of(time: str) -> float:
    """What `ps` writes of CPU time, in seconds.

    >>> seconds_of("1-02:03:04"), seconds_of("3:04.25")
    (93784.0, 184.25)
    """
    days, _, rest = time.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86400.0 * int(days or 0)


def program_of(pid: int) -> str:
    """The name of the program that a process runs; empty where there is no such process."""
    words = _ps("-p", str(pid), "-o", "comm=")
    return os.path.basename(words.strip()).lstrip("-")


def _table() -> List[Tuple[int, int, str]]:
    """Number, parent and state of every process."""
    return [(int(pid), int(parent), state) for pid, parent, state in _told("pid", "ppid", "stat")]


def _told(*columns: str) -> List[List[str]]:
    words = [word for column in columns for word in ("-o", column + "=")]
    rows = (line.split() for line in _ps("-A", *words).splitlines())
    return [row for row in rows if len(row) == len(columns)]


def _session_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return 0


def _ps(*words: str) -> str:
    """What it says, itself left out."""
    with subprocess.Popen(["ps", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as ps:  # POSIX's
        assert ps.stdout is not None
        said = ps.stdout.read().decode("utf-8", "replace")
    if ears is not None:
        ears.forget_child()
    own = str(ps.pid)
    return "\n".join(line for line in said.splitlines() if line.split()[:1] != [own])
