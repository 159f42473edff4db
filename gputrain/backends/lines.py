"""Reads what node agents write: one JSON object a line, as the entrypoint's contract has it."""

from __future__ import annotations

import json

from gputrain.backends.base import LogLine
from gputrain.times import moment_of


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
