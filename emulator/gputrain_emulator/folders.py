"""Folders of what guests and clients write, and their removal."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any


class OwnFolder:
    """A folder under the system's temporary one, which goes with this process unless that is killed."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="gputrain-emulator-files-"))
        self.close = weakref.finalize(self, remove, self.path)


def remove(folder: Path) -> None:
    """Remove a folder with all that guests left in it; the kernel leaves folders that nobody may read."""

    def open_up(_function: Any, path: str, _error: Any) -> None:
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, 0o700)
                shutil.rmtree(path, ignore_errors=True)
            elif path != str(folder):
                os.chmod(os.path.dirname(path), 0o700)
                os.unlink(path)

    if folder.exists():
        shutil.rmtree(folder, onerror=open_up)
