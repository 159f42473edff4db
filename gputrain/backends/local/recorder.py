"""This machine's side of a record: a folder that is there, or is not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from gputrain.backends.base import Bundle, JobRef
from gputrain.backends.local import start, states
from gputrain.errors import TransientError
from gputrain.records import Code, FolderBoard, Record

RECORDS = ".records"


@attrs.frozen
class FolderRecorder:
    """As of `Recorder`."""

    root: Path
    ref: JobRef
    """The name of any job there, whose last part is filled in."""

    @property
    def board(self) -> FolderBoard:
        """The records beside the jobs."""
        return FolderBoard(self.root / RECORDS)

    @property
    def settles_s(self) -> float:
        """A folder is made once, by whoever is first."""
        return 0.0

    @property
    def turn_s(self) -> float:
        """Whether its asker lives is seen at once."""
        return 0.0

    @property
    def repeats(self) -> bool:
        """A job has one folder."""
        return True

    @property
    def choices(self) -> Mapping[str, str]:
        """A job keeps nothing of the settings; its supervisor starts it again."""
        return {}

    def code(self, code: Code) -> Bundle | None:  # noqa: ARG002  # it lies in somebody's folder
        """Code is not kept here: it runs where it lies."""
        return None

    def name_of(self, record: Record) -> JobRef:
        """The job's name."""
        return attrs.evolve(self.ref, name=record.job_id)

    def there(self, record: Record) -> JobRef | None:
        """The job's name, if it was started; one whose creator died before that is started by a create."""
        path = str(self.root / record.job_id)
        if not os.path.lexists(path):
            return None
        start.refuse_foreign(path)
        start.await_start(path)
        return None if states.is_abandoned(path) else self.name_of(record)

    def clear(self, record: Record) -> bool:
        """Undo a create that was interrupted, at once: there is no job then, and its name is free.

        A job that another process made is left alone.

        Raises:
            TransientError: its processes have not ended yet.
        """
        if not start.withdraw(str(self.root), record.job_id):
            raise TransientError(
                f"{record.job_id} was withdrawn, and its processes have not ended yet",
                fix="wait a moment: without their folder they end by themselves",
            )
        return True
