"""Which files of a folder are not in the bucket, why not, and when each is tried again.

A refusal is that file's own: it is said once, tried again now and then, and once more at the end. No answer
is the bucket's: one file is enough to know, and all go again as soon as there is one.
"""

from __future__ import annotations

import threading
import time

from .cloud import is_no_answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set, Tuple

    from .cloud import CallFailed
    from .tree import Stamp, Tree

AGAIN_S = 60.0
"""How long what was refused rests: a hold may be lifted, a right may be given."""

NAMED = 20


class Unsent:
    """Of one mirror."""

    def __init__(self, complain: Callable[[str], Any]) -> None:
        self.is_out = False
        """Whether the bucket has not answered in this round."""
        self._complain = complain
        self._faults: Dict[str, Tuple[Stamp, str, float]] = {}
        self._no_objects: Set[str] = set()
        self._round = 0
        self._refused: Dict[str, Tuple[Optional[Stamp], int]] = {}
        """Path -> what was refused for a reason of its own, or cannot be seen, and since which round."""
        self._sent: Dict[str, int] = {}
        """Path -> the round of its latest send."""
        self._broken = ""
        self._said: Set[Tuple[str, str]] = set()
        self._saying = threading.Lock()
        self._is_last = False

    def begin(self, tree: Tree, is_last: bool) -> None:
        """A new round, with the folder as it is now."""
        self.is_out, self._is_last, self._broken = False, is_last, ""
        self._round += 1
        for path, (stamp, _) in list(self._refused.items()):
            if path not in (tree.files if stamp else tree.hidden):
                del self._refused[path]
        self._faults = {path: fault for path, fault in self._faults.items() if path in tree.files}
        for path, error in tree.hidden.items():
            self._refuse(path, None)
            self.say(path, f"{path} cannot be read, so the bucket keeps what it has of it: {error}")
        if is_last and tree.passed_over:
            names = _named(sorted(tree.passed_over))
            self.say("", f"left out, as links to folders, *.tmp and *.part are none of a bucket's: {names}")

    def is_due(self, path: str, stamp: Stamp) -> bool:
        """Whether a file may be tried now."""
        fault = self._faults.get(path)
        return fault is None or self._is_last or fault[0] != stamp or time.monotonic() >= fault[2]

    def no_object(self, path: str) -> None:
        """A file whose name is none that an object may have: all others still go, and their marker."""
        self._no_objects.add(path)
        self.say(path, f"{path!r} cannot be an object in the bucket: its name is none that one may have")

    def is_no_object(self, path: str) -> bool:
        """Whether it has such a name."""
        return path in self._no_objects

    def knows(self, path: str) -> bool:
        """Whether it is told why a file is not there."""
        return path in self._faults

    def sent(self, path: str) -> None:
        """It is there."""
        self._faults.pop(path, None)
        self._refused.pop(path, None)
        self._sent[path] = self._round

    def holds_up(self, path: str, stamp: Optional[Stamp], other: str) -> bool:
        """Whether a file may be what was to follow another that is gone.

        One that was refused before that was sent, and is as it was, is not: that went all the same.
        """
        known, since = self._refused.get(path, (None, self._round))
        return known != stamp or since >= self._sent.get(other, 0)

    def gone(self, path: str) -> None:
        """It is there no more."""
        self._sent.pop(path, None)

    def refused(self, path: str, stamp: Stamp, error: CallFailed) -> None:
        """What the bucket said to a file."""
        if is_no_answer(error):
            self.is_out = True
            self.wait(path, stamp, str(error))
            self.say("", f"the bucket does not answer, and is asked again: {error}")
        else:
            self.fails(path, stamp, str(error))

    def fails(self, path: str, stamp: Stamp, why: str) -> None:
        """A file that cannot go for a reason of its own."""
        self._refuse(path, stamp)
        self._faults[path] = stamp, why, time.monotonic() + AGAIN_S
        self.say(path, f"{path} is not sent, and tried again: {why}")

    def _refuse(self, path: str, stamp: Optional[Stamp]) -> None:
        if self._refused.get(path, ((), 0))[0] != stamp:
            self._refused[path] = stamp, self._round

    def broke(self, error: Exception) -> None:
        """A round that did not come to its end, so that nobody knows what it would have sent."""
        self._broken = f"the folder and the bucket could not be made alike: {error!r}"
        self.say("", self._broken)

    def wait(self, path: str, stamp: Stamp, why: str) -> None:
        """A file that waits for others, or for the bucket."""
        self._faults[path] = stamp, why, 0.0

    def say(self, path: str, text: str) -> None:
        """Into the log, once."""
        with self._saying:
            if (path, text) in self._said:
                return
            self._said.add((path, text))
        self._complain(text)

    def told(self, tree: Tree) -> List[str]:
        """What the bucket lacks at the end, and why, for a person; empty where it has it all."""
        found = {path: why for path, (_, why, _) in self._faults.items() if path in tree.files}
        found.update((path, f"cannot be read: {error}") for path, error in tree.hidden.items())
        lacks = [f"{path} ({why})" for path, why in sorted(found.items())]
        return [*lacks, self._broken] if self._broken else lacks


def _named(names: List[str]) -> str:
    return ", ".join(names[:NAMED]) + ", ..." * (len(names) > NAMED)
