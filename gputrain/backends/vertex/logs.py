"""Log lines from Cloud Logging: of images as they are, of jobs that wrote nothing, and of Vertex AI itself.

In order, none twice, late ones included.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from gputrain.backends.agent_reports import whole
from gputrain.backends.base import LogLine, LogPage
from gputrain.fields import invalid
from gputrain.google import Api, GoogleClient, filter_text
from gputrain.google.errors import ErrorDetails, classify
from gputrain.retry import LOOK
from gputrain.times import moment_of

FEW = 10
"""Lines of the service that say what it waits for: the steps of one start are five."""

PAGE_SIZE = 1000
MOST_PAGES = 5
"""Pages read in one go; what is left comes with the next."""

CALL_S = 1.2
"""Seconds of one call: all jobs together stay within Cloud Logging's reads a minute.

Source: 60 reads a minute for a project, by general knowledge, not re-read.
"""

OVERLAP = timedelta(seconds=30)
"""Entries arrive out of order: each look goes back so far and leaves out what it knows already.

By when they were received: a replica's clock may be off, and a rank may stamp its lines itself.
"""

CLOCKS_OFF = timedelta(days=1)
"""How far back such a stamp may lie; Cloud Logging drops those that lie a day ahead."""

_TASK = re.compile(r"workerpool([01])-(\d+)")


def read(access: GoogleClient, resource: str, asked_at: float, cursor: str) -> LogPage:
    """Lines of a job since ``cursor``, or since it was asked for.

    Raises:
        SpecError: the cursor is not one of this log.
        AccessError, TransientError: as Cloud Logging answers.
    """
    since, known, token = _read_cursor(cursor)
    start = since or datetime.fromtimestamp(asked_at, timezone.utc) - CLOCKS_OFF
    wanted = f'{_filter(resource)} AND receiveTimestamp>="{start.isoformat()}"'
    wanted += f' AND timestamp>="{(start - CLOCKS_OFF).isoformat()}"'  # by which they are found quickly
    fresh: list[Mapping[str, Any]] = []
    reached = ""
    for _ in range(MOST_PAGES):
        body = _entries(access, wanted, "timestamp asc", PAGE_SIZE, token)
        for entry in body.get("entries", ()):
            reached = str(entry.get("timestamp") or reached)
            if (mark := _mark(entry)) not in known:
                known[mark] = [reached, _received(entry)]
                fresh.append(entry)
        token = str(body.get("nextPageToken", ""))
        if not token:
            break
    if not fresh and not token:
        return LogPage(lines=(), cursor=cursor)
    cursor = _write_cursor(start, known, token, reached)
    return LogPage(lines=tuple(map(_line, fresh)), cursor=cursor, has_more=bool(token))


def near_end(access: GoogleClient, resource: str, lines: int) -> str:
    """The cursor from the last so many lines on; empty where one answer cannot hold so many."""
    if not 0 < lines <= PAGE_SIZE:
        return ""
    entries = _entries(access, _filter(resource), "timestamp desc", lines, "").get("entries") or []
    if len(entries) < lines:
        return ""
    since = min(_parse(_received(entry)) for entry in entries)
    return json.dumps({"since": since.isoformat(), "known": {}, "page": ""})


def are_empty(access: GoogleClient, resource: str) -> bool:
    """True where not a single line of the job's replicas came; the service writes a few of its own."""
    wanted = f'{_filter(resource)} AND resource.labels.task_name!="service"'
    return not _entries(access, wanted, "timestamp asc", 1, "").get("entries")


def of_service(access: GoogleClient, resource: str) -> str:
    """What Vertex AI itself wrote of the job last, a refusal before the steps it goes through; or nothing."""
    wanted = f'{_filter(resource)} AND resource.labels.task_name="service"'
    entries = _entries(access, wanted, "timestamp desc", FEW, "").get("entries") or []
    said = [_line(entry).message for entry in entries]
    refusals = (one for one in said if classify(ErrorDetails(message=one)))
    return next(refusals, said[0] if said else "")


def _filter(resource: str) -> str:
    return f'resource.type="ml_job" AND resource.labels.job_id={filter_text(resource.rpartition("/")[2])}'


def _entries(access: GoogleClient, wanted: str, order: str, size: int, token: str) -> dict[str, Any]:
    body = {
        "resourceNames": [f"projects/{access.project}"],
        "filter": wanted,
        "orderBy": order,
        "pageSize": size,
        **({"pageToken": token} if token else {}),
    }
    url = access.url(Api.LOGGING) + "/v2/entries:list"
    return access.post(url, action="read the logs", json=body, policy=LOOK)


def _line(entry: Mapping[str, Any]) -> LogLine:
    payload = entry.get("jsonPayload") or {}
    message = payload.get("message") if payload else entry.get("textPayload", "")
    if message is None:
        message = json.dumps(payload, sort_keys=True)
    rank = payload.get("rank")
    task = _TASK.fullmatch(_task(entry))
    node_rank = int(task[1]) + int(task[2]) if task else None
    return LogLine(
        message=str(message).rstrip("\n"),
        rank=whole(int(rank) if isinstance(rank, float) and rank.is_integer() else rank),
        node_rank=node_rank,
        severity=str(entry.get("severity") or "INFO"),
        time=moment_of(entry.get("timestamp")),
    )


def _task(entry: Mapping[str, Any]) -> str:
    """``workerpool1-0``: which replica wrote it. Source: what ``gcloud ai custom-jobs stream-logs`` shows."""
    labels, of_resource = entry.get("labels") or {}, (entry.get("resource") or {}).get("labels") or {}
    return str(labels.get("ml.googleapis.com/task_name") or of_resource.get("task_name") or "")


def _mark(entry: Mapping[str, Any]) -> str:
    identity = f"{entry.get('insertId', '')} {entry.get('timestamp', '')} {entry.get('logName', '')}"
    return base64.b64encode(hashlib.sha256(identity.encode()).digest()[:6]).decode()


Known = list[str]
"""When an entry was written, and when it was received."""


def _read_cursor(cursor: str) -> tuple[datetime | None, dict[str, Known], str]:
    if not cursor:
        return None, {}, ""
    try:
        read = json.loads(cursor)
        return _parse(read["since"]), dict(read["known"]), str(read["page"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        allowed, fix = "a LogPage's cursor", "pass it on unchanged"
        raise invalid("cursor", cursor[:40], allowed, fix) from error


def _received(entry: Mapping[str, Any]) -> str:
    return str(entry.get("receiveTimestamp") or entry["timestamp"])


def _write_cursor(start: datetime, known: Mapping[str, Known], token: str, reached: str) -> str:
    """Where to continue. Pages that are left keep their filter, so its start moves after they are read.

    Entries come in the order of time, so those long before the one that was reached come no more.
    """
    newest = max((_parse(received) for _, received in known.values()), default=start)
    recent = max(newest - OVERLAP, start)
    late = _parse(reached) - OVERLAP if token and reached else datetime.max.replace(tzinfo=timezone.utc)
    kept = {mark: at for mark, at in known.items() if _parse(at[1]) >= recent or _parse(at[0]) >= late}
    since = start if token else recent
    return json.dumps({"since": since.isoformat(), "known": kept, "page": token})


def _parse(text: object) -> datetime:
    moment = moment_of(text)
    if moment is None:
        raise ValueError(f"no moment: {str(text)[:40]!r}")
    return moment


def is_continued(cursor: str) -> bool:
    """True where a reader begins, or the last page ended before the entries did."""
    return not cursor or bool(_read_cursor(cursor)[2])
