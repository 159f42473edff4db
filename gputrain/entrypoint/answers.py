"""A rank that is asked where it stands: its main thread's Python stack and, by torch's flight recorder, how
many collectives it has begun: NCCL's and gloo's alike.

A thread answers, which waits in the kernel until it is asked. It holds the interpreter's lock while it looks,
so nothing moves, and a rank that is in the midst of its work takes no harm. Where native code holds that lock
for longer, and the job is about to be ended for a hang, a signal with a handler in C takes the stack without
it. Such a handler reads the frames of threads that may run, which can end the process (seen with CPython
3.11); while the lock is held so none does. It is a real-time signal, since torchrun, Slurm and Lightning use
SIGUSR1 and 2, and scripts their own.
A kernel that waits on the GPU shows in no stack, as the rank runs ahead of it; the recorder counts.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import faulthandler
import fcntl
import json
import os
import signal
import sys
import time
from itertools import accumulate, chain, repeat
from operator import attrgetter, methodcaller

from . import contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List

HAS_REAL_TIME = hasattr(signal, "SIGRTMIN")
NUMBER = int(signal.SIGRTMIN) + 7 if HAS_REAL_TIME else int(signal.SIGURG)
"""On macOS, which has no real-time signals, one that does nothing to a process without a handler."""

ASKED, TOLD = ".asked", ".told"
"""A fifo, into which who asks writes a byte, and the file beside it whose last line is the answer."""

FLIGHT_BUFFER = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}
"""Entries that are kept a rank, as by torch since 2.9; the second is the old name."""

_DEEPEST = 100
"""Frames of a stack, as many as faulthandler tells."""

_AGAIN_S = 0.5
"""How long the thread rests after what it could not do, as for want of memory, room or descriptors."""

_PLACE = attrgetter("f_code", "f_lineno")
_RECORDERS = ("_dump_nccl_trace_json", "_dump_fr_trace_json")
"""Of NCCL's collectives, where torch is built with it, and of gloo's: each has a recorder of its own, and
both may count for one group. Each was seen by itself with torch 2.11 on an H100, 2026-11-26."""


def offer() -> None:
    """Let the agent, if there is one, ask this process for its stack, as long as it lives."""
    path = os.environ.get("GPUTRAIN_ERROR_FILE")
    if not path:
        return
    rank, local_rank = os.environ.get("RANK", "0"), os.environ.get("LOCAL_RANK", "0")
    base = os.path.join(os.path.dirname(path), f"stacks-{rank}-{local_rank}-{os.getpid()}")
    with contextlib.suppress(OSError, ValueError, AttributeError):
        number = _Own(base, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND).number()
        os.write(number, b"%d\n" % number)  # so that the agent sees whether it still is this file's
        faulthandler.register(NUMBER, file=number, all_threads=False, chain=False)
    with contextlib.suppress(OSError, RuntimeError):
        with contextlib.suppress(FileExistsError):  # of the same process, which has begun anew by os.exec
            os.mkfifo(base + ASKED, 0o600)
        atexit.register(_withdraw, base + ASKED, os.getpid())
        # Both ways, since one that is opened for reading alone waits for who asks: in open(), which keeps
        # the lowest free number from the script.
        asked = _Own(base + ASKED, os.O_RDWR)
        told = _Own(base + TOLD, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        # None of threading's: a script that counts its threads, or ends when they do, finds its own.
        _thread.start_new_thread(_serve, (asked, told, _thread.get_ident()))


def _withdraw(path: str, pid: int) -> None:
    """Be asked no more: a thread that wakes while the interpreter is taken apart may abort it."""
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            os.unlink(path)


class _Own:
    """A file of ours in the script's process: at a high number, where scripts neither put nor expect any,
    and opened again where the script has closed it all the same."""

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._flags = flags
        self._fd = self._opened()

    def number(self) -> int:
        """Its descriptor. Raises OSError where it cannot be opened again."""
        if not self._is_at(self._fd):
            self._fd = self._opened()
        return self._fd

    def empty(self) -> None:
        """Drop what it holds: by its path, since a number may be another file's in a moment."""
        self.number()
        os.truncate(self.path, 0)

    def _is_at(self, fd: int) -> bool:
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(fd), os.stat(self.path))
        return False

    def _opened(self) -> int:
        low = os.open(self.path, self._flags, 0o600)
        most = os.sysconf("SC_OPEN_MAX")
        try:
            high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, max(3, min(most if most > 0 else 1024, 1024) - 8))
        except OSError:  # none is free up there
            return low
        if self._is_at(low):  # the script may just have put another file there
            os.close(low)
        return high


def _serve(asked: _Own, told: _Own, main: int) -> None:
    with contextlib.suppress(Exception):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
    while True:
        try:
            os.read(asked.number(), 4096)
            _tell(told, main)
        except Exception:  # noqa: BLE001, PERF203  # the next question may find what this one lacked
            if not os.path.exists(asked.path):  # the folder goes with the agent
                return
            time.sleep(_AGAIN_S)


def _tell(told: _Own, main: int) -> None:
    answer: Dict[str, Any] = {"text": _stack(main)}
    told.empty()
    _put(told, answer)  # before torch is asked, which may take its time
    recorded = _recorded() if os.environ.get(contract.HANG_TIMEOUT) else {}
    _put(told, {**answer, "recorded": recorded})


def _put(told: _Own, answer: Dict[str, Any]) -> None:
    line = json.dumps(answer) + "\n"
    os.write(told.number(), line.encode())


def _stack(thread: int) -> str:
    """The stack of one thread in the words of faulthandler, the most recent call first.

    One call into C walks it, which holds the lock from end to end. Between two steps in Python the thread
    might leave a frame to this one, which then would run the destructors of what it holds. faulthandler's
    own walk passes through a list that threads of C++ change meanwhile, and can end the process (3.11).
    """
    places: List[Any] = []
    with contextlib.suppress(AttributeError):  # of None, behind the last
        # Nothing here has a name, so that the last frame is let go before the lock may be.
        places.extend(
            map(_PLACE, accumulate(chain(_first_frame(thread), repeat("f_back", _DEEPEST - 1)), getattr))
        )
    lines = [f'  File "{code.co_filename}", line {line or 0} in {code.co_name}\n' for code, line in places]
    return "".join(lines).encode("utf-8", "backslashreplace").decode()


def _first_frame(thread: int) -> Iterator[Any]:
    """What finds a thread's frame, not before it is asked for it."""
    return map(methodcaller("get", thread), map(methodcaller("__call__"), [sys._current_frames]))


def _recorded() -> Dict[str, Any]:
    """Group -> the last collective that was begun and the last that is done, and the name of the former."""
    c10d = sys.modules.get("torch._C._distributed_c10d")
    found: Dict[str, Any] = {}
    for number, name in enumerate(name for name in _RECORDERS if hasattr(c10d, name)):
        with contextlib.suppress(Exception):  # a private name of torch's: whatever it does now
            counts = _groups(json.loads(getattr(c10d, name)()))
            found.update((group + " (gloo)" * number, one) for group, one in counts.items())
    return found


def _groups(told: Dict[str, Any]) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for group, status in (told.get("pg_status") or {}).items():
        begun = int(status["last_enqueued_collective"])
        names = [
            str(one["profiling_name"])
            for one in told.get("entries") or ()
            if str(one["process_group"][0]) == group and int(one["collective_seq_id"]) == begun
        ]
        name = names[-1] if names else ""
        found[str(group)] = {
            "begun": begun, "done": int(status["last_completed_collective"]), "name": name,
        }  # fmt: skip
    return found
