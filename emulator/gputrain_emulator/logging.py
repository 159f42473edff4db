"""Cloud Logging v2: entries written, found again by filter and order, some of them late."""

from __future__ import annotations

import itertools
import json
import re
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from gputrain_emulator import messages, query
from gputrain_emulator.call import Call, page
from gputrain_emulator.clock import parse_ns, zulu_time
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.query import ORDER, FilterError, Leaf, Test
from gputrain_emulator.routes import Service
from gputrain_emulator.world import Project, World, api_disabled, permission_denied, unknown_project

_SEVERITIES = "DEFAULT DEBUG INFO NOTICE WARNING ERROR CRITICAL ALERT EMERGENCY"
SEVERITIES = {name: 100 * rank for rank, name in enumerate(_SEVERITIES.split())}


def format_ns(time_ns: int) -> str:
    """RFC 3339 in UTC with as many digits as are needed: 0, 3, 6 or 9."""
    seconds, fraction = divmod(time_ns, 10**9)
    text = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    digits = f"{fraction:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}Z" if digits else f"{text}Z"


@dataclass(frozen=True, kw_only=True, order=True)
class Entry:
    """One entry; `document` is the LogEntry as JSON, `visible` when a reader may first see it."""

    time_ns: int
    insert_id: str
    serial: int
    document: Mapping[str, Any] = field(compare=False)
    visible: float = field(compare=False)


_TIMES = ("timestamp", "receiveTimestamp")


def matcher(text: str) -> Test:
    """A test of LogEntry documents; raises ApiError 400 for what no entry could ever be asked."""
    try:
        return query.compiled(text, _leaf)
    except FilterError as error:
        raise ApiError(400, f"Unparseable filter: {error}") from None


def _leaf(leaf: Leaf) -> Test:
    if leaf.operator not in ORDER or leaf.value == "*":
        what = f"{leaf.operator}*" if leaf.operator in ORDER else leaf.operator or "a bare word"
        raise ApiError(501, f"Log filters with {what} are not implemented by this emulator.")
    name = messages.camel(leaf.path[0])
    if name not in messages.message("logging.LogEntry").by_name:
        raise FilterError(f"Field not found: '{leaf.path[0]}'.")
    path, part = (name, *leaf.path[1:]), leaf.value.lower()
    if leaf.operator == ":":
        return lambda entry: any(part in str(value).lower() for value in _find(entry, path))
    wanted, order = _comparable(name, leaf.value), ORDER[leaf.operator]
    return lambda entry: any(order(_comparable(name, str(value)), wanted) for value in _find(entry, path))


def _comparable(name: str, text: str) -> int | str:
    """Severities in their order, times as moments, and anything else as text whatever its case."""
    if name == "severity":
        if text.upper() not in SEVERITIES:
            raise FilterError(f"Invalid severity '{text}'")
        return SEVERITIES[text.upper()]
    if name not in _TIMES:
        return text.lower()
    try:
        return parse_ns(text)
    except ValueError:
        raise FilterError(f"Invalid timestamp '{text}'") from None


def _find(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """What lies at the path; lists along it are looked into, and a label's key may hold the dots itself."""
    if isinstance(value, list):
        for item in value:
            yield from _find(item, path)
    elif not path:
        yield value
    elif isinstance(value, Mapping):
        for taken in range(1, len(path) + 1):
            key = ".".join(path[:taken])
            if key in value:
                yield from _find(value[key], path[taken:])


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
        self.delay_s = 0.0
        self._by_project: dict[str, list[Entry]] = {}
        self._keys: set[tuple[str, int, str]] = set()
        self._serials = itertools.count(1)

    def add(self, project: Project, document: dict[str, Any]) -> None:
        """Keep a LogEntry document; one of the same log, time and insertId is that one."""
        now, serial = self.world.clock.now(), next(self._serials)
        insert_id = str(document.get("insertId") or f"emulated{serial:012d}")
        time_ns = parse_ns(str(document.get("timestamp") or zulu_time(now)))
        key = (str(document["logName"]), time_ns, insert_id)
        if key in self._keys:
            return
        self._keys.add(key)
        kept = {**document, "insertId": insert_id, "timestamp": format_ns(time_ns)}
        kept["receiveTimestamp"] = zulu_time(now)
        if kept.get("severity") == "DEFAULT":
            del kept["severity"]  # the zero of an enum is not printed
        visible = now + self.delay_s
        entry = Entry(time_ns=time_ns, insert_id=insert_id, serial=serial, document=kept, visible=visible)
        insort(self._by_project.setdefault(project.id, []), entry)

    def read(self, projects: Iterable[str], *, now: float) -> list[Entry]:
        """What can be seen at `now`, in the order of time."""
        found = (entry for project in projects for entry in self._by_project.get(project, ()))
        return sorted(entry for entry in found if entry.visible <= now)


@SERVICE.method("logging.entries.list", permission="-")
def list_entries(call: Call) -> dict[str, Any]:
    asked = call.body
    logs = call.world.part(Logs)
    names = [*asked.get("resourceNames", ()), *(f"projects/{name}" for name in asked.get("projectIds", ()))]
    if not names:
        raise ApiError(400, "resource_names cannot be empty.")
    projects = [_project(call, name, "logging.logEntries.list") for name in names]
    for project in projects:
        call.world.rates.charge("logging.reads", project)
    wanted = matcher(asked.get("filter", ""))
    newest_first = _order(asked.get("orderBy", ""))
    size = asked.get("pageSize", 0)
    if size < 0:
        raise ApiError(400, "page_size must be greater than or equal to 0")
    found = logs.read([project.id for project in projects], now=call.world.clock.now())
    try:
        shown, token = page(
            (entry for entry in found if wanted(entry.document)),
            lambda entry: [entry.time_ns, entry.insert_id, entry.serial],
            asked.get("pageToken", ""),
            min(size or DEFAULT_PAGE, MAX_PAGE),
            newest_first=newest_first,
        )
    except ValueError:
        raise ApiError(400, "page_token is invalid") from None
    entries = {"entries": [entry.document for entry in shown]} if shown else {}
    return {**entries, **({"nextPageToken": token} if token else {})}


@SERVICE.method("logging.entries.write", permission="-")
def write_entries(call: Call) -> dict[str, Any]:
    asked = call.body
    entries = [_whole(entry, asked) for entry in asked.get("entries", ())]
    if not entries:
        raise ApiError(400, "Log entries missing.")
    permission = "logging.logEntries.create"
    projects = [_project(call, entry["logName"].partition("/logs/")[0], permission) for entry in entries]
    if not asked.get("dryRun"):
        logs = call.world.part(Logs)
        for project, entry in zip(projects, entries):
            logs.add(project, entry)
    return {}


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


SERVICES = (SERVICE,)
