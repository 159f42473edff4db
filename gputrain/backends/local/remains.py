"""What clients and agents left in the folder of jobs that died, or were ended, in the midst of something."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil

from gputrain.keeper import folder

DRAFT_S = 60.0
"""After how long a folder that never got its name is taken for one whose maker has died."""

_FIRST = folder.ATTEMPT.format(attempt=0)


def clear_drafts(root: str) -> None:
    """Remove what clients left that died in the midst of a write."""
    with contextlib.suppress(OSError):
        for name in os.listdir(root):
            path = os.path.join(root, name)
            if not name.startswith(folder.DRAFT) or not folder.is_own(path):
                continue
            with contextlib.suppress(OSError):
                if os.lstat(path).st_mtime < folder.now() - DRAFT_S and not folder.is_held(path):
                    remove(path)


def clear_late_results(path: str) -> bool:
    """Remove what an agent made late whose job was withdrawn before it was up; whether that was all there is.

    It is nobody's. A job that is made there meanwhile stays whole.
    """
    there = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if os.listdir(there) != [_FIRST]:
            return False
        draft = os.path.join(os.path.dirname(path), f"{folder.DRAFT}{secrets.token_hex(8)}")
        os.rename(_FIRST, draft, src_dir_fd=there)
    finally:
        os.close(there)
    with contextlib.suppress(OSError):
        os.rmdir(path)
    return True


def remove(path: str) -> None:
    """Remove a folder, as far as that can be done."""
    try:
        shutil.rmtree(path, ignore_errors=True)
    except OSError as error:  # Python 3.11 closes a file twice where a Ctrl-C falls as it does so
        if error.__context__ is not None and not isinstance(error.__context__, Exception):
            raise error.__context__ from None
