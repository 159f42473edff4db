"""The result of a node: a file that appears whole or not at all, and one line of the log."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import Any, Mapping, Sequence

from . import contract, host
from .failures import job_result, node_cause
from .logs import timestamp

LINE_LIMIT = 15_000
"""Bytes of the result line: container runtimes cut lines at 16 KiB."""


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
    """The document as one line of the log; long texts lose their beginning."""
    text = _encode(document)
    for kept in (4000, 1000, 200):
        if len(text) <= LINE_LIMIT:
            break
        text = _encode(_shortened(document, kept))
    return text


def _encode(document: dict[str, Any]) -> bytes:
    return contract.RESULT_MARKER.encode() + json.dumps(document, separators=(",", ":")).encode()


def _shortened(document: dict[str, Any], kept: int) -> dict[str, Any]:
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
