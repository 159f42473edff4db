"""The states of a job, and why one ended without success.

A look at a job may see nothing (a lost connection, a partial list, an unknown state).
Such a look has no state, and moves nothing; there is no UNKNOWN state.
"""

from __future__ import annotations

import enum

import attrs


class State(str, enum.Enum):
    """Where a job stands; each is also its own text: ``job.state == "succeeded"``.

    ::

        QUEUED -> PROVISIONING -> RUNNING -> SUCCEEDED | FAILED | CANCELLED | EXPIRED
                                  RUNNING -> INTERRUPTED -> QUEUED      preempted or host lost; starts again
                                  any     -> STOPPING    -> CANCELLED   somebody asked it to stop
    """

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    def __str__(self) -> str:
        return self.value

    @property
    def is_terminal(self) -> bool:
        """True where nothing can follow."""
        return self in _TERMINAL


_TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.EXPIRED})


@attrs.frozen(kw_only=True)
class Failure:
    """Why a job ended without success: the first cause, never its echoes on other ranks."""

    kind: str
    """A word of the entrypoint's contract: ``exception``, ``signal``, ``exit``, ``node_missing``..."""
    message: str = ""
    rank: int | None = None
    node_rank: int | None = None
    exit_code: int | None = None
    traceback: str = ""
    last_lines: tuple[str, ...] = ()
