"""Where the backends of a trainer keep their records, and which of these boards decides."""

from __future__ import annotations

from collections.abc import Mapping

from gputrain.backends import seam
from gputrain.backends.abilities import Recorder
from gputrain.backends.base import Backend
from gputrain.errors import RequestError
from gputrain.records import Board, BucketBoard, FolderBoard, MemoryBoard, Record, surely


class Boards:
    """The boards of some backends; one is home to the jobs that are submitted through them."""

    def __init__(self, backends: Mapping[str, Backend]) -> None:
        self._backends = backends
        self._own = MemoryBoard()
        self._recorders: dict[str, Recorder | None] = {}

    def recorder(self, backend: str) -> Recorder | None:
        """What a backend does for its records; None for one that keeps none, or is not here."""
        if backend not in self._recorders:  # to look a protocol over takes longer than all else here
            self._recorders[backend] = seam.recorder(self._backends.get(backend), backend)
        return self._recorders[backend]

    def has(self, backend: str) -> bool:
        """Whether it is one of these backends."""
        return backend in self._backends

    def of(self, backend: str) -> Board | None:
        """Where a backend keeps records."""
        found = self.recorder(backend)
        return None if found is None else found.board

    def all(self, near: str = "") -> tuple[Board, ...]:
        """Each board once, home first: a bucket where there is one, as a folder is one machine's alone.

        Of buckets it is the one whose name comes first, whichever order the backends are named in.

        Args:
            near: the backend whose board comes before all others.
        """
        found = {board.name: board for name in self._backends if (board := self.of(name)) is not None}
        buckets = sorted(name for name, board in found.items() if isinstance(board, BucketBoard))
        first = [board.name] if (board := self.of(near)) is not None else []
        return tuple(found[name] for name in dict.fromkeys([*first, *buckets, *found])) or (self._own,)

    def named(self, name: str) -> Board | None:
        """The board of that name, if a backend here has it."""
        return next((board for board in self.all() if is_named(board, name)), None)

    def at_home(self, copy: Record) -> Record | None:
        """The record that a copy is of, as it is at its home; None where it is there no more.

        Raises:
            RequestError: that is where no backend here can write.
        """
        home = self.named(copy.home)
        found = None if home is None else home.read(copy.job_id)
        if home is None or (found is None and isinstance(home, FolderBoard)):
            why = "that folder is another machine's"
            if home is None:
                why = f"its backends keep records in {', '.join(one.name for one in self.all())}"
            raise RequestError(
                f"{copy.job_id} is kept in {copy.home}, where none of these backends may write",
                why=why,
                fix=f"watch it by its name, or take another key; it starts again where {copy.home} is kept",
            )
        return found

    def is_anothers(self, copy: Record, record: Record) -> bool:
        """Whether what lies where a copy of a record is to lie is another job's: no older copy of it."""
        home = self.named(copy.home)
        if home is None:
            return True
        if isinstance(home, FolderBoard):  # another machine's may bear the same name
            return (home.name, copy.created_at) != (record.home, record.created_at)
        return home.name != record.home and surely(lambda: home.read(copy.job_id)) is not None


def is_named(board: Board, name: str) -> bool:
    """Whether a board is known by that name, or was to a release before."""
    return board.name == name or (isinstance(board, FolderBoard) and board.was_named(name))
