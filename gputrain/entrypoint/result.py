"""What a node leaves: its result, as a file that appears whole or not at all and as one line of the log, and
what the ranks wrote beside the code, in a folder that goes with the machine, whatever they believe.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import time

from . import contract
from .lines import timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

LINE_LIMIT = 15_000
"""Bytes of the result line: container runtimes cut lines at 16 KiB."""


def write(document: Dict[str, Any], folder: str) -> None:
    """Write the document into a folder that is there. Raises OSError when that cannot be done."""
    path = os.path.join(folder, contract.RESULT_FILE.format(node_rank=document[contract.R_NODE_RANK]))
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


def document(verdict: Dict[str, Any], *, started_at: float, **told: Any) -> Dict[str, Any]:
    """A node's result now, with None in the fields that are not told."""
    times = {"started_at": timestamp(started_at), "ended_at": timestamp(time.time())}
    fields = dict.fromkeys(contract.RESULT_FIELDS)
    return {**fields, contract.R_SCHEMA: contract.RESULT_SCHEMA, **verdict, **told, **times}


def make_folders(*folders: str) -> None:
    """Make the folders that are named; who writes there later tells what is wrong with one."""
    for folder in filter(None, folders):
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)


def refuse(
    environ: Mapping[str, str], why: str, kind: str = contract.REFUSED, lines: Sequence[str] = ()
) -> int:
    """Tell, where the environment says, that this agent could not start; the answer is its exit code."""
    from .verdict import node_cause, verdict

    rank = environ.get(contract.NODE_RANK, "")
    node_rank = int(rank) if rank.isdecimal() else 0
    cause = node_cause(kind, node_rank, socket.gethostname(), why)
    cause[contract.C_LAST_LINES] = lines
    told = document(
        verdict(contract.STATE_FAILED, contract.BAD_ENVIRONMENT, cause, None),
        job=environ.get(contract.JOB_ID, ""),
        attempt=environ.get(contract.ATTEMPT, "0"),
        node_rank=node_rank,
        ranks=[],
        lost_lines=0,
        started_at=time.time(),
    )
    if environ.get(contract.RESULT_DIR):
        make_folders(environ[contract.RESULT_DIR])
        with contextlib.suppress(OSError):
            write(told, environ[contract.RESULT_DIR])
    os.write(1, line(told) + b"\n")
    return contract.BAD_ENVIRONMENT


def line(document: Dict[str, Any]) -> bytes:
    """The document as one line of the log; long texts lose their beginning."""
    text = _encode(document)
    for kept in (4000, 1000, 200):
        if len(text) <= LINE_LIMIT:
            break
        text = _encode(_shortened(document, kept))
    return text


def _encode(document: Dict[str, Any]) -> bytes:
    return contract.RESULT_MARKER.encode() + json.dumps(document, separators=(",", ":")).encode()


def _shortened(document: Dict[str, Any], kept: int) -> Dict[str, Any]:
    cause = dict(document[contract.R_CAUSE] or {})
    cause[contract.C_MESSAGE] = str(cause.get(contract.C_MESSAGE))[:kept]
    if cause.get(contract.C_TRACEBACK):
        cause[contract.C_TRACEBACK] = "...\n" + cause[contract.C_TRACEBACK][-kept:]
    lines = cause.get(contract.C_LAST_LINES) or []
    cause[contract.C_LAST_LINES] = [text[-kept // 10 :] for text in lines[-10:]]
    shorter = {contract.R_RANKS: document[contract.R_RANKS][: kept // 50]}
    if document[contract.R_CAUSE]:
        shorter[contract.R_CAUSE] = cause
    return {**document, **shorter}


SEARCH_S = 10.0
"""How long the search may take; a tree of a million files is not told in full."""

NAMED = 5
"""How many of the files are named, the largest first."""

_PASSED_OVER = ("__pycache__", ".git", ".gputrain", ".venv", "node_modules")


class Outputs:
    """The files below a folder that were made or changed since this was made.

    By the time of the kernel, which no copy or archive brings along as it does that of the last change.
    """

    def __init__(self, folder: str, apart: Sequence[str] = ()) -> None:
        self._folder = os.path.realpath(folder)
        self._apart = {os.path.realpath(path) for path in apart if path}
        self._began = time.time()

    def find(self) -> List[Tuple[str, int]]:
        """Path below the folder and size of each, the largest first."""
        return sorted(self._walk(), key=lambda entry: (-entry[1], entry[0]))

    def _walk(self) -> Iterator[Tuple[str, int]]:
        until = time.monotonic() + SEARCH_S
        top = _stat(self._folder)
        waiting = [self._folder] if top else []
        while waiting and time.monotonic() < until:
            for entry in _entries(waiting.pop()):
                status = _stat(entry.path)
                if not (top and status) or status.st_dev != top.st_dev:
                    continue  # gone meanwhile, or a bucket that is mounted here: it stays where it is
                if entry.name in _PASSED_OVER or entry.path in self._apart:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(entry.path)
                elif stat.S_ISREG(status.st_mode) and status.st_ctime > self._began:
                    yield os.path.relpath(entry.path, self._folder), status.st_size

    def keep(self, found: Sequence[Tuple[str, int]], target: str) -> Dict[str, OSError]:
        """Copy them into another folder, the smallest first; why not, of those that could not be."""
        lost: Dict[str, OSError] = {}
        for path, _ in reversed(found):
            into = os.path.join(target, path)
            try:
                os.makedirs(os.path.dirname(into), exist_ok=True)
                shutil.copyfile(os.path.join(self._folder, path), into)
            except OSError as error:  # the others still go
                lost[path] = error
        return lost


def _entries(folder: str) -> List[os.DirEntry[str]]:
    """None where it cannot be looked into: it may be removed, or a dead mount."""
    with contextlib.suppress(OSError):
        return list(os.scandir(folder))
    return []


def _stat(path: str) -> Optional[os.stat_result]:
    with contextlib.suppress(OSError):
        return os.lstat(path)
    return None


def told(found: Sequence[Tuple[str, int]]) -> str:
    """How many, how large, and the largest by name.

    >>> told([("out/ckpt.pt", 1_200_000_000), ("loss.csv", 300)])
    '2 files, 1.2 GB, written beside the code: out/ckpt.pt, loss.csv'
    """
    names = ", ".join(path for path, _ in found[:NAMED]) + ", ..." * (len(found) > NAMED)
    count = "1 file" if len(found) == 1 else f"{len(found)} files"
    return f"{count}, {_size(sum(size for _, size in found))}, written beside the code: {names}"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
