"""What is due of a backend: an answer is of the kind that the protocol says, or is told to be none.

Whatever is not due is a TypeError, which names the backend within `seam.of`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import TypeVar

from gputrain.backends.base import JobRef
from gputrain.fields import shown

T = TypeVar("T")
NONE = type(None)


def due(what: str, value: T, *kinds: type) -> T:
    """What a backend has given, where it is of a kind that is due; ``what`` says of which call it is.

    Raises:
        TypeError: it is of none of them.
    """
    if not isinstance(value, kinds):
        raise _misfit(what, value, " or ".join("None" if one is NONE else one.__name__ for one in kinds))
    return value


def all_due(what: str, values: Iterable[T], kind: type) -> tuple[T, ...]:
    """As `due`, of each of many."""
    return tuple(due(f"one of {what}", one, kind) for one in due(what, values, Iterable))


def seconds(what: str, value: float) -> float:
    """As `due`, of a number of seconds."""
    if isinstance(value, bool) or not 0 <= due(what, value, int, float) < math.inf:
        raise _misfit(what, value, "a number of seconds from 0 on")
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
