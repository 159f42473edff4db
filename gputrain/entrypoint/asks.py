"""Where somebody asks this node where its ranks stand, and is answered: files in the result folder.

Whoever can write there may ask: the client on this machine, or what carries its word from a bucket.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time

from . import contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

EVERY_S = 0.5
"""How often it is looked whether somebody asks; a look is one system call."""

_NONCE = re.compile(r"[0-9a-f]{8,64}")


class Asks:
    """What is asked of one node. Without a folder, nothing."""

    def __init__(self, folder: str, node_rank: int) -> None:
        self._folder = folder
        self._path = os.path.join(folder, contract.STACKS_ASK)
        self._node_rank = node_rank
        self._seen = 0
        self._look_at = 0.0 if folder else float("inf")

    def deadline(self) -> float:
        """When `look` should be called at the latest."""
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
                return nonce if _NONCE.fullmatch(nonce) else ""
        return ""

    def answer(self, nonce: str, document: Dict[str, Any]) -> None:
        """Leave the answer, whole; where the disk is full nobody gets one."""
        name = contract.STACKS_FILE.format(nonce=nonce, node_rank=self._node_rank)
        path = os.path.join(self._folder, name)
        with contextlib.suppress(OSError):
            with open(path + "-new", "w", encoding="utf-8") as file:
                json.dump(document, file)
            os.replace(path + "-new", path)
