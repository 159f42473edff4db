"""The folder of one job: what lies in it, how it is written whole, and who holds it.

Standard library only: the client and the supervisor both read and write here.

::

    <root>/<job id>/
        order.json          what was asked for; appears with the folder and never changes
        token               secret that the job's agents share
        state.json          how far it has come; written whole by the supervisor, and by nobody else
        lock                held for as long as a supervisor lives; the kernel lets go of it, whatever happens
        cancel              somebody asked it to stop
        node-<n>.log        what the agent and the ranks of a node wrote, all attempts
        attempt-<k>/        result documents, and a plain log for each rank
        reserve             room on the disk for the last state, should it be full by then
        supervisor.log      empty, unless the supervisor itself went wrong
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ORDER = "order.json"
TOKEN = "token"  # noqa: S105  # a file's name
STATE = "state.json"
LOCK = "lock"
CANCEL = "cancel"
RESERVE = "reserve"
RESERVE_BYTES = 1 << 14
NODE_LOG = "node-{node_rank}.log"
ATTEMPT = "attempt-{attempt}"
SUPERVISOR_LOG = "supervisor.log"

DRAFT = ".new-"
"""How the name of a folder begins that is made, or was withdrawn: no job's name does."""

FOLDER_MODE = 0o700
FILE_MODE = 0o600

_PATIENCE_S = 1.0
"""How long `take` puts up with those who ask: each of them holds the lock for a moment, with others."""


def write_whole(path: str, data: bytes) -> None:
    """Write a file that appears whole or not at all."""
    fresh = f"{path}.{os.urandom(6).hex()}.new"  # threads, too, may write the same
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
            file.write(data)
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def write_json(path: str, document: Mapping[str, Any]) -> None:
    """Write a JSON document that appears whole or not at all."""
    write_whole(path, json.dumps(document).encode())


def read_json(path: str) -> dict[str, Any] | None:
    """The JSON object in a file; None where there is none that can be read."""
    try:
        return read_there(path)
    except OSError:
        return None


def read_there(path: str) -> dict[str, Any] | None:
    """The JSON object in a file; None where there is no such file, or no object in it. Raises OSError."""
    try:
        with open(path, "rb") as file:
            document = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def is_own(path: str) -> bool:
    """Whether a folder is this user's, and nobody else may write into it: what lies in it is run."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def take(folder: str) -> int | None:
    """Take the job: an open file that holds its lock until it is closed, or None where another holds it."""
    import fcntl  # not on Windows, whose clients keep records in buckets

    fd = _kept(os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    until, is_ours = time.monotonic() + _PATIENCE_S, False
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = True
                return fd  # without a call, and so without a moment at which a Ctrl-C may fall
            except BlockingIOError:
                if _is_locked(fd) or time.monotonic() > until:
                    return None
            time.sleep(_PATIENCE_S / 1000)
    finally:
        if not is_ours:
            os.close(fd)


def is_held(folder: str) -> bool:
    """Whether somebody looks after the job. Asking disturbs nobody."""
    try:
        fd = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return _is_locked(fd)
    finally:
        os.close(fd)


def now() -> float:
    """Seconds since 1970, as every document here counts them."""
    return time.time()


def _kept(fd: int) -> int:
    """The open file, at a number that no stream of a child takes, though the caller has closed its own."""
    import fcntl

    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _is_locked(fd: int) -> bool:
    """Whether another holds the lock for good: who only asks holds it together with all who ask."""
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False
