"""The result of a node, as a file and as a line of the log, and the files that its ranks wrote."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import stat
import time
from collections.abc import Mapping, Sequence
from typing import Any

from . import contract, host
from .failures import job_result, node_cause
from .logs import timestamp

LINE_LIMIT, SHORTENED = 15_000, 1_000
"""Bytes of the result line, as container runtimes cut lines at 16 KiB, and what is left then of each text."""


def write(document: dict[str, Any], folder: str) -> None:
    """Write the document into a folder that is there. Raises OSError when that cannot be done."""
    name = contract.RESULT_FILE.format(node_rank=document[contract.R_NODE_RANK])
    host.put(os.path.join(folder, name), json.dumps(document, indent=1))


def document(outcome: dict[str, Any], *, started_at: float, **known: Any) -> dict[str, Any]:
    """A node's result now, with None in the fields that are not known."""
    times = {"started_at": timestamp(started_at), "ended_at": timestamp(time.time())}
    fields = dict.fromkeys(contract.RESULT_FIELDS)
    return {**fields, contract.R_SCHEMA: contract.RESULT_SCHEMA, **outcome, **known, **times}


def make_folders(*folders: str) -> None:
    """Make the folders that are named; a write into one that could not be made says what is wrong."""
    for folder in filter(None, folders):
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)


def refuse(
    environ: Mapping[str, str], why: str, kind: str = contract.REFUSED, lines: Sequence[str] = ()
) -> int:
    """Write the result of an agent that could not start where its environment says; returns its exit code."""
    rank = environ.get(contract.NODE_RANK, "")
    node_rank = int(rank) if rank.isdecimal() else 0
    cause = node_cause(kind, node_rank, socket.gethostname(), why)
    cause[contract.C_LAST_LINES] = lines
    refused = document(
        job_result(contract.STATE_FAILED, contract.BAD_ENVIRONMENT, cause, None),
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
            write(refused, environ[contract.RESULT_DIR])
    os.write(1, line(refused) + b"\n")
    return contract.BAD_ENVIRONMENT


def line(document: dict[str, Any]) -> bytes:
    """The document as one line of the log; of a cause that is too long, without most of its texts."""
    text, cause = _encode(document), document[contract.R_CAUSE]
    if len(text) <= LINE_LIMIT or not cause:
        return text
    trace = cause[contract.C_TRACEBACK] and "...\n" + cause[contract.C_TRACEBACK][-SHORTENED:]
    texts = {contract.C_MESSAGE: cause[contract.C_MESSAGE][:SHORTENED], contract.C_TRACEBACK: trace}
    return _encode({**document, contract.R_CAUSE: {**cause, **texts, contract.C_LAST_LINES: []}})


def _encode(document: dict[str, Any]) -> bytes:
    return contract.RESULT_MARKER.encode() + json.dumps(document, separators=(",", ":")).encode()


SEARCH_S = 10.0
"""How long the search may take; a tree of a million files is not listed in full."""

NAMED = 5
"""How many of the files are named, the largest first."""

_SKIPPED = ("__pycache__", ".git", ".gputrain", ".venv", "node_modules")


class Outputs:
    """The files below a folder, which goes with the machine, made or changed since this object was made.

    By the kernel's time of change, which copies and archives do not set, as they do that of the last write.
    """

    def __init__(self, folder: str, apart: Sequence[str] = ()) -> None:
        self._folder = os.path.realpath(folder)
        self._apart = {os.path.realpath(path) for path in apart if path}
        self._began = time.time()

    def find(self) -> list[tuple[str, int]]:
        """Path below the folder and size of each, the largest first."""
        found, until = [], time.monotonic() + SEARCH_S
        for folder, folders, files in os.walk(self._folder):
            folders[:] = [name for name in folders if self._is_ours(name, os.path.join(folder, name))]
            for path in (os.path.join(folder, name) for name in files):
                with contextlib.suppress(OSError):  # gone meanwhile
                    status = os.lstat(path)
                    if stat.S_ISREG(status.st_mode) and status.st_ctime > self._began:
                        found.append((os.path.relpath(path, self._folder), status.st_size))
            if time.monotonic() >= until:
                break
        return sorted(found, key=lambda entry: (-entry[1], entry[0]))

    def _is_ours(self, name: str, path: str) -> bool:
        return not (
            name in _SKIPPED or path in self._apart or os.path.ismount(path)
        )  # a mounted bucket stays

    def keep(self, found: Sequence[tuple[str, int]], target: str) -> dict[str, OSError]:
        """Copy them into another folder, the smallest first; the error of each that could not be copied."""
        lost: dict[str, OSError] = {}
        for path, _ in reversed(found):
            into = os.path.join(target, path)
            try:
                os.makedirs(os.path.dirname(into), exist_ok=True)
                shutil.copyfile(os.path.join(self._folder, path), into)
            except OSError as error:
                lost[path] = error
        return lost


def summary(found: Sequence[tuple[str, int]]) -> str:
    """How many, how large, and the largest by name.

    >>> summary([("out/ckpt.pt", 1_200_000_000), ("loss.csv", 300)])
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
