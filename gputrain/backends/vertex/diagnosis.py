"""What Vertex AI's own words about a failed job mean. Pure."""

from __future__ import annotations

import re

import attrs

from gputrain import causes
from gputrain.causes import Blame, Cause
from gputrain.lifecycle import Failure


@attrs.frozen(kw_only=True)
class Symptom:
    """One row: words of ``customJob.error`` and what they mean."""

    cause: Cause
    words: re.Pattern[str]


_REPLICA = r"workerpool(?P<pool>\d)-(?P<index>\d+)"

TABLE: tuple[Symptom, ...] = (
    Symptom(
        cause=causes.OUT_OF_MEMORY,
        words=re.compile(
            rf"ran out[ -]of[ -]memory|^Replicas low on memory|{_REPLICA} exited .* status of 137\b"
        ),
    ),
    Symptom(
        cause=causes.IMAGE,
        words=re.compile(
            r"artifactregistry\.repositories\.downloadArtifacts|[Ff]ailed to pull image|ImagePullBackOff"
        ),
    ),
    Symptom(
        cause=causes.COMMAND,
        words=re.compile(rf"{_REPLICA} exited with a non-zero status of (?P<code>127)\b"),
    ),
    Symptom(
        cause=causes.CRASHED,
        words=re.compile(rf"{_REPLICA} exited with a non-zero status of (?P<code>13[2456]|139)\b"),
    ),
    Symptom(
        cause=causes.EXIT,
        words=re.compile(rf"{_REPLICA} exited with a non-zero status of (?P<code>\d+)"),
    ),
    Symptom(
        cause=causes.STOCKOUT_REGION,
        words=re.compile(r"^Resources are insufficient in region|\bSTOCKOUT\b"),
    ),
    Symptom(
        cause=causes.QUOTA_REGION,
        words=re.compile(r"^The following quota metrics exceed quota limits"),
    ),
    Symptom(
        cause=causes.INTERNAL,
        words=re.compile(r"^Internal error occurred"),
    ),
)
"""Rows are tried from the top. Source: Vertex AI troubleshooting page and public threads, read 2026-11-20."""

NO_LOGS = "no log line came although ranks ran: the job's service account may lack roles/logging.logWriter"


def find_symptom(error: str) -> tuple[Symptom | None, re.Match[str] | None]:
    """The row that knows these words."""
    for row in TABLE:
        found = row.words.search(error)
        if found:
            return row, found
    return None, None


def is_capacity(error: str) -> bool:
    """True where the job ended because there were no machines: another region may have some."""
    row, _ = find_symptom(error)
    return row is not None and row.cause.fault is Blame.CAPACITY


def failure_of(error: str) -> Failure:
    """The failure as Vertex AI tells it; the rank's own document says more, where there is one."""
    row, found = find_symptom(error)
    if row is None or found is None:
        return Failure(kind=causes.UNKNOWN.kind, message=error or "Vertex AI gave no reason", exit_code=None)
    groups = found.groupdict()
    pool, index, status = groups.get("pool"), groups.get("index"), groups.get("code")
    node_rank = None if pool is None else int(index or 0) + (1 if pool == "1" else 0)
    head = re.split(r"\s*To find out more", error)[0]
    return Failure(
        kind=row.cause.kind,
        message=head,
        node_rank=node_rank if pool in (None, "0", "1") else None,
        exit_code=int(status) if status else (137 if row.cause is causes.OUT_OF_MEMORY else None),
    )
