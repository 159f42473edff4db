"""Where records are kept: one writer at a time, told apart by the generation that was read."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import attrs

from gputrain.errors import TransientError
from gputrain.gcp import MissingError
from gputrain.gcp.shared import Kept
from gputrain.records.record import CANCELLED, WITHDRAWN, Record
from gputrain.threads import new_lock

T = TypeVar("T")

TRIES = 5
MOST = 2000
"""Records that are kept in memory, some KB each: the job of one that is forgotten is only watched."""


class OvertakenError(TransientError):
    """Somebody else has written the record since it was read: it is their turn."""

    kind = "overtaken"


@attrs.frozen(kw_only=True)
class Entry:
    """A record on a board, as a list of them tells."""

    job_id: str
    backend: str
    """As of `Record.backend`."""
    place: str
    """Where it was placed first there, as its name tells."""
    written_at: float
    """When it was asked for first."""


@attrs.frozen(kw_only=True)
class Note:
    """What is kept beside the records: of an experiment, say, that many jobs are of."""

    content: bytes
    generation: int


@runtime_checkable
class Board(Protocol):
    """Keeps records."""

    @property
    def name(self) -> str:
        """The same for everybody who shares the board; folders of two machines may bear one."""
        ...

    def read(self, job_id: str) -> Record | None:
        """The record as it is now; None where there is none.

        Raises:
            RecordError: what is there is none; `DamagedRecordError` where that was proved.
            AccessError, RequestError: it may not be read, or the bucket is not ours.
        """
        ...

    def write(self, record: Record) -> Record:
        """Write a record over the one that was read, or anew where its generation is 0; as it then is.

        Raises:
            OvertakenError: somebody else has written it since.
        """
        ...

    def remove(self, record: Record) -> None:
        """Remove the record, unless somebody else has written it since."""
        ...

    def entries(self, name: str = "") -> tuple[Entry, ...]:
        """The records of jobs whose id begins so, the latest job first."""
        ...

    def note(self, name: str) -> Note | None:
        """What is kept beside the records under a name; None where nothing is."""
        ...

    def keep(self, name: str, content: bytes, generation: int) -> None:
        """Keep it under a name, over the note of that generation; 0 where there was none.

        Raises:
            OvertakenError: somebody else has written it since.
        """
        ...


def dated(record: Record, at: float) -> Record:
    """The record that, as its latest ask, bears the time at which it was written."""
    record = record if record.created_at else attrs.evolve(record, created_at=at)
    last = record.last
    if last is None or last.at:
        return record
    return attrs.evolve(record, asks=(*record.asks[:-1], attrs.evolve(last, at=at)))


def overtaken(job_id: str) -> OvertakenError:
    """The error for a record that is not what was read."""
    return OvertakenError(
        f"another process has gone on with {job_id}", fix="submit again: it takes up what that one has made"
    )


def surely(ask: Callable[[], T | None]) -> T | None:
    """What is there; None, or that its bucket is gone, only where two answers say so: one proves little.

    For whoever deletes, ends or makes something because there is none.
    """
    with contextlib.suppress(MissingError):
        if (found := ask()) is not None:
            return found
    return ask()


def ended(board: Board, job_id: str, why: str) -> Record | None:
    """Write down that nobody starts a job again; the record as it then is, None where there is none.

    An end that was written before stays, unless it is a cancel now, and its key would have it made anew.

    Raises:
        OvertakenError: others go on with it again and again.
    """
    for _ in range(TRIES):
        record = surely(lambda: board.read(job_id))
        is_asked_anew = why == CANCELLED and record is not None and record.is_free
        if record is None or not (record.over in ("", WITHDRAWN) or is_asked_anew):
            return record
        with contextlib.suppress(OvertakenError):
            return board.write(attrs.evolve(record, over=why))
    raise overtaken(job_id)


class MemoryBoard:
    """For backends that keep no records: what this process asked for, and nobody else can know."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = new_lock()
        self._kept: Kept[str, Record] = Kept(idle_s=math.inf, most=MOST)
        self._generations = 0
        self._notes: dict[str, Note] = {}

    @property
    def name(self) -> str:
        """Nobody else has this board."""
        return f"memory:{id(self)}"

    def read(self, job_id: str) -> Record | None:
        """As of `Board`."""
        with self._lock:
            found = self._kept.get(job_id)
        return found and attrs.evolve(found, age_s=max(0.0, self._now() - found.written_at))

    def write(self, record: Record) -> Record:
        """As of `Board`."""
        with self._lock:
            there = self._kept.get(record.job_id)
            if (there.generation if there else 0) != record.generation:
                raise overtaken(record.job_id)
            self._generations += 1
            now = self._now()
            fresh = attrs.evolve(dated(record, now), generation=self._generations, written_at=now, age_s=0.0)
            return self._kept.put(record.job_id, fresh)

    def remove(self, record: Record) -> None:
        """As of `Board`."""
        with self._lock:
            there = self._kept.get(record.job_id)
            if there is not None and there.generation == record.generation:
                self._kept.drop(record.job_id)

    def entries(self, name: str = "") -> tuple[Entry, ...]:  # noqa: ARG002  # as of `Board`
        """As of `Board`; whoever keeps nothing lists nothing."""
        return ()

    def note(self, name: str) -> Note | None:
        """As of `Board`."""
        return self._notes.get(name)

    def keep(self, name: str, content: bytes, generation: int) -> None:
        """As of `Board`."""
        with self._lock:
            there = self._notes.get(name)
            if (there.generation if there else 0) != generation:
                raise overtaken(name)
            self._notes[name] = Note(content=content, generation=generation + 1)
