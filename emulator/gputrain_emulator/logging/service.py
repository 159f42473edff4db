"""entries:list and entries:write over the book of entries."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.logging.entries import Entry, LogBook
from gputrain_emulator.logging.matching import matcher
from gputrain_emulator.query import FilterError
from gputrain_emulator.rates import platform_rate_limited
from gputrain_emulator.routes import Service
from gputrain_emulator.world import Project, World, api_disabled, permission_denied, unknown_project

MAX_PAGE = 1000
DEFAULT_PAGE = 50
MAX_ENTRY_BYTES = 256 * 1024

_LOG_NAME = re.compile(r"projects/([^/]+)/logs/[A-Za-z0-9/_.%-]{1,511}")

SERVICE = Service(name="logging", style=Style.PLATFORM, is_tabled=True)


class Logs:
    """What the emulated cloud has logged.

    Attributes:
        delay_s: entries written from now on are seen by readers this much later, as ingestion takes its time.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.book = LogBook()
        self.delay_s = 0.0

    def write(
        self,
        project: Project,
        log: str,
        *,
        resource: Mapping[str, Any],
        text: str = "",
        payload: Mapping[str, Any] | None = None,
        severity: str = "DEFAULT",
        labels: Mapping[str, str] | None = None,
        time: float | None = None,
        late_s: float | None = None,
    ) -> None:
        """Write one entry as the service itself does; `late_s` overrides `delay_s`."""
        now = self.world.clock.now()
        document = {
            "logName": f"projects/{project.id}/logs/{log}",
            "resource": dict(resource),
            "timestamp": zulu_time(now if time is None else time),
            "severity": severity,
            "labels": dict(labels or {}),
            **({"textPayload": text} if payload is None else {"jsonPayload": dict(payload)}),
        }
        self.add(project, document, late_s=late_s)

    def add(self, project: Project, document: dict[str, Any], *, late_s: float | None = None) -> None:
        """Keep a LogEntry document."""
        now = self.world.clock.now()
        document.setdefault("timestamp", zulu_time(now))
        document["receiveTimestamp"] = zulu_time(now)
        if document.get("severity") == "DEFAULT":
            del document["severity"]  # the zero of an enum is not printed
        delay = self.delay_s if late_s is None else late_s
        self.book.add(project.id, document, visible=now + delay)


@SERVICE.method("logging.entries.list", permission="-")
def list_entries(call: Call) -> dict[str, Any]:
    asked = call.body
    logs = call.world.part(Logs)
    names = [*asked.get("resourceNames", ()), *(f"projects/{name}" for name in asked.get("projectIds", ()))]
    if not names:
        raise ApiError(400, "resource_names cannot be empty.")
    projects = [_project(call, name, "logging.logEntries.list") for name in names]
    for project in projects:
        if call.world.rates.count("logging.reads", project.id, ""):
            raise platform_rate_limited("logging", "logging.reads", project.number)
    wanted = _filter(asked.get("filter", ""))
    newest_first = _order(asked.get("orderBy", ""))
    size = asked.get("pageSize", 0)
    if size < 0:
        raise ApiError(400, "page_size must be greater than or equal to 0")
    found = logs.book.read(
        tuple(project.id for project in projects), now=call.world.clock.now(), newest_first=newest_first
    )
    after = _position(asked.get("pageToken", ""))
    return _page(found, wanted, min(size or DEFAULT_PAGE, MAX_PAGE), after, newest_first=newest_first)


@SERVICE.method("logging.entries.write", permission="-")
def write_entries(call: Call) -> dict[str, Any]:
    asked = call.body
    entries = [_whole(entry, asked) for entry in asked.get("entries", ())]
    if not entries:
        raise ApiError(400, "Log entries missing.")
    projects = [_writable(call, entry) for entry in entries]
    if not asked.get("dryRun"):
        logs = call.world.part(Logs)
        for project, entry in zip(projects, entries):
            logs.add(project, entry)
    return {}


def _page(
    found: Iterable[Entry],
    wanted: Callable[[Mapping[str, Any]], bool],
    size: int,
    after: tuple[int, str, int] | None,
    *,
    newest_first: bool,
) -> dict[str, Any]:
    entries: list[Mapping[str, Any]] = []
    last: Entry | None = None
    for entry in found:
        here = (entry.time_ns, entry.insert_id, entry.serial)
        if after is not None and (here >= after if newest_first else here <= after):
            continue
        if not wanted(entry.document):
            continue
        if len(entries) == size and last is not None:
            token = json.dumps([last.time_ns, last.insert_id, last.serial])
            return {"entries": entries, "nextPageToken": base64.urlsafe_b64encode(token.encode()).decode()}
        entries.append(entry.document)
        last = entry
    return {"entries": entries} if entries else {}


def _position(token: str) -> tuple[int, str, int] | None:
    if not token:
        return None
    try:
        time_ns, insert_id, serial = json.loads(base64.b64decode(token, altchars=b"-_", validate=True))
        return int(time_ns), str(insert_id), int(serial)
    except (binascii.Error, ValueError, TypeError):
        raise ApiError(400, "page_token is invalid") from None


def _filter(text: str) -> Callable[[Mapping[str, Any]], bool]:
    try:
        return matcher(text)
    except FilterError as error:
        raise ApiError(400, f"Unparseable filter: {error}") from None


def _order(text: str) -> bool:
    words = text.split()
    if words not in ([], ["timestamp"], ["timestamp", "asc"], ["timestamp", "desc"]):
        raise ApiError(400, 'order_by must be one of "timestamp asc" or "timestamp desc"')
    return words[1:] == ["desc"]


def _whole(entry: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with what the request says for all of them."""
    labels = {**asked.get("labels", {}), **entry.get("labels", {})}
    whole = {
        "logName": asked.get("logName", ""),
        "resource": asked.get("resource", {}),
        **entry,
        **({"labels": labels} if labels else {}),
    }
    if not _LOG_NAME.fullmatch(whole["logName"]):
        raise ApiError(400, f"Log name '{whole['logName']}' is not valid.")
    if not whole["resource"].get("type"):
        raise ApiError(400, "A monitored resource must be specified for each log entry.")
    size = len(json.dumps(whole))
    if size > MAX_ENTRY_BYTES:
        raise ApiError(400, f"Log entry with size {size / 1024:.1f}K exceeds maximum size of 256.0K")
    return whole


def _writable(call: Call, entry: Mapping[str, Any]) -> Project:
    return _project(call, entry["logName"].partition("/logs/")[0], "logging.logEntries.create")


def _project(call: Call, name: str, permission: str) -> Project:
    kind, _, ident = name.partition("/")
    project = call.world.find_project(ident) if kind == "projects" else None
    if project is None:
        raise unknown_project(ident or name, Style.PLATFORM)
    if "logging" not in project.apis:
        raise api_disabled("logging", project, Style.PLATFORM)
    if not call.caller.may(permission):
        raise permission_denied(permission, f"projects/{project.id}", "logging", Style.PLATFORM, "")
    return project
