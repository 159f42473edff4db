"""The states of a job, and the one function that moves between them.

A look at a job may see nothing (a lost connection, a partial list, a state nobody has met before).
Such a look is an `Observation` without a state, and moves nothing; there is no UNKNOWN state.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from gputrain.fields import refused


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
_WAITING = frozenset({State.QUEUED, State.PROVISIONING})


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


def is_moment(one: object, field: attrs.Attribute[Any], value: datetime | None) -> None:
    """Have a value hold no time without a zone, which no other is earlier or later than. Raises SpecError."""
    if value is not None and value.utcoffset() is None:
        fix = "datetime.fromtimestamp(seconds, timezone.utc)"
        raise refused(field.name, value, "a moment with its time zone", fix, what=type(one).__name__)


@attrs.frozen(kw_only=True)
class Observation:
    """What one look at a job saw; ``state`` is None where nothing could be seen."""

    state: State | None = None
    detail: str = ""
    """A few words for a person: what the platform says, in its own terms."""
    failure: Failure | None = None
    started_at: datetime | None = attrs.field(default=None, validator=is_moment)
    """When ranks first ran; timezone-aware."""
    ended_at: datetime | None = attrs.field(default=None, validator=is_moment)
    attempt: int = 0
    """0 for the first start, one more with each restart."""
    ran_before_s: float = 0.0
    """How long the attempts before this one ran."""
    spent_before_usd: float = 0.0
    """What they cost, at their dated prices: an attempt may have fewer nodes, or another place."""
    price_usd_h: float | None = None
    """What all machines of this attempt cost, at its dated price; None: not told by a look."""
    ran_s: float = 0.0
    """How long this attempt has run, once it is over: what it took of the time limit."""
    ask: str = ""
    """Which ask of its record this is about, by its nonce; empty: it tells of none."""
    place: str = ""
    """Where the job is now, in the platform's words; empty where it cannot move."""
    exit_code: int | None = None
    raw: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    """What the platform answered."""


def advance(state: State, seen: State | None) -> State:
    """The state after a look that saw ``seen``.

    A terminal state never changes, a failed look changes nothing, a stop that was asked for is not
    forgotten because a late look still sees ranks, and ranks that were running and now wait were interrupted.

    >>> advance(State.RUNNING, None)
    <State.RUNNING: 'running'>
    >>> advance(State.RUNNING, State.QUEUED)
    <State.INTERRUPTED: 'interrupted'>
    >>> advance(State.SUCCEEDED, State.RUNNING)
    <State.SUCCEEDED: 'succeeded'>
    """
    if seen is None or state.is_terminal:
        return state
    if state is State.STOPPING and not seen.is_terminal:
        return state
    if state is State.RUNNING and seen in _WAITING:
        return State.INTERRUPTED
    return seen
