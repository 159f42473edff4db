"""What node agents write, the same on every platform: lines of a log, and a result, read as a `Failure`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from gputrain import causes
from gputrain.backends.base import LogLine
from gputrain.causes import Cause
from gputrain.entrypoint import contract
from gputrain.lifecycle import Failure
from gputrain.spec import format_duration
from gputrain.times import moment_of

KINDS: Mapping[str, Cause] = {
    contract.EXCEPTION: causes.EXCEPTION,
    contract.SIGNAL: causes.SIGNAL,
    contract.EXIT: causes.EXIT,
    contract.LEFT_EARLY: causes.LEFT_EARLY,
    contract.OUT_OF_MEMORY: causes.OUT_OF_MEMORY,
    contract.HANG: causes.HANG,
    contract.NODE_MISSING: causes.NODE_MISSING,
    contract.NODE_LOSS: causes.NODE_LOST,
    contract.STOP_IGNORED: causes.STOPPED,
    contract.REFUSED: causes.ENVIRONMENT,
}
"""The agents' words, all of them; one of a later agent keeps its own."""
SIGNALS: Mapping[str, Cause] = {"SIGKILL": causes.KILLED} | dict.fromkeys(
    ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT"), causes.CRASHED
)
LONG_S = 60.0
"""A silence that is worth telling at the end of a job."""
_ABOUT_NODES = (contract.NODE_LOSS, contract.NODE_MISSING)


def first_cause(documents: Sequence[Mapping[str, Any]]) -> Failure | None:
    """The failure that the result documents of one attempt blame; None where none blames anything.

    The agents agree, unless one of them was cut off: then what a rank did comes before the loss of a node,
    and the lower node rank speaks first.
    """
    ordered = sorted(documents, key=lambda one: int(one.get(contract.R_NODE_RANK) or 0))
    blamed = [cause for one in ordered if isinstance(cause := one.get(contract.R_CAUSE), Mapping)]
    of_ranks = [cause for cause in blamed if cause.get(contract.C_KIND) not in _ABOUT_NODES]
    chosen = (of_ranks or blamed)[:1]
    return _failure(chosen[0]) if chosen else None


def silence(documents: Sequence[Mapping[str, Any]]) -> str:
    """How long no rank had said anything when all were asked to stop; empty where that was not long."""
    ages = [age for one in documents if isinstance(age := one.get(contract.R_SILENT_S), (int, float))]
    youngest = min(ages, default=0.0)
    told = format_duration(timedelta(seconds=int(youngest)))
    return f"no rank had said anything for {told}" if youngest >= LONG_S else ""


def _failure(cause: Mapping[str, Any]) -> Failure:
    return Failure(
        kind=_kind(cause),
        message=str(cause.get(contract.C_MESSAGE) or ""),
        rank=_number(cause.get(contract.C_RANK)),
        node_rank=_number(cause.get(contract.C_NODE_RANK)),
        exit_code=_number(cause.get(contract.C_EXIT_CODE)),
        traceback=str(cause.get(contract.C_TRACEBACK) or ""),
        last_lines=tuple(str(line) for line in cause.get(contract.C_LAST_LINES) or ()),
    )


def _kind(cause: Mapping[str, Any]) -> str:
    kind = str(cause.get(contract.C_KIND) or "")
    known = KINDS.get(kind)
    if known is causes.SIGNAL:
        known = SIGNALS.get(str(cause.get(contract.C_SIGNAL)), known)
    return kind if known is None else known.kind


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def read_line(text: str, node_rank: int) -> LogLine:
    """One line of an agent's log; text that is no JSON object is a message as it stands.

    >>> read_line('{"message": "loading", "rank": 3, "severity": "INFO"}', node_rank=1).rank
    3
    """
    try:
        fields = json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return LogLine(message=text, node_rank=node_rank)
    rank = fields.get("rank")
    return LogLine(
        message=str(fields.get("message", text)),
        rank=rank if isinstance(rank, int) else None,
        node_rank=node_rank,
        severity=str(fields.get("severity", "INFO")).upper(),
        time=moment_of(fields.get("time")),
    )
