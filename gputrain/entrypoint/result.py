"""The result document: a file that appears whole or not at all, and one line of the log."""

from __future__ import annotations

import json
import os

from . import contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

LINE_LIMIT = 15_000
"""Bytes of the result line: container runtimes cut lines at 16 KiB."""


def write(document: Dict[str, Any], folder: str) -> None:
    """Write the document into the folder, made if need be. Raises OSError when that cannot be done."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, contract.RESULT_FILE.format(node_rank=document[contract.R_NODE_RANK]))
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


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
