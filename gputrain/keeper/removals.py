"""Removes from the bucket what was removed from the folder, and no more than that proves.

A script that keeps its last checkpoint removes the one before as soon as the new one is written; the bucket
has to have the new one first. What is refused, as a policy of retention does, stays, and holds up nothing.
"""

from __future__ import annotations

import os
import time

from .cloud import is_no_answer
from .tree import is_gone
from .unsent import AGAIN_S
from .whole import by_marker, is_marker, vouches_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    from .store import Item, Store
    from .tree import Tree
    from .unsent import Unsent


class Removals:
    """Of node 0, whose folder says what is to go."""

    def __init__(self, store: Store, folder: str, unsent: Unsent) -> None:
        self._store, self._folder, self._unsent = store, folder, unsent
        self._awaited: Dict[str, Dict[str, Any]] = {}
        """Path that went -> the files that were whole then and had not been sent."""
        self._again_at: Dict[str, float] = {}
        self._is_last = False
        self.is_out = False
        """Whether the bucket has not answered to the latest of them."""

    def try_again(self) -> None:
        """At the end whatever failed is tried once more, however short ago that was."""
        if not self._is_last:
            self._again_at.clear()
        self._is_last = True

    def round(
        self, tree: Tree, alike: Dict[str, Any], there: Dict[str, Item], due: Callable[[], Dict[str, Any]]
    ) -> None:
        """Remove what is gone here. ``due``: the whole files that the bucket lacks, and what is hidden."""
        gone = self._gone(tree, alike, there)
        due_now = due() if gone else {}
        self._awaited = {path: self._awaited.get(path, due_now) for path in gone}
        kept: List[str] = []
        for path in sorted(gone, key=by_marker, reverse=True):
            if any(vouches_for(marker, path) for marker in kept) or not self._goes(path, gone[path], due_now):
                kept.append(path)
                continue
            there.pop(path, None)
            alike.pop(path, None)

    def markers(
        self, tree: Tree, alike: Dict[str, Any], there: Dict[str, Item], changed: List[str]
    ) -> List[str]:
        """Remove the markers that are gone here while files that they vouch for change; those that stay.

        They go before such a file is sent: what is there until all of it is new is neither of both.
        """
        gone = [path for path in alike if is_marker(path) and path not in tree.files and not tree.hides(path)]
        stale = [path for path in gone if any(vouches_for(path, one) for one in changed)]
        self.is_out = False
        kept = [path for path in stale if not self._removed(path, alike[path][1])]
        if self.is_out:
            self._again_at = {path: at for path, at in self._again_at.items() if path not in kept}
        for path in set(stale) - set(kept):
            there.pop(path, None)
            alike.pop(path, None)
        return kept

    def _gone(self, tree: Tree, alike: Dict[str, Any], there: Dict[str, Item]) -> Dict[str, str]:
        """What was here and is not, by its generation here; with a folder, all that lies in it there.

        A step is begun anew by removing its folder: what another node has written into it since stays.
        """
        gone = {path: generation for path, (_, generation) in alike.items() if path not in tree.files}
        folders = {os.path.dirname(path) for path in gone} - {""}
        lost = tuple(one + "/" for one in folders if is_gone(os.path.join(self._folder, one)))
        below = {path: item.generation for path, item in there.items() if lost and path.startswith(lost)}
        gone.update((path, one) for path, one in below.items() if path not in tree.files)
        return {path: one for path, one in gone.items() if not (tree.hides(path) or tree.passes_over(path))}

    def _goes(self, path: str, generation: str, due_now: Dict[str, Any]) -> bool:
        """Whether a path is out of the bucket now."""
        due = {one: stamp for one, stamp in self._awaited[path].items() if due_now.get(one, ()) == stamp}
        refused = [one for one, stamp in due.items() if not self._unsent.holds_up(one, stamp, path)]
        awaited = due.keys() - set(refused)
        awaited = {one for one in awaited if not any(vouches_for(one, other) for other in refused)}
        if awaited:
            self._unsent.say(path, f"{path}, removed here, stays in the bucket until {min(awaited)} is there")
            return False
        return self._removed(path, generation)

    def _removed(self, path: str, generation: str) -> bool:
        if time.monotonic() < self._again_at.get(path, 0.0):
            return False
        try:
            self._store.remove(path, generation)
        except (OSError, ValueError) as error:
            self.is_out = is_no_answer(error)
            self._again_at[path] = time.monotonic() + AGAIN_S
            self._unsent.say(path, f"{path}, removed here, is still in the bucket: {error}")
            if self.is_out:  # the others need not wait for the same answer
                self._again_at.update((one, self._again_at[path]) for one in self._awaited)
            return False
        self._again_at.pop(path, None)
        self._unsent.gone(path)
        return True
