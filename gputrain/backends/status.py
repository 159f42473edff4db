"""What a keeper tells of its job, read anew: from a folder or a bucket, where anybody may have written.

A field that is not what it should be is as good as not there, and a document of an unknown schema or phase
tells of no phase.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.results import read_result, text, whole
from gputrain.causes import Cause
from gputrain.entrypoint import contract
from gputrain.keeper import status as words
from gputrain.lifecycle import State
from gputrain.times import moment_of

CAUSES: Mapping[str, Cause] = {
    words.CANCELLED: causes.CANCELLED,
    words.RUN_LIMIT: causes.TIME_LIMIT,
    words.WAIT_LIMIT: causes.WAIT_LIMIT,
    words.BOOT: causes.BOOT,
    words.ABSENT: causes.BOOT,
    words.RESTARTED: causes.REBOOTED,
    words.HALTED: causes.STOPPED,
}
"""Why a keeper ended its agents, or did not start them. The other words say of themselves nothing of the job:
a peer ended, or the machine goes down."""

_STATES = {
    words.WAITING: State.QUEUED,
    words.STARTING: State.PROVISIONING,
    words.RUNNING: State.RUNNING,
    words.STOPPING: State.STOPPING,
    words.INTERRUPTED: State.INTERRUPTED,
}


@attrs.frozen(kw_only=True)
class Status:
    """How far a job, or one node of it, has come."""

    raw: Mapping[str, Any]
    phase: str
    """One of `PHASES`; empty where that cannot be read."""
    why: str
    attempt: int
    message: str
    exit_code: int | None
    lost: Mapping[int, int]
    """The nodes whose agent a signal ended, and the signal."""
    lost_lines: int
    """Lines of the log that the keeper could not write down."""
    unsaved: str
    """What the job wrote and no bucket has; empty where that is nothing."""
    disk_was_full: bool
    result: Mapping[str, Any]
    """The agent's result document, where the keeper passes it on."""

    def at(self, phase: str) -> datetime | None:
        """When it came to a phase."""
        return moment_of(self.raw.get(f"{phase}_at"))

    @property
    def is_over(self) -> bool:
        """Whether its keeper has ended."""
        return self.phase == words.ENDED

    @property
    def has_started(self) -> bool:
        """Whether ranks run, or ran."""
        return self.phase in (words.RUNNING, words.STOPPING, words.ENDED)

    @property
    def cause(self) -> Cause | None:
        """Why the keeper ended it; None where it did not."""
        return CAUSES.get(self.why) if self.is_over else None

    @property
    def state(self) -> State | None:
        """What that is for the job as a whole; None where it cannot be read."""
        if not self.is_over:
            return _STATES.get(self.phase)
        if self.exit_code == 0:
            return State.SUCCEEDED
        return self.cause.state if self.cause else State.FAILED


def read(told: Mapping[str, Any]) -> Status:
    """The status that a document tells."""
    is_known = told.get("schema") == words.SCHEMA and told.get("phase") in words.PHASES
    lost = told.get("lost")
    pairs = lost.items() if isinstance(lost, Mapping) else ()
    return Status(
        raw=told,
        phase=told["phase"] if is_known else "",
        why=text(told.get("why")) or "",
        attempt=whole(told.get("attempt")) or 0,
        message=text(told.get("message")) or "",
        exit_code=whole(told.get("exit_code")),
        lost={int(node): whole(number) or 0 for node, number in pairs if re.fullmatch("[0-9]{1,6}", node)},
        lost_lines=max(0, whole(told.get("lost_lines")) or 0),
        unsaved=text(told.get("unsaved")) or "",
        disk_was_full=told.get("disk_was_full") is True,
        result=read_result(told.get("result")),
    )


def losses(told: Sequence[Status], results: Sequence[Mapping[str, Any]]) -> str:
    """What the job wrote and is not kept, which is said however well it ended; empty where all is."""
    counts = [one.get(contract.R_LOST_LINES, 0) for one in results]
    lines = sum(counts) + sum(one.lost_lines for one in told)
    of_log = f"{lines} lines of the log were lost: they could not be written" if lines else ""
    if not lines and any(one.disk_was_full for one in told):
        of_log = "the disk was full, and lines of the log may be lost"
    return "; ".join(filter(None, [*(one.unsaved for one in told), of_log]))
