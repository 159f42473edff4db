"""What is due of a backend: an answer is of the kind that the protocol says, or is told to be none.

Whatever is not due is a TypeError, which names the backend within `guard.of`.
"""

from __future__ import annotations

import numbers
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TypeVar

from gputrain.backends.base import Bundle, JobRef, LogLine, LogPage, Request
from gputrain.errors import CapacityError, GputrainError, QuotaExceededError, Scope, TransientError
from gputrain.fields import shown
from gputrain.lifecycle import Failure, Observation, State
from gputrain.planning import Candidate, Fact, Verdict

T = TypeVar("T")
NONE = type(None)
LONGEST_S = 1e9
"""Of a pause, in seconds: a date that lies further ahead may be none."""
_NUMBER = (int, float, numbers.Real)
_MANY = (tuple, list)
_PARTS: dict[type, dict[str, tuple[type, ...]]] = {
    JobRef: {**dict.fromkeys(("backend", "project", "place", "name"), (str,)), "made_at": _NUMBER},
    Bundle: {"location": (str,), "argv": _MANY, "sha256": (str,), "content": (bytes,)},
    Request: {"ref": (JobRef,), "candidate": (Candidate,), "body": (Mapping,), "names": _MANY},
    LogLine: {"message": (str,), "rank": (*_NUMBER, NONE), "time": (datetime, NONE)},
    LogPage: {"cursor": (str,)},
    Failure: dict.fromkeys(("kind", "message", "traceback"), (str,)),
    Observation: {
        "state": (State, NONE),
        "failure": (Failure, NONE),
        **dict.fromkeys(("detail", "ask", "place"), (str,)),
        **dict.fromkeys(("attempt", "ran_before_s", "spent_before_usd", "ran_s"), _NUMBER),
        "price_usd_h": (*_NUMBER, NONE),
    },
    Fact: {
        "verdict": (Verdict,),
        "obtainability": (*_NUMBER, NONE),
        "readings": _MANY,
        **dict.fromkeys(("note", "absent_why", "availability"), (str,)),
    },
    GputrainError: {**dict.fromkeys(("what", "why", "fix", "kind"), (str, NONE)), "scope": (Scope, NONE)},
    QuotaExceededError: {**dict.fromkeys(("metric", "where"), (str, NONE)), "limit": (*_NUMBER, NONE)},
    CapacityError: {"place": (str, NONE)},
}
"""Of which kinds the parts of a value are, as far as something is done with them before they are shown."""


def due(what: str, value: T, *kinds: type) -> T:
    """What a backend has given, where it is of a kind that is due; ``what`` says of which call it is.

    Raises:
        TypeError: it is of none of them, or something in it is of none that is due there.
    """
    if not isinstance(value, kinds):
        raise _misfit(what, value, " or ".join("None" if one is NONE else one.__name__ for one in kinds))
    for kind in type(value).__mro__:
        for name, part in _PARTS.get(kind, {}).items():
            due(f"{what}.{name}", getattr(value, name, None), *part)
    return value


def all_due(what: str, values: Iterable[T], kind: type) -> tuple[T, ...]:
    """As `due`, of each of many."""
    return tuple(due(f"one of {what}", one, kind) for one in due(what, values, Iterable))


def error_due(error: GputrainError) -> None:
    """As `due`, of an error of ours that a backend has raised: what it says decides what is done next."""
    what = type(error).__name__
    due(what, error, GputrainError)
    if isinstance(error, CapacityError):
        all_due(f"{what}.zones_available", getattr(error, "zones_available", ()), str)
    if isinstance(error, TransientError):
        for name in ("retry_after_s", "refills_in_s"):
            pause_s = getattr(error, name, None)
            if pause_s is not None:
                seconds(f"{what}.{name}", pause_s)


def seconds(what: str, value: float) -> float:
    """As `due`, of a number of seconds that somebody may wait."""
    if isinstance(value, bool) or not 0 <= due(what, value, *_NUMBER) <= LONGEST_S:
        raise _misfit(what, value, f"a number of seconds from 0 to {LONGEST_S:g}")
    return value


def named(what: str, ref: JobRef, its: Collection[str], job_id: str = "") -> JobRef:
    """A job's name, where it is one of these backends' and ends in the job's id. Errors as of `due`.

    By any other name the job would be looked for in vain, and made once more.
    """
    if due(what, ref, JobRef).backend not in its:
        raise _misfit(f"{what}.backend", ref.backend, " or ".join(map(repr, sorted(its))))
    if job_id and ref.name != job_id:
        raise _misfit(f"{what}.name", ref.name, f"the job's id, {job_id!r},")
    return ref


def _misfit(what: str, value: object, wanted: str) -> TypeError:
    return TypeError(f"{what} is {shown(value)}, where {wanted} is due")
