"""The folder of everything that guests write, and its removal."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any


def remove(folder: Path) -> None:
    """Remove a guest's disk; the kernel leaves folders in it that nobody may read."""

    def open_up(_function: Any, path: str, _error: Any) -> None:
        with contextlib.suppress(FileNotFoundError):
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, 0o700)
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.chmod(os.path.dirname(path), 0o700)
                os.unlink(path)

    if folder.exists():
        shutil.rmtree(folder, onerror=open_up)
