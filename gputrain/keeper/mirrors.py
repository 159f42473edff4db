"""The folders of a node that are kept like places in a bucket, each by a process of its own."""

from __future__ import annotations

import json
import os
import sys

from .alike import FILLED, UNSAVED
from .bucket import right_to
from .journal import follow
from .keeper import Failed
from .rules import TICK_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread
    from typing import AbstractSet, Any, Dict, List, Tuple

    from .journal import Journal
    from .keeper import Keeper

MIRROR = "gputrain.keeper.alike"
NAMED = 5
"""How many of the files that were not saved the end names; the log has all."""
LINES_S = 10.0
"""How long the last word of one that has ended may take."""


class Mirrors:
    """Fills the folders of a job, and lets what was written last be sent."""

    def __init__(self, job: Any, root: str, folder: str, rank: int, journal: Journal) -> None:
        self._job, self._root, self._folder, self._rank, self._journal = job, root, folder, rank, journal
        self._ends: Dict[int, int] = {}
        """Pid -> the open file whose end is the word to finish."""
        self._filled: Dict[int, Tuple[str, Thread]] = {}
        self._lacks: Dict[str, List[str]] = {}
        """Place -> what of its folder is not there at the end, each with why."""

    @property
    def pids(self) -> AbstractSet[int]:
        """The processes that mirror."""
        return self._ends.keys()

    def fill(self, keeper: Keeper, place: str, name: str, killed: str, is_strict: bool) -> str:
        """The folder that is kept like a ``gs://`` place, filled with what is there; as of `Wholeness`."""
        order = {**self._place(place, name), "killed": killed, "is_strict": is_strict}
        said: List[str] = []
        filled: List[str] = []

        def take(line: bytes) -> None:
            text = line.decode("utf-8", "replace").strip()
            if line.startswith(UNSAVED.encode()):  # whatever a file is called: complaints begin with a blank
                self._lacks[place] = json.loads(text[len(UNSAVED) :])
            elif text == FILLED:
                filled.append(text)
                for earlier in said:
                    self._journal.say(earlier, "WARNING")
            elif filled:  # what holds a file up, or left it out
                self._journal.say(text, "WARNING")
            else:  # the same, unless it ends before it has filled
                said.append(text)

        def ended() -> None:
            if filled and place not in self._lacks:
                self._journal.say(f"nothing more of {place} is saved: what sent it has been killed", "ERROR")

        out, lines = follow(take, ended)
        given, end = os.pipe()
        try:
            words = [sys.executable, "-m", MIRROR, json.dumps(order)]
            pid = keeper.start(words, os.environ, self._root, out, given)
        finally:
            os.close(out)
            os.close(given)
        self._ends[pid] = end
        keeper.until(lambda: bool(filled) or not (lines.is_alive() or keeper.rules.stop), pid)
        if not filled:
            right = right_to(self._job, order["bucket"], order["prefix"])
            told = " ".join(said)
            raise Failed(
                f"{place} cannot be read: {told}\nWhere that is a 403, the VM's account needs {right}"
            )
        self._filled[pid] = place, lines
        return str(order["folder"])

    def _place(self, place: str, name: str) -> Dict[str, Any]:
        bucket, _, prefix = place[len("gs://") :].partition("/")
        return {
            "storage": self._job["storage"],
            "bucket": bucket,
            "prefix": prefix.rstrip("/") + "/" if prefix.strip("/") else "",  # a whole bucket
            "folder": os.path.join(self._folder, name),
            "node": self._rank,
        }

    def end(self, keeper: Keeper) -> str:
        """Let them send what the ranks wrote last; what is in no bucket at the end, for a person."""
        for given in self._ends.values():
            os.close(given)
        while any(pid not in keeper.endings for pid in self._ends):
            keeper.pause(TICK_S)
        told = "; ".join(filter(None, map(self._lost, self._filled)))
        if told:
            self._journal.say(told, "ERROR")
        return told

    def _lost(self, pid: int) -> str:
        place, lines = self._filled[pid]
        lines.join(LINES_S)
        if place not in self._lacks:
            return f"whether all of {place} was saved is unknown: what sent it ended without a word"
        lacks = self._lacks[place]
        count = "1 file was" if len(lacks) == 1 else f"{len(lacks)} files were"
        more = f", and {len(lacks) - NAMED} more" * (len(lacks) > NAMED)
        return f"{count} not saved in {place}: {', '.join(lacks[:NAMED])}{more}" if lacks else ""
