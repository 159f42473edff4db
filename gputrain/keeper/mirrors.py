"""The folders of a node that are kept like places in a bucket, each by a process of its own."""

from __future__ import annotations

import json
import os
import sys

from gputrain.entrypoint import processes

from .bucket import right_to
from .journal import follow
from .keeper import Failed
from .rules import TICK_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Any, Dict, List

    from .journal import Journal
    from .keeper import Keeper

MIRROR = "gputrain.keeper.mirror"


class Mirrors:
    """Fills the folders of a job, and lets what was written last be sent."""

    def __init__(self, job: Any, root: str, folder: str, rank: int, journal: Journal) -> None:
        self._job, self._root, self._folder, self._rank, self._journal = job, root, folder, rank, journal
        self._ends: Dict[int, int] = {}
        """Pid -> the open file whose end is the word to finish."""

    @property
    def pids(self) -> AbstractSet[int]:
        """The processes that mirror."""
        return self._ends.keys()

    def fill(self, keeper: Keeper, place: str, name: str, killed: str, is_strict: bool) -> str:
        """The folder that is kept like a ``gs://`` place, filled with what is there; as of `Wholeness`."""
        bucket, _, prefix = place[len("gs://") :].partition("/")
        order = {
            "storage": self._job["storage"],
            "bucket": bucket,
            "prefix": prefix.rstrip("/") + "/",
            "folder": os.path.join(self._folder, name),
            "node": self._rank,
            "killed": killed,
            "is_strict": is_strict,
        }
        said: List[str] = []

        def take(line: bytes) -> None:
            said.append(line.decode("utf-8", "replace").strip())
            if len(said) > 1:  # it complains of what cannot be a file here
                self._journal.say(said[-1], "WARNING")

        out, lines = follow(take)
        given, end = os.pipe()
        try:
            words = [sys.executable, "-m", MIRROR, json.dumps(order)]
            pid = keeper.start(words, os.environ, self._root, out, given)
        finally:
            os.close(out)
            os.close(given)
        self._ends[pid] = end
        keeper.until(lambda: bool(said) or not lines.is_alive(), pid)
        if said[:1] != ["filled"]:
            right = right_to(self._job, bucket, order["prefix"])
            told = " ".join(said)
            raise Failed(
                f"{place} cannot be read: {told}\nWhere that is a 403, the VM's account needs {right}"
            )
        return str(order["folder"])

    def end(self, keeper: Keeper) -> None:
        """Let them send what the ranks wrote last."""
        for given in self._ends.values():
            os.close(given)
        while any(pid not in keeper.endings for pid in self._ends):
            processes.wait(TICK_S)
            keeper.look()
        if any(keeper.endings[pid].exit_code != 0 for pid in self._ends):
            self._journal.say("not all of a folder could be sent to the bucket", "ERROR")
