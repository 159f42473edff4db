"""Where every rank of a node stands: its Python stacks, taken by a signal that needs no lock of Python's, and
how many collectives it has begun, by torch's flight recorder: NCCL's and gloo's alike.

A rank offers them by a handler in C, which works while its main thread is blocked in a collective. A
real-time signal, since torchrun, Slurm and Lightning use SIGUSR1 and 2, and a script may take those itself.
A kernel that waits on the GPU shows in no stack, as the rank runs ahead of it; the recorder counts.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import signal
import sys
import threading
import time

from . import contract, host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    Standing = Dict[str, Any]

_HAS_REAL_TIME = hasattr(signal, "SIGRTMIN")
NUMBER = int(signal.SIGRTMIN) + 7 if _HAS_REAL_TIME else int(signal.SIGURG)
"""On macOS, which has no real-time signals, one that does nothing to a process without a handler."""

WITHIN_S = 1.5
"""How long ranks have to write them; they take milliseconds."""

UNCAUGHT = "could not be asked: no handler for the signal any more, as after os.exec or a signal.signal()"
UNANSWERED = f"could not be asked: no answer within {WITHIN_S:g} s, as where all threads block signals"
UNOFFERED = "could not be asked: not run by Python, or not yet"
_STATES = {
    "T": "could not be asked: stopped by a signal, as by SIGSTOP",
    "t": "could not be asked: held by a debugger",
    "D": "could not be asked: stuck in the kernel, as in a driver or a file system",
}
_GONE = ("", "Z", "X")

SETTLED_S = 0.02
_FLIGHT = ".flight"
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


def offer() -> None:
    """Let the agent, if there is one, take this process's stacks, as long as it lives."""
    path = os.environ.get("GPUTRAIN_ERROR_FILE")
    if not path:
        return
    rank, local_rank = os.environ.get("RANK", "0"), os.environ.get("LOCAL_RANK", "0")
    name = os.path.join(os.path.dirname(path), f"stacks-{rank}-{local_rank}-{os.getpid()}")
    with contextlib.suppress(OSError, ValueError, AttributeError):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        faulthandler.register(NUMBER, file=file, all_threads=True, chain=False)
        if os.environ.get(contract.HANG_TIMEOUT):  # a thread more, which only those pay for who want it
            offer_flight(name + _FLIGHT)


def take(folder: str) -> List[Standing]:
    """Of all that offer them, by rank: the stacks of all threads, what torch recorded, why one gave none."""
    asked = []
    with contextlib.suppress(OSError):  # a script may have removed them
        names = map(_NAME.match, os.listdir(folder) if folder else [])
        files = [(os.path.join(folder, found[0]), map(int, found.groups())) for found in names if found]
        asked = [one for one in [_Question(path, *numbers) for path, numbers in files] if one.ask()]
    until = time.monotonic() + WITHIN_S
    # All in turns: one that answers slowly, or never, takes nothing of the others' time.
    while not all([one.read() for one in asked]) and time.monotonic() < until:  # noqa: C419  # all are read
        time.sleep(SETTLED_S)
    return sorted(map(_Question.told, asked), key=lambda one: int(one["rank"]))


def absent(rank: int, local_rank: int, pid: int, why: str) -> Standing:
    """What is told of a rank that gives no stack."""
    return {"rank": rank, "local_rank": local_rank, "pid": pid, "text": "", "absent": why}


class _Question:
    """One rank that is asked, and how much of its answer has come."""

    def __init__(self, path: str, rank: int, local_rank: int, pid: int) -> None:
        self._path = path
        self._rank, self._local_rank, self._pid = rank, local_rank, pid
        self._before = os.path.getsize(path)
        self._text = ""
        self._recorded: Optional[Dict[str, Any]] = None
        self._catches = self._has_flight = False

    def ask(self) -> bool:
        """Ask; whether the rank is there at all."""
        # A real-time signal would end a process that has no handler.
        self._catches = not _HAS_REAL_TIME or host.catches(self._pid, NUMBER)
        if not self._catches:
            return host.state_of(self._pid) not in _GONE
        try:
            os.kill(self._pid, NUMBER)
        except OSError:  # gone, and its number another's
            return False
        self._has_flight = ask_flight(self._path + _FLIGHT)
        return True

    def read(self) -> bool:
        """Take in what has come; whether that is all."""
        if not self._catches:
            return True
        if not _is_whole(self._text):
            with contextlib.suppress(OSError), open(self._path, encoding="utf-8", errors="replace") as file:
                file.seek(self._before)
                self._text = file.read()
        if self._has_flight and self._recorded is None:
            self._recorded = read_flight(self._path + _FLIGHT)
        return _is_whole(self._text) and not (self._has_flight and self._recorded is None)

    def told(self) -> Standing:
        """The answer."""
        why = "" if self._text else self._why()
        told = {**absent(self._rank, self._local_rank, self._pid, why), "text": self._text}
        return {**told, "recorded": self._recorded or {}}

    def _why(self) -> str:
        if not self._catches:
            return UNCAUGHT
        return _STATES.get(host.state_of(self._pid), UNANSWERED)


def _is_whole(text: str) -> bool:
    """Whether the main thread's stack, which comes last, is there: down to what starts every script, or cut
    after a hundred frames."""
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


FLIGHT_BUFFER = {"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000"}
"""Entries that are kept a rank, as by torch since 2.9; the second is the old name."""

_MOST = 1 << 20
_NAMES = ("_dump_fr_trace_json", "_dump_nccl_trace_json")


def offer_flight(base: str) -> None:
    """Answer whoever writes a byte into the fifo of this name, by a thread that lives as long as we do."""
    with contextlib.suppress(OSError):
        os.mkfifo(base, 0o600)
        threading.Thread(target=_serve, args=(base,), name="gputrain-flight", daemon=True).start()


def _serve(base: str) -> None:
    with contextlib.suppress(OSError):  # the folder goes with the agent
        while True:
            with open(base, "rb") as asked:
                asked.read()
            host.put(base + ".json", json.dumps(_recorded()))


def _recorded() -> Dict[str, Any]:
    """Group -> the last collective that was begun and the last that is done, and the name of the former."""
    c10d = sys.modules.get("torch._C._distributed_c10d")
    dump = next((getattr(c10d, name) for name in _NAMES if hasattr(c10d, name)), None)
    if dump is None:
        return {}
    try:
        return _groups(json.loads(dump()))
    except Exception:  # noqa: BLE001  # a private name of torch's: whatever it does now, it tells nothing
        return {}


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


def ask_flight(base: str) -> bool:
    """Ask; whether somebody is there to answer."""
    with contextlib.suppress(OSError):
        os.unlink(base + ".json")
    try:
        fd = os.open(base, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    with contextlib.suppress(OSError):
        os.write(fd, b"?")
    os.close(fd)
    return True


def read_flight(base: str) -> Optional[Dict[str, Any]]:
    """What was answered; None: nothing yet. A rank whose interpreter native code holds answers nothing."""
    with contextlib.suppress(OSError, ValueError), open(base + ".json", encoding="utf-8") as file:
        found = json.loads(file.read(_MOST))
        return found if isinstance(found, dict) else {}
    return None
