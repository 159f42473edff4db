"""The control groups of an emulated machine's containers: named after it, and removed with it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

ROOT = "/sys/fs/cgroup"


def hierarchies() -> list[int]:
    """Descriptors of this computer's hierarchies, to be taken before its file system is left."""
    if not os.path.isdir(ROOT):
        return []
    places = [ROOT, *(entry.path for entry in os.scandir(ROOT) if entry.is_dir(follow_symlinks=False))]
    return [os.open(place, os.O_DIRECTORY) for place in places]


def remove(name: str, tops: Sequence[int]) -> None:
    """Remove the group `name` and those below it; every process in them has ended."""
    for top in tops:
        with contextlib.suppress(OSError):  # there was none, or it is not ours to write
            for _, folders, _, parent in os.fwalk(name, topdown=False, dir_fd=top):
                for folder in folders:
                    os.rmdir(folder, dir_fd=parent)
            os.rmdir(name, dir_fd=top)
