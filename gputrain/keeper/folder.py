"""The folder of one attempt on this machine: what lies in it, how it is written whole, and who holds it.

Standard library only: the client and the supervisor both read and write here.

::

    ROOT/JOB/ATTEMPT/
        order.json          what to run; it appears with the folder and never changes
        state.json          how far it has come; only the supervisor writes it
        lock                held for as long as the supervisor lives
        cancel              there once it is to stop
        kill                there once it is to end without saving; no supervisor starts beside it
        node-<n>.log        what the agent and the ranks of a node wrote
        attempt-<k>/        result documents, and a plain log for each rank, of the k-th restart
        reserve             room on the disk for the last state, should it be full by then
        supervisor.log      empty, unless the supervisor itself went wrong
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from typing import Any

ORDER = "order.json"
STATE = "state.json"
LOCK = "lock"
CANCEL = "cancel"
KILL = "kill"
RESERVE = "reserve"
RESERVE_BYTES = 1 << 14
NODE_LOG = "node-{node_rank}.log"
ATTEMPT = "attempt-{attempt}"
SUPERVISOR_LOG = "supervisor.log"

DRAFT = ".new-"
"""How the name of a folder begins that is being made: no job's name does."""

FOLDER_MODE = 0o700
FILE_MODE = 0o600


def write_whole(path: str, data: bytes) -> None:
    """Write a file of this user alone, which appears whole or not at all."""
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
        with open(path, "rb") as file:
            document = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def is_own(path: str) -> bool:
    """Whether a folder is this user's, and no other user may write into it: what lies in it is run."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def hold(folder: str) -> None:
    """Look after the attempt, as `is_held` tells, for as long as this process and its forks live."""
    import fcntl  # not on Windows, whose clients keep records in buckets

    fd = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    fcntl.flock(fd, fcntl.LOCK_EX)


def is_held(folder: str) -> bool:
    """Whether a supervisor looks after the attempt."""
    import fcntl

    try:
        fd = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
