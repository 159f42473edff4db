"""Carries one kind of question from a bucket to the agent of this node, and its answer back.

The agent knows files only, so it is the same on every platform; on this machine the client writes them.
"""

from __future__ import annotations

import contextlib
import os
import re
import time

from gputrain.entrypoint import contract, host, processes
from gputrain.entrypoint.cloud import Bucket

from .fence import MINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .fence import Fence

EVERY_S = 5.0
"""How often the bucket is asked: 17,280 times a day, for 0.7 cents."""

ANSWER_S = 3.0
"""How long an agent may take: it looks every half second, and takes stacks for 1.5 s at most."""


class Errand:
    """One node's. Names in the bucket begin with ``prefix``; the agent looks into ``folder``."""

    def __init__(self, bucket: Bucket, prefix: str, folder: str, node_rank: int) -> None:
        self._bucket, self._prefix, self._folder, self._rank = bucket, prefix, folder, node_rank
        self._asked: Any = None

    def round(self) -> None:
        """Look once for a question, and wait a moment for its answer. Raises OSError."""
        asked = self._bucket.get(self._prefix + contract.STACKS_ASK)
        if asked is None or asked == self._asked:
            return
        self._asked = asked
        nonce = asked[:100].decode("ascii", "replace").strip()
        if not re.fullmatch(contract.STACKS_NONCE, nonce):
            return
        os.makedirs(self._folder, exist_ok=True)
        host.put(os.path.join(self._folder, contract.STACKS_ASK), nonce)
        self._answer(contract.STACKS_FILE.format(nonce=nonce, node_rank=self._rank))

    def tell(self, says: str) -> None:
        """Tell the agent that it is to leave, as the job's record says."""
        os.makedirs(self._folder, exist_ok=True)
        host.put(os.path.join(self._folder, contract.RECORD_SAYS), says)

    def _answer(self, name: str) -> None:
        until = time.monotonic() + ANSWER_S
        while time.monotonic() < until:
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(self._folder, name), "rb") as file:
                    self._bucket.put(self._prefix + name, file.read())
                return
            time.sleep(0.1)


def send_out(errand: Errand, fence: Fence) -> None:
    """Have it done by a process of its own, for as long as this one lives, whatever program it becomes.

    It also asks the job's record.
    """
    parent = os.getpid()
    if os.fork():
        return
    try:
        processes.die_with(parent)
        silent = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(silent, fd)
        while True:
            with contextlib.suppress(OSError):  # without the network nobody asks
                says = fence.while_running()
                if says != MINE:
                    errand.tell(says)
                errand.round()
            time.sleep(EVERY_S)
    finally:
        os._exit(0)
