"""What a disk refuses, as errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from gputrain.errors import CapacityError, PermissionDeniedError

ELSEWHERE = "Local(root=...) or $GPUTRAIN_HOME"
_MODE = 0o700


def make_private(path: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):  # each by itself: mkdir's own parents are for everybody
        with contextlib.suppress(FileExistsError):
            one.mkdir(_MODE)


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Turns what the file system refuses into errors that say what to do.

    Raises:
        CapacityError: the disk is full.
        PermissionDeniedError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CapacityError(
                f"no room for the job in {path}",
                why=f"{error.strerror}",
                fix=f"make room there, or keep jobs elsewhere: {ELSEWHERE}",
                place=path,
                is_lasting=True,
            ) from error
        raise PermissionDeniedError(
            f"the job cannot be kept in {path}",
            why=f"{error.strerror}: {error.filename}",
            fix=f"keep jobs in a folder that you may write: {ELSEWHERE}",
            permission="write",
        ) from error
