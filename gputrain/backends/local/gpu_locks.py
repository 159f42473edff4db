"""Shares the GPUs of this machine out among jobs: one lock file a GPU, held while the job lives.

The kernel lets go of the locks when the supervisor ends, whatever ends it. Standard library only.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = "/tmp/gputrain-gpus"  # noqa: S108  # one place for all users of the machine; files are opened with O_NOFOLLOW
_FOLDER_MODE = 0o1777
_FILE_MODE = 0o644
_UNSAFE = re.compile(r"[^A-Za-z0-9-]")


class Allotment:
    """The GPUs that a job holds, by node, until it is closed or its process ends."""

    def __init__(self, nodes: Sequence[Sequence[str]], files: Sequence[int]) -> None:
        self.nodes = tuple(tuple(node) for node in nodes)
        self._files = list(files)

    def close(self) -> None:
        """Give the GPUs back."""
        while self._files:
            os.close(self._files.pop())


def allot(uuids: Sequence[str], num_nodes: int, per_node: int, folder: str = FOLDER) -> Allotment | None:
    """``per_node`` free GPUs for each node, or None where there are too few: all or none, so no two jobs
    can hold each other up.
    """
    held: dict[str, int] = {}
    wanted = num_nodes * per_node
    for uuid in uuids:
        if len(held) == wanted:
            break
        file = _lock(uuid, folder)
        if file is not None:
            held[uuid] = file
    if len(held) < wanted:
        for file in held.values():
            os.close(file)
        return None
    names: list[str] = list(held)
    nodes = [names[node * per_node : (node + 1) * per_node] for node in range(num_nodes)]
    return Allotment(nodes, list(held.values()))


def _lock(uuid: str, folder: str) -> int | None:
    import fcntl  # not on Windows, where `Local` says so itself

    file = _open(os.path.join(folder, _UNSAFE.sub("_", uuid)), folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _open(path: str, folder: str) -> int:
    """The lock file, made where there is none; another user's can be read, which is enough to lock it."""
    if not os.path.isdir(folder):
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, _FOLDER_MODE)
    flags = os.O_RDONLY | os.O_NOFOLLOW
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            os.close(os.open(path, flags | os.O_CREAT | os.O_EXCL, _FILE_MODE))
        except FileExistsError:
            continue
