"""The result document: a file that appears whole or not at all, and one line of the log."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time

from . import contract
from .lines import timestamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Mapping

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


def make_folders(*folders: str) -> None:
    """Make the folders that are named; who writes there later tells what is wrong with one."""
    for folder in filter(None, folders):
        with contextlib.suppress(OSError):
            os.makedirs(folder, exist_ok=True)


def refuse(environ: Mapping[str, str], why: str) -> int:
    """Tell, where the environment says, that this agent could not start; the answer is its exit code."""
    from .gang import node_cause
    from .verdict import verdict

    rank = environ.get(contract.NODE_RANK, "")
    node_rank = int(rank) if rank.isdigit() else 0
    now = timestamp(time.time())
    document: Dict[str, Any] = dict.fromkeys(contract.RESULT_FIELDS)
    cause = node_cause(contract.REFUSED, node_rank, socket.gethostname(), why)
    document.update(verdict(contract.STATE_FAILED, contract.BAD_ENVIRONMENT, cause, None))
    document.update(
        schema=contract.RESULT_SCHEMA,
        node_rank=node_rank,
        ranks=[],
        lost_lines=0,
        started_at=now,
        ended_at=now,
    )
    document.update(job=environ.get(contract.JOB_ID, ""), attempt=environ.get(contract.ATTEMPT, "0"))
    if environ.get(contract.RESULT_DIR):
        make_folders(environ[contract.RESULT_DIR])
        with contextlib.suppress(OSError):
            write(document, environ[contract.RESULT_DIR])
    os.write(1, line(document) + b"\n")
    return contract.BAD_ENVIRONMENT


def line(document: Dict[str, Any]) -> bytes:
    """The document as one line of the log; long texts lose their beginning, the structure stays."""
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
    cause[contract.C_LAST_LINES] = [
        text[-kept // 10 :] for text in (cause.get(contract.C_LAST_LINES) or [])[-10:]
    ]
    ranks = document[contract.R_RANKS][: kept // 50]
    return {
        **document,
        contract.R_CAUSE: cause if document[contract.R_CAUSE] else None,
        contract.R_RANKS: ranks,
    }
