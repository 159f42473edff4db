"""Where every rank of a node stands: each is asked, and at a job's end for a hang, one that native code keeps
from answering is signalled.

What they answer, and why asking is safe and a signal is not, is told in `answers`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time

from . import host
from .answers import ASKED, HAS_REAL_TIME, NUMBER, TOLD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    Standing = Dict[str, Any]

ASKED_S = 1.5
"""How long ranks have to answer; they take milliseconds."""

SIGNALLED_S = 1.0
"""How long those have that are signalled then, since they have not."""

UNHEARD = "could not be asked: nobody is there to answer any more, as after os.exec or at its end"
UNANSWERED = (
    f"could not be asked: no answer within {ASKED_S:g} s, as where native code keeps the interpreter's lock"
)
UNOFFERED = "could not be asked: not run by Python, or not yet"
_STATES = {
    "T": "could not be asked: stopped by a signal, as by SIGSTOP",
    "t": "could not be asked: held by a debugger",
    "D": "could not be asked: stuck in the kernel, as in a driver or a file system",
}
_GONE = ("Z", "X")

_LOOK_S = 0.02
_MOST = 1 << 21
"""Characters of an answer that are read."""

TRACE_LIMIT = 6000
"""Characters of a stack that travel to node 0."""

TRACES_LIMIT = 1 << 20
"""Characters of all stacks of a node together; of many ranks each has its share. JSON may take six bytes."""

_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_NAME = re.compile(r"^stacks-(\d+)-(\d+)-(\d+)$")
_TORCH = re.compile(r"[/\\]torch[/\\]")
_COLLECTIVES = re.compile(r"[/\\]torch[/\\](distributed|autograd|nn[/\\]parallel)[/\\]")
_WRAPPERS = ("wrapper", "_engine_run_backward", "_fn", "inner", "decorate_context")
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3[^/]*[/\\]|^<frozen")


def take(folder: str, is_ending: bool = False) -> List[Standing]:
    """Of all that offer them, by rank: the main thread's stack, what torch recorded, why one gave none.

    Args:
        is_ending: whether they are about to be ended, so that a signal may disturb them.
    """
    names = []
    with contextlib.suppress(OSError):  # a script may have removed them
        names = list(filter(None, map(_NAME.match, os.listdir(folder) if folder else [])))
    asked = [_Question(os.path.join(folder, found[0]), *map(int, found.groups())) for found in names]
    _await(asked, ASKED_S)
    if is_ending:
        _await([one for one in asked if one.signal()], SIGNALLED_S)
    return sorted([one.told() for one in asked if one.is_there], key=lambda one: int(one["rank"]))


def _await(asked: List[_Question], within_s: float) -> None:
    """All in turns: one that answers slowly, or never, takes nothing of the others' time."""
    until = time.monotonic() + within_s
    while not all([one.is_done() for one in asked]) and time.monotonic() < until:  # noqa: C419  # all are read
        time.sleep(_LOOK_S)


def absent(rank: int, local_rank: int, pid: int, why: str) -> Standing:
    """What is told of a rank that gives no stack."""
    return {"rank": rank, "local_rank": local_rank, "pid": pid, "text": "", "absent": why}


class _Question:
    """One rank that is asked, and how much of its answer has come."""

    def __init__(self, path: str, rank: int, local_rank: int, pid: int) -> None:
        self._path = path
        self._rank, self._local_rank, self._pid = rank, local_rank, pid
        self._is_asked = False
        self._text = ""
        self._recorded: Optional[Dict[str, Any]] = None
        self._signalled_at: Optional[int] = None
        with contextlib.suppress(OSError):
            os.truncate(path + TOLD, 0)

    @property
    def is_there(self) -> bool:
        """Whether it has told something, or can be told of at all."""
        try:
            os.kill(self._pid, 0)
        except OSError:  # gone, and its number another's perhaps
            return bool(self._text)
        return bool(self._text) or host.state_of(self._pid) not in _GONE

    def is_done(self) -> bool:
        """Ask, or take in what has come; whether that is all there will be."""
        if self._signalled_at is not None:
            self._text = self._text_since(self._signalled_at)
            return _is_whole(self._text)
        self._is_asked = self._is_asked or self._ask()
        told = _answer(self._path + TOLD) if self._is_asked else {}
        self._text, self._recorded = str(told.get("text", "")), told.get("recorded")
        return (bool(self._text) and self._recorded is not None) or not self.is_there

    def _ask(self) -> bool:
        """Whether somebody was there to be asked; who answers another just now is so again in a moment."""
        try:
            fd = os.open(self._path + ASKED, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        with contextlib.suppress(OSError):
            os.write(fd, b"?")
        os.close(fd)
        return True

    def signal(self) -> bool:
        """Have one that has not answered write its stack from within a signal; whether it was signalled."""
        if self._text or not self._is_safe_to_signal:
            return False
        with contextlib.suppress(OSError):  # its file is gone; or it is, and its number another's
            before = os.path.getsize(self._path)
            os.kill(self._pid, NUMBER)
            self._signalled_at = before
        return self._signalled_at is not None

    @property
    def _is_safe_to_signal(self) -> bool:
        """A real-time signal would end a process that has no handler, wait in one that does not run it, show
        another thread where the main thread blocks it, and be written into what now has the file's number."""
        if not HAS_REAL_TIME:
            return True
        with contextlib.suppress(OSError, ValueError), open(self._path, "rb") as file:
            number = int(file.readline(20))
            return host.would_run(self._pid, NUMBER) and host.holds(self._pid, number, self._path)
        return False

    def _text_since(self, size: int) -> str:
        with contextlib.suppress(OSError), open(self._path, encoding="utf-8", errors="replace") as file:
            file.seek(size)
            return file.read(_MOST)
        return self._text

    def told(self) -> Standing:
        """The answer."""
        why = "" if self._text else self._why()
        told = {**absent(self._rank, self._local_rank, self._pid, why), "text": self._text}
        return {**told, "recorded": self._recorded or {}}

    def _why(self) -> str:
        return _STATES.get(host.state_of(self._pid), UNANSWERED if self._is_asked else UNHEARD)


def _answer(path: str) -> Dict[str, Any]:
    """The last line of a rank's file that is whole; the first comes before torch is asked."""
    with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8", errors="replace") as file:
        last = file.read(_MOST).rpartition("\n")[0].rpartition("\n")[2]
        found = json.loads(last) if last.startswith("{") else {}
        return found if isinstance(found, dict) else {}
    return {}


def _is_whole(text: str) -> bool:
    """Whether a stack that a signal took is there: down to what starts every script, or cut after a hundred
    frames."""
    last = text.rstrip().rpartition("\n")[2]
    return text.endswith("\n") and (last.startswith('  File "<string>"') or last == "  ...")


def standing(taken: Standing, among: int = 1) -> Standing:
    """Where a rank stands: the collective it waits in, the line of its own code, its main thread's stack.

    Args:
        among: how many ranks of the node are told of at once.

    >>> text = 'Thread 0x1 (most recent call first):\\n  File "/w/train.py", line 8 in evaluate\\n'
    >>> standing({"rank": 2, "local_rank": 2, "text": text})["place"]
    'evaluate at train.py:8'
    """
    main = taken["text"].rstrip().rpartition("(most recent call first):")[2].strip("\n")
    main = "\n".join(line for line in main.split("\n") if not _is_start(line))
    frames = _FRAME.findall(main)
    return {
        "rank": taken["rank"],
        "local_rank": taken["local_rank"],
        "collective": _collective(frames),
        "place": _place(frames),
        "trace": main[: min(TRACE_LIMIT, TRACES_LIMIT // among)],
        "absent": taken.get("absent", ""),
        "recorded": taken.get("recorded", {}),
    }


def _collective(frames: List[Tuple[str, str, str]]) -> str:
    """The call of torch's in which a rank waits for others; empty where it is in code of its own."""
    inside = []
    for path, _, name in frames:
        if not _TORCH.search(path):
            break
        if _COLLECTIVES.search(path) and name not in _WRAPPERS:
            inside.append(name)
    return inside[0] if inside else ""


def _place(frames: List[Tuple[str, str, str]]) -> str:
    own = [frame for frame in frames if not _LIBRARY.search(frame[0]) and not _is_ours(frame[0])]
    for path, line, name in own[:1] or frames[:1]:
        return f"{name} at {os.path.basename(path)}:{line}"
    return ""


def _is_start(line: str) -> bool:
    """Whether it is a frame of what starts every script."""
    found = _FRAME.match(line)
    return bool(found and (found[1] == "<string>" or _is_ours(found[1])))


def _is_ours(path: str) -> bool:
    return os.path.dirname(path) == os.path.dirname(os.path.abspath(__file__))
