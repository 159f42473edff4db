"""The folder of one attempt on this machine: what lies in it and who holds it.

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

import os

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
