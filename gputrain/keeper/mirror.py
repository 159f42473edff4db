"""Keeps a folder of this VM and a ``gs://`` place alike: all nodes see one folder of checkpoints.

Files that are whole and new go up. Objects come down: all of them before the job begins, later those of
node 0 or of somebody outside, and small ones, so that N nodes do not each bring the shards of N. What node 0
removes is removed everywhere. Markers (``COMPLETE``) go last and are removed first, so that what a marker
vouches for is there while the marker is.

What one file or object meets holds up no other, and a list or a removal that fails holds up no send. Nothing
is removed before all is there that was whole when it went here, nor because it cannot be seen any more.
"""

from __future__ import annotations

import errno
import itertools
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait

from .cloud import CallFailed, is_no_answer
from .removals import Removals
from .store import Changed, Item, Store
from .tree import DRAFTS, Tree, inside, of, opened_anew, own_folder, remove, stamp_of, unlink
from .unsent import Unsent
from .whole import STEP, Wholeness, by_marker, is_marker, is_under_way, is_written, vouches_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Tuple

LIST_EVERY_S = 20.0
"""How often the bucket is listed: three times a minute, which costs about 2 cents a day for a folder and node
($0.05 for 10,000 operations of class A). Source: cloud.google.com/storage/pricing, read 2026-11-22."""

AWAITED_S = 1.0
"""The same while a checkpoint is under way: rank 0 waits to see the files of all ranks before it marks it."""

SMALL = 1 << 20
"""Bytes of what comes down from any node while the job runs: it may be a word to the others."""

THREADS = 8
WATCH_S = 0.5
"""How often the folder is looked at while files go."""

DRAFT = ".gputrain-mirror-%d.part"
"""An object on its way into a folder; a name of its own, as the object's may be as long as a name can be."""

PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
"""How a file is opened: one that has become a pipe meanwhile would be waited for without end."""

NO_PLACE = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ENAMETOOLONG, errno.ELOOP)
"""A file system's words for a name that cannot be a file here: ``a`` beside ``a/b``, or too long."""


class Mirror:
    """One folder and its place in the bucket.

    Args:
        node: the rank of this one; what node 0 removes is removed everywhere.
        whole: tells which files may go.
    """

    def __init__(self, store: Store, folder: str, node: int, whole: Wholeness) -> None:
        self.store, self.folder, self.node, self.whole = store, folder, node, whole
        self.alike: Dict[str, Tuple[Any, str]] = {}
        """Path -> what the file and the object were when they were last the same."""
        self.there: Dict[str, Item] = {}
        """The objects as they were listed last, and as they were sent since."""
        self.no_file: Dict[str, str] = {}
        """Path -> generation of an object that cannot be a file here; each is said once."""
        self.unsent = Unsent(complain)
        self._removals = Removals(store, folder, self.unsent)
        self._threads = ThreadPoolExecutor(THREADS)
        self._drafts = itertools.count()
        self._listed_at = 0.0
        self._no_answer: OSError | None = None

    def fill(self) -> None:
        """Bring all that lies in the bucket. Raises OSError where one cannot be brought."""
        self.list()
        for error in self.bring_all(self.there).values():
            raise error

    def round(self, is_last: bool = False) -> bool:
        """Make both alike once; at last nothing more comes down. Whether the bucket did not answer."""
        tree = Tree(self.folder)
        every_s = AWAITED_S if is_under_way(tree.files) else LIST_EVERY_S
        if not is_last and time.monotonic() >= self._listed_at + every_s and self._take(tree):
            tree = Tree(self.folder)
        self.unsent.begin(tree, is_last)
        if is_last:
            self._removals.try_again()
        self.send_all(tree, is_last)
        if self.node == 0:
            # Last: whatever a removal meets, what is new is in the bucket before something old goes.
            self._removals.round(tree, self.alike, self.there, lambda: self.due(tree))
        return self.unsent.is_out

    def due(self, tree: Tree) -> Dict[str, Any]:
        """The files that the bucket lacks and that nobody writes, and what cannot be seen."""
        lacking = {path: stamp for path, stamp in tree.files.items() if not self.is_alike(path, stamp)}
        closed = {path: stamp for path, stamp in lacking.items() if not is_written(inside(self.folder, path))}
        return {**closed, **dict.fromkeys(tree.hidden)}

    def list(self) -> None:
        """Read which objects there are, of those whose names are plain paths below the prefix."""
        self._listed_at = time.monotonic()
        self.there = {path: item for path, item in self.store.items().items() if is_plain(path)}

    def _take(self, tree: Tree) -> bool:
        """List, and take what is due; whether the folder has changed by it."""
        try:
            self.list()
        except (OSError, ValueError) as error:  # a list that is none proves nothing, and holds up nothing
            self.unsent.say("", f"the bucket cannot be listed, so nothing comes down: {error}")
            return False
        for path, why in self.take(tree).items():
            self.unsent.say(path, f"{path} cannot be brought from the bucket: {why}")
        return True

    def take(self, tree: Tree) -> Dict[str, OSError]:
        """Bring what is new in the bucket and due here; remove here what node 0 has removed."""
        here = tree.files
        same = {path for path, (stamp, _) in self.alike.items() if here.get(path) == stamp}
        for path in sorted(same - self.there.keys(), key=by_marker, reverse=True) if self.node else ():
            self.drop(path)
        return self.bring_all(
            path
            for path, item in self.there.items()
            if (path not in self.alike or item.generation != self.alike[path][1])
            and (self.is_idle(path) if path in same else not (path in here or tree.hides(path)))
            and (item.node in ("", "0", str(self.node)) or item.size <= SMALL or self.sees_to(path))
        )

    def drop(self, path: str) -> None:
        """Remove here what went from the bucket."""
        try:
            remove(self.folder, path)
            del self.alike[path]
        except OSError as error:
            self.unsent.say(path, f"{path}, removed from the bucket, is still here: {error}")

    def is_idle(self, path: str) -> bool:
        """Whether a file may be replaced: what is written into the old one would be lost."""
        return not is_written(inside(self.folder, path))

    def sees_to(self, path: str) -> bool:
        """Whether this is where a step is marked once its files are there, and not before."""
        return self.node == 0 and STEP.search(path) is not None

    def send_all(self, tree: Tree, is_last: bool) -> None:
        """Send what has changed and is whole; a marker once all below its folder is sent."""
        here = tree.files
        changed = [path for path, stamp in here.items() if not self.is_alike(path, stamp)]
        due = [path for path in changed if self.unsent.is_due(path, here[path])]
        full = {path: inside(self.folder, path) or self.full(path) for path in due}
        due = [path for path in due if self.whole.may_go(path, full[path], here[path], is_last)]
        stale = self._removals.markers(tree, self.alike, self.there, changed) if self.node == 0 else []
        for path in [one for one in due if any(vouches_for(marker, one) for marker in stale)]:
            self.unsent.wait(path, here[path], "the marker of what was there before cannot be removed")
            due.remove(path)
        does_not_answer = bool(stale) and self._removals.is_out
        self.each(lambda path: self.send(path, here[path]), [one for one in due if not is_marker(one)])
        markers = list(filter(is_marker, due))
        now = Tree(self.folder) if markers else tree  # what a marker vouches for was there before it was seen
        left = [one for one, stamp in now.files.items() if not (is_marker(one) or self.is_alike(one, stamp))]
        for path in markers:
            missing = next((one for one in [*left, *now.hidden] if vouches_for(path, one)), None)
            if missing is None:
                self.send(path, here[path])
            elif is_last:
                self.unsent.wait(path, here[path], f"it would vouch for {missing}")
        self.unsent.is_out = self.unsent.is_out or does_not_answer
        for path in changed if is_last else ():
            if not (self.is_alike(path, here[path]) or self.unsent.knows(path)):
                why = "was being written when its process was killed, or at the end"
                self.unsent.wait(path, here[path], why)
                self.unsent.say(path, f"{path} {why}: the bucket keeps what it has")

    def is_alike(self, path: str, stamp: Any) -> bool:
        """Whether a file is in the bucket as it is, or cannot be."""
        return stamp == self.alike.get(path, (None,))[0] or self.unsent.is_no_object(path)

    def each(self, do: Callable[[str], Any], paths: Iterable[str]) -> List[Any]:
        """Do something for many files at once; what came of each."""
        tasks = [self._threads.submit(do, path) for path in paths]
        while wait(tasks, WATCH_S).not_done:  # a checkpoint may go for minutes, and the next is written then
            self.watch()
        return [task.result() for task in tasks]

    def watch(self) -> None:
        """Note which files are closed by now: after a kill, what was closed before it is whole."""
        for path, stamp in Tree(self.folder).files.items():
            if not self.is_alike(path, stamp):
                self.whole.is_closed(path, inside(self.folder, path) or self.full(path), stamp)

    def send(self, path: str, stamp: Any) -> None:
        """Put a file into the bucket; one that is written again meanwhile comes another time."""
        if not self.store.takes(path):
            self.unsent.no_object(path)
            return
        if self.unsent.is_out:  # a bucket that does not answer need not be asked for each file in turn
            self.unsent.wait(path, stamp, "the bucket does not answer")
            return
        source = inside(self.folder, path)

        def is_whole() -> bool:
            return of(os.fstat(file.fileno())) == stamp and not is_written(source)

        try:
            with open(os.open(source, PLAIN), "rb", buffering=0) as file:
                size, generation = stamp[1], self.store.send(path, file, is_whole)
            self.alike[path] = stamp, generation
            self.there[path] = Item(generation, size, str(self.node))
            self.unsent.sent(path)
        except (FileNotFoundError, Changed):
            return
        except CallFailed as error:
            self.unsent.refused(path, stamp, error)
        except (OSError, ValueError) as error:  # the disk's, or an answer that is none
            self.unsent.fails(path, stamp, str(error))

    def bring_all(self, paths: Iterable[str]) -> Dict[str, OSError]:
        """Take objects into the folder, markers last; why not, of those that cannot be had.

        Once the bucket does not answer, those that follow are not asked for.
        """
        self._no_answer = None
        due = [path for path in paths if self.no_file.get(path) != self.there[path].generation]
        plain = [path for path in due if not is_marker(path)]
        faults = {path: error for path, error in zip(plain, self.each(self.bring, plain)) if error}
        for path in filter(is_marker, due):
            error = None if any(vouches_for(path, one) for one in faults) else self.bring(path)
            if error:
                faults[path] = error
        return faults

    def bring(self, path: str) -> OSError | None:
        """Take an object into the folder; the file appears whole, and nothing is written through a link."""
        if self._no_answer is not None:
            return self._no_answer
        full, generation = self.full(path), self.there[path].generation
        try:
            folder = own_folder(self.folder, os.path.dirname(full))
            draft = os.path.join(folder, DRAFT % next(self._drafts))
            try:
                with open(opened_anew(draft), "wb") as file:
                    is_there = self.store.bring(path, generation, file)
                if is_there:
                    os.replace(draft, full)
                    self.alike[path] = stamp_of(full), generation
            finally:
                unlink(draft)
        except OSError as error:
            if is_no_answer(error):
                self._no_answer = error
            if error.errno not in NO_PLACE:
                return error
            self.no_file[path] = generation
            complain(f"{path} in the bucket cannot be a file here: {error.strerror}")
        return None

    def full(self, path: str) -> str:
        """Where a file lies."""
        return os.path.join(self.folder, path)


def is_plain(path: str) -> bool:
    """Whether an object's name may become a file's: nothing in a bucket is trusted to say where."""
    return not {"", ".", ".."} & set(path.split("/")) and "\0" not in path and not path.endswith(DRAFTS)


def complain(what: str) -> None:
    """Tell the keeper, who writes it into the log."""
    try:
        line = what.replace("\n", "\\n")  # a name may hold any line, the keeper's words too
        sys.stderr.write(f" {line}\n")
        sys.stderr.flush()
    except OSError:
        return  # nobody is listening
