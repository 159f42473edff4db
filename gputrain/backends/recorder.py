"""What a backend does for the records of its jobs, so that any process may go on with one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from gputrain.backends.base import Bundle, JobRef
from gputrain.records import Board, Code, Record


class Recorder(Protocol):
    """Knows what a record of this backend's speaks of: its names, its code, whether it is there."""

    @property
    def board(self) -> Board:
        """Where records are kept."""
        ...

    @property
    def settles_s(self) -> float:
        """How long after its asker went away something may still come that was asked for.

        0 where a create twice is a create once, and seen at once.
        """
        ...

    @property
    def turn_s(self) -> float:
        """How old an ask without an answer must be before another process goes on with it.

        Longer than whoever asked can still be at it, unless `repeats`.
        """
        ...

    @property
    def repeats(self) -> bool:
        """Whether to ask again under an ask's nonce is that same ask, so that two who do so make one job."""
        ...

    @property
    def choices(self) -> Mapping[str, str]:
        """The settings that a job keeps: another process starts it again only under the same ones."""
        ...

    def code(self, code: Code) -> Bundle | None:
        """The code of that hash, where this backend would look for it; None where it cannot be told."""
        ...

    def name_of(self, record: Record) -> JobRef:
        """The name of the job that a record is about."""
        ...

    def there(self, record: Record) -> JobRef | None:
        """The job's name, if what was asked for last is there. One look, by the names that were asked for.

        Raises:
            CapacityError: it was taken, and came to nothing.
        """
        ...

    def clear(self, record: Record) -> bool:
        """Remove what was asked for last, and see that it is gone.

        False where nothing was seen, and something may still come.

        Raises:
            TransientError: something of it may be there still.
        """
        ...


@runtime_checkable
class KeepsRecords(Protocol):
    """Writes down what is asked of it, so that any process may go on with a job."""

    @abstractmethod
    def recorder(self) -> Recorder | None:
        """What knows those records; None where no place for them was named, which is enough to watch."""
