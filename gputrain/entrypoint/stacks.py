"""Where every rank of a node stands: each is asked by a file, and answers by one (see `rank`).

A client on this machine asks by a file in the result folder, and so does what reads the job's bucket.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
from typing import Any

from . import contract, host, launcher
from .launcher import Workers
from .options import Options

ASKED_S = 3.0
"""How long ranks have to answer; they look every 0.2 s."""

EVERY_S = 0.5
"""How often the agent looks whether somebody asks; a look is one system call."""

UNANSWERED = (
    f"could not be asked: no answer within {ASKED_S:g} s, as where native code keeps the interpreter's lock"
    " or another program took the process over"
)
UNOFFERED = "could not be asked: not run by Python, or not yet"
_STATES = {
    "T": "could not be asked: stopped by a signal, as by SIGSTOP",
    "t": "could not be asked: held by a debugger",
    "D": "could not be asked: stuck in the kernel, as in a driver or a file system",
}

TRACE_LIMIT = 6000
"""Characters of a stack that travel to node 0."""

TRACES_LIMIT = 1 << 20
"""Characters of all stacks of a node together; of many ranks each has its share."""

_NAME = re.compile(contract.RANK_STACK_FILE.format(r"(\d+)", r"(\d+)", r"(\d+)"))
_TORCH = re.compile(r"[/\\]torch[/\\]")
_COLLECTIVES = re.compile(r"[/\\]torch[/\\](distributed|autograd|nn[/\\]parallel)[/\\]")
_WRAPPERS = ("wrapper", "_engine_run_backward", "_fn", "inner", "decorate_context")
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages)[/\\]|[/\\]lib[/\\]python3[^/]*[/\\]|^<frozen")


def of_node(workers: Workers, options: Options) -> list[dict[str, Any]]:
    """Where the ranks of this node stand, or why they cannot say."""
    found = {one["rank"]: one for one in take(workers.folder)}
    for rank in workers.ranks if launcher.processes_on_node(options) else ():  # else none is a rank's process
        code = rank.exit_code
        why = UNOFFERED if code is None else f"had ended with {code} before"
        found.setdefault(rank.rank, standing(rank.rank, rank.local_rank, {}, why))
    limit = min(TRACE_LIMIT, TRACES_LIMIT // max(1, len(found)))
    return [{**one, "trace": as_sent(one["trace"][:limit], options)} for _, one in sorted(found.items())]


def take(folder: str) -> list[dict[str, Any]]:
    """Ask all ranks whose files are here; by rank: where it stands, or why it does not say."""
    asked, until = os.urandom(8).hex(), time.monotonic() + ASKED_S
    try:
        found = [match for match in map(_NAME.fullmatch, os.listdir(folder) if folder else ()) if match]
        host.put(os.path.join(folder, contract.STACKS_ASK), asked)
    except OSError:  # a script may have removed the folder
        return []
    taken = []
    for match in sorted(found, key=lambda one: int(one[1])):
        rank, local_rank, pid = map(int, match.groups())
        path = os.path.join(folder, match[0])
        while "recorded" not in (answer := _answer(path, asked)) and _runs(pid) and time.monotonic() < until:
            time.sleep(0.02)
        if answer or _runs(pid):
            why = "" if answer else _STATES.get(host.state_of(pid), UNANSWERED)
            taken.append(standing(rank, local_rank, answer, why))
    return taken


def _answer(path: str, asked: str) -> dict[str, Any]:
    found = host.read_json(path) or {}
    return found if found.get("asked") == asked else {}


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return host.state_of(pid) not in ("Z", "X")


def standing(rank: int, local_rank: int, answer: dict[str, Any], absent: str = "") -> dict[str, Any]:
    """Where a rank stands: the collective it waits in, the line of its own code, its main thread's stack; or
    why it is `absent`.

    >>> standing(2, 2, {"frames": [("/w/train.py", 8, "evaluate")]})["place"]
    'evaluate at train.py:8'
    """
    frames = [(path, line, name) for path, line, name in answer.get("frames", ()) if not _is_start(path)]
    own = [frame for frame in frames if not _LIBRARY.search(frame[0])] or frames
    return {
        "rank": rank,
        "local_rank": local_rank,
        "collective": _collective(frames),
        "place": "{2} at {0}:{1}".format(os.path.basename(own[0][0]), *own[0][1:]) if own else "",
        "trace": "\n".join(f'  File "{path}", line {line} in {name}' for path, line, name in frames),
        "absent": absent,
        "recorded": answer.get("recorded", {}),
    }


def _collective(frames: list[tuple[str, int, str]]) -> str:
    """The call of torch's in which a rank waits for others; empty where it is in code of its own."""
    inside = itertools.takewhile(lambda frame: _TORCH.search(frame[0]), frames)
    names = (name for path, _, name in inside if _COLLECTIVES.search(path))
    return next((name for name in names if name not in _WRAPPERS), "")


def _is_start(path: str) -> bool:
    """Whether a frame is of what starts every script."""
    return path == "<string>" or os.path.dirname(path) == os.path.dirname(os.path.abspath(__file__))


def as_sent(trace: str, options: Options) -> str:
    """A stack with the code's files where they were before they travelled here."""
    folder = options.code_dir
    return trace.replace(f'File "{folder}/', 'File "') if folder else trace


class Requests:
    """Requests for stacks, each a file in the result folder. Without a folder, none."""

    def __init__(self, folder: str, node_rank: int) -> None:
        self._folder = folder
        self._path = os.path.join(folder, contract.STACKS_ASK)
        self._node_rank = node_rank
        self._seen = 0
        self._look_at = 0.0 if folder else float("inf")

    def answer(self, workers: Workers, options: Options) -> None:
        """Leave the answer to one that has none yet, whole; where the disk is full there is none."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + EVERY_S
        with contextlib.suppress(OSError):
            changed = os.stat(self._path).st_mtime_ns
            if changed == self._seen:
                return
            self._seen = changed
            nonce = host.read_text(self._path)
            if re.fullmatch(contract.STACKS_NONCE, nonce):
                name = contract.STACKS_FILE.format(nonce=nonce, node_rank=self._node_rank)
                document = {"node_rank": self._node_rank, "ranks": of_node(workers, options)}
                host.put(os.path.join(self._folder, name), json.dumps(document))
