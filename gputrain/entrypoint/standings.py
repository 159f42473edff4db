"""Where this node's ranks stand, by their stacks, else by py-spy where the machine has it and lets it look.

Node 0 asks; and whoever can write into the result folder may, by a file there: the client on this machine, or
what carries its word from a bucket.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time

from . import contract, host, launch, stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from .options import Options
    from .workers import Workers

    Standing = Dict[str, Any]

EVERY_S = 0.5
"""How often it is looked whether somebody asks; a look is one system call."""

SPY_S = 1.5
"""How long py-spy has for all ranks together; one takes 0.1 s."""


class Asks:
    """What is asked of one node. Without a folder, nothing."""

    def __init__(self, folder: str, node_rank: int) -> None:
        self._folder = folder
        self._path = os.path.join(folder, contract.STACKS_ASK)
        self._node_rank = node_rank
        self._seen = 0
        self._look_at = 0.0 if folder else float("inf")

    def deadline(self) -> float:
        return self._look_at

    def look(self) -> str:
        """The nonce of a question that has not been answered yet; empty where there is none."""
        now = time.monotonic()
        if now < self._look_at:
            return ""
        self._look_at = now + EVERY_S
        with contextlib.suppress(OSError):
            changed = os.stat(self._path).st_mtime_ns
            if changed != self._seen:
                self._seen = changed
                with open(self._path, encoding="ascii", errors="replace") as file:
                    nonce = file.read(100).strip()
                return nonce if re.fullmatch(contract.STACKS_NONCE, nonce) else ""
        return ""

    def answer(self, nonce: str, ranks: List[Standing]) -> None:
        """Leave the answer, whole; where the disk is full nobody gets one."""
        name = contract.STACKS_FILE.format(nonce=nonce, node_rank=self._node_rank)
        path = os.path.join(self._folder, name)
        with contextlib.suppress(OSError):
            host.put(path, json.dumps({"node_rank": self._node_rank, "ranks": ranks}))


def of(workers: Workers, options: Options, is_ending: bool = False) -> List[Standing]:
    """Where the ranks stand, by what they offer or else by py-spy; or why not.

    `is_ending` is told to `stacks.take`.
    """
    taken = {one["rank"]: one for one in stacks.take(workers.folder, is_ending)}
    is_ours = launch.processes_on_node(options)
    for rank in workers.ranks if is_ours or not taken else []:
        code = rank.exit_code
        why = stacks.UNOFFERED if code is None else f"had ended with {code} before"
        taken.setdefault(rank.rank, stacks.absent(rank.rank, rank.local_rank, rank.pid, why))
    taken.update((one["rank"], one) for one in _spied([one for one in taken.values() if one["absent"]]))
    # What one process for all ranks of a node stands for is no rank.
    ranks = [one for _, one in sorted(taken.items()) if is_ours or one["absent"] != stacks.UNOFFERED]
    told = [stacks.standing(one, len(ranks)) for one in ranks]
    return [{**one, "trace": as_sent(one["trace"], options)} for one in told]


def as_sent(trace: str, options: Options) -> str:
    """A stack with the code's files where they were before they travelled here."""
    folder = options.code_dir
    return trace.replace(f'File "{folder}/', 'File "') if folder else trace


def _spied(ranks: List[Standing]) -> List[Standing]:
    """As `stacks.take`, of the first Python below each of some ranks that have a process."""
    words = ["py-spy", "dump", "--json", "--nonblocking", "--pid"]
    started = []
    for one in ranks if shutil.which("py-spy") else []:
        pid = _python_of(one["pid"]) if one["pid"] else 0
        with contextlib.suppress(OSError):  # it is there, and cannot be run
            if pid:
                told = subprocess.Popen([*words, str(pid)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                started.append((one, told))
    until = time.monotonic() + SPY_S
    found = [{**one, "text": _told(process, until), "absent": ""} for one, process in started]
    return [one for one in found if one["text"]]


def _python_of(pid: int) -> int:
    """The process itself or the nearest below it that runs Python; 0 where none does."""
    line = [pid]
    while line:
        one = line.pop(0)
        if host.program_of(one).lower().startswith("python"):
            return one
        line += host.children_of(one)
    return 0


def _told(process: subprocess.Popen[bytes], until: float) -> str:
    """Its threads in the words of faulthandler, the main thread last; empty where nothing can be told."""
    try:
        said, _ = process.communicate(timeout=max(0.0, until - time.monotonic()))
        threads = sorted(json.loads(said.decode()), key=lambda one: one.get("thread_name") == "MainThread")
        return "\n".join(map(_thread, threads))
    except subprocess.TimeoutExpired:
        process.kill()  # and left behind: it may be stuck where the rank is
        assert process.stdout
        process.stdout.close()
    except (ValueError, KeyError, TypeError):
        pass  # it may not look, or speaks otherwise than it did (0.4)
    return ""


def _thread(thread: Dict[str, Any]) -> str:
    frames = [f'  File "{one["filename"]}", line {one["line"]} in {one["name"]}' for one in thread["frames"]]
    return "\n".join([f"Thread {thread['thread_id']} (most recent call first):", *frames])
