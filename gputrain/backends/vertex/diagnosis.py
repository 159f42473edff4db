"""What Vertex AI's own words about a failed job mean. Pure."""

from __future__ import annotations

import re

import attrs

from gputrain.lifecycle import Failure


@attrs.frozen(kw_only=True)
class Symptom:
    """One row: words of ``customJob.error`` and what they mean."""

    kind: str
    words: re.Pattern[str]
    is_capacity: bool = False


_REPLICA = r"workerpool(?P<pool>\d)-(?P<index>\d+)"

TABLE: tuple[Symptom, ...] = (
    Symptom(
        kind="out_of_memory",
        words=re.compile(
            rf"ran out[ -]of[ -]memory|^Replicas low on memory|{_REPLICA} exited .* status of 137\b"
        ),
    ),
    Symptom(
        kind="image",
        words=re.compile(
            r"artifactregistry\.repositories\.downloadArtifacts|[Ff]ailed to pull image|ImagePullBackOff"
        ),
    ),
    Symptom(
        kind="command",
        words=re.compile(rf"{_REPLICA} exited with a non-zero status of (?P<code>127)\b"),
    ),
    Symptom(
        kind="exit",
        words=re.compile(rf"{_REPLICA} exited with a non-zero status of (?P<code>\d+)"),
    ),
    Symptom(
        kind="stockout_region",
        words=re.compile(r"^Resources are insufficient in region|\bSTOCKOUT\b"),
        is_capacity=True,
    ),
    Symptom(
        kind="quota_region",
        words=re.compile(r"^The following quota metrics exceed quota limits"),
    ),
    Symptom(
        kind="internal",
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
    return row is not None and row.is_capacity


def failure_of(error: str) -> Failure:
    """The failure as Vertex AI tells it; the rank's own document says more, where there is one."""
    row, found = find_symptom(error)
    if row is None or found is None:
        return Failure(kind="unknown", message=error or "Vertex AI gave no reason", exit_code=None)
    groups = found.groupdict()
    pool, index, status = groups.get("pool"), groups.get("index"), groups.get("code")
    node_rank = None if pool is None else int(index or 0) + (1 if pool == "1" else 0)
    head = re.split(r"\s*To find out more", error)[0]
    return Failure(
        kind=row.kind,
        message=head,
        node_rank=node_rank if pool in (None, "0", "1") else None,
        exit_code=int(status) if status else (137 if row.kind == "out_of_memory" else None),
    )
