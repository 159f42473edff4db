"""What agents and supervisors write: log lines, results, stacks and status, the same on every platform."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import attrs

from gputrain import causes
from gputrain.backends.base import Bundle, LogLine, LogPage
from gputrain.causes import Cause
from gputrain.concurrency import gather
from gputrain.lifecycle import Failure, State
from gputrain.runtime import contract
from gputrain.spec import TrainingSpec, format_duration
from gputrain.times import moment_of

SIGNALS: Mapping[str, Cause] = {"SIGKILL": causes.KILLED} | dict.fromkeys(
    ("SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT"), causes.CRASHED
)
LONG_S = 60.0
"""A silence that is worth telling at the end of a job."""
LONGEST_S = 1e9
"""Nothing is silent for longer; what says so is no silence."""
_ABOUT_NODES = (contract.NODE_LOSS, contract.NODE_MISSING)


MOST_BYTES = 8 << 20
"""Of an answer; the stacks of a node's ranks take some kilobytes each."""


def read_result(document: object) -> Mapping[str, Any]:
    """A result document, read where anybody may have written it.

    A field that is not what an agent writes there is as good as not there; of what is no document nothing is.

    >>> read_result({"node_rank": [1], "state": "done", "stop": True})
    {'state': 'done'}
    """
    return _fields(document, _RESULT) or {}


def whole(value: object) -> int | None:
    """A count, a rank or a code; None for anything else."""
    is_one = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31
    return int(value) if is_one else None  # type: ignore[call-overload]


def text(value: object) -> str | None:
    """A text that can be written down; None for anything else."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else None


def _seconds(value: object) -> float | None:
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LONGEST_S
    return float(value) if is_one else None  # type: ignore[arg-type]


def _lines(value: object) -> list[str] | None:
    return [line for one in value if (line := text(one)) is not None] if isinstance(value, list) else None


def _fields(document: object, forms: Mapping[str, Callable[[object], object]]) -> dict[str, Any] | None:
    if not isinstance(document, Mapping):
        return None
    found = ((name, read(document[name])) for name, read in forms.items() if name in document)
    return {name: value for name, value in found if value is not None}


_CAUSE = {
    contract.C_KIND: text, contract.C_RANK: whole, contract.C_NODE_RANK: whole, contract.C_EXIT_CODE: whole,
    contract.C_SIGNAL: text, contract.C_MESSAGE: text, contract.C_TRACEBACK: text,
    contract.C_LAST_LINES: _lines,
}  # fmt: skip
_STOP = {"reason": text, "node_rank": whole}
_RESULT: Mapping[str, Callable[[object], object]] = {
    contract.R_NODE_RANK: whole,
    contract.R_STATE: text,
    contract.R_EXIT_CODE: whole,
    contract.R_ATTEMPT: text,
    contract.R_CAUSE: lambda document: _fields(document, _CAUSE),
    contract.R_STOP: lambda document: _fields(document, _STOP),
    contract.R_LOST_LINES: whole,
    contract.R_SILENT_S: _seconds,
    contract.R_STARTED_AT: text,
    contract.R_ENDED_AT: text,
}


def first_cause(documents: Sequence[Mapping[str, Any]]) -> Failure | None:
    """The failure that the result documents of one attempt blame; None where none blames anything.

    The agents agree, unless one of them was cut off: then what a rank did comes before the loss of a node,
    and the lower node rank speaks first.
    """
    ordered = sorted(map(read_result, documents), key=lambda one: one.get(contract.R_NODE_RANK, 0))
    blamed = [cause for one in ordered if (cause := one.get(contract.R_CAUSE))]
    of_ranks = [cause for cause in blamed if cause.get(contract.C_KIND) not in _ABOUT_NODES]
    chosen = (of_ranks or blamed)[:1]
    return _failure(chosen[0]) if chosen else None


def silence(documents: Sequence[Mapping[str, Any]]) -> str:
    """How long no rank had said anything when all were asked to stop; empty where that was not long."""
    ages = [age for one in documents if (age := one.get(contract.R_SILENT_S)) is not None]
    youngest = min(ages, default=0.0)
    quiet_for = format_duration(timedelta(seconds=int(youngest)))
    return f"no rank had said anything for {quiet_for}" if youngest >= LONG_S else ""


def asked_by(documents: Sequence[Mapping[str, Any]]) -> str:
    """Who asked ranks to stop that have saved, as far as their agents know."""
    reasons = (one.get(contract.R_STOP, {}).get("reason") for one in documents)
    return f"it was stopped: {next(filter(None, reasons), 'from outside')}"


def _failure(cause: Mapping[str, Any]) -> Failure:
    return Failure(
        kind=_kind(cause),
        message=cause.get(contract.C_MESSAGE, ""),
        rank=cause.get(contract.C_RANK),
        node_rank=cause.get(contract.C_NODE_RANK),
        exit_code=cause.get(contract.C_EXIT_CODE),
        traceback=cause.get(contract.C_TRACEBACK, ""),
        last_lines=tuple(cause.get(contract.C_LAST_LINES, ())),
    )


def _kind(cause: Mapping[str, Any]) -> str:
    """The agents' words are kinds of our own; one of a later agent keeps its own."""
    kind: str = cause.get(contract.C_KIND, "")
    if kind == contract.SIGNAL:
        return SIGNALS.get(cause.get(contract.C_SIGNAL, ""), causes.SIGNAL).kind
    return kind


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


@attrs.frozen
class LoggedLine:
    """One line of a node's log, and where it stands."""

    moment: float
    """Seconds since 1970; never before the entry above it, so that no node's lines change their order."""
    node_rank: int
    end: int
    """Offset in the node's log after this line."""
    line: LogLine


class LogStore(Protocol):
    """Where the nodes of a job write their logs, in parts of which each is named by where it begins."""

    settles_s: float
    """How long lines of several nodes wait for each other; a later one is shown after younger ones."""

    def read(self, attempt: str, rank: int, part: int, first: int, most: int) -> bytes:
        """So many bytes of a part of a node's log from ``first`` on; none where there is no such part."""

    def is_finished(self, size: int) -> bool:
        """Whether a part of this size is finished: the next one begins where it ends."""

    def parts(self, attempt: str) -> Mapping[int, Sequence[tuple[int, int]]]:
        """Where each part of an attempt's logs begins and its size, oldest first, by node."""


PAGE_BYTES = 1_000_000
"""How much of a node's log one page reads: a page stays small, however much a rank writes."""

MOST_PART = 8 << 20
"""Of a part, when the last lines are looked for; a node writes at most half of that at once."""

SLACK_S = 1.0
"""How far ahead of this machine's a clock may be."""

Place = tuple[int, int]
"""Offsets in a node's log: where the part begins that is read, and how far it was read."""


@attrs.frozen(kw_only=True)
class NodeLogs:
    """The log of a job, attempt by attempt, with the lines of all nodes in the order of time."""

    store: LogStore
    attempts: Sequence[str]
    """Those that may have written, the present one last."""
    nodes: int
    """How many the largest of them had."""
    is_over: bool
    """Whether the present attempt writes no more."""
    now: Callable[[], float] = time.time

    def read(self, cursor: str) -> LogPage:
        """The next page.

        Args:
            cursor: ``attempt/part.offset,part.offset...``, one pair a node; empty: the beginning.
        """
        begin = [(0, 0)] * self.nodes
        index, at = self._read_cursor(cursor) or (0, begin)
        while True:
            page = self._page(self.attempts[index], at)
            if page.lines or index == len(self.attempts) - 1:
                return page
            index, at = index + 1, begin

    def _page(self, attempt: str, at: Sequence[Place]) -> LogPage:
        is_past = self.is_over or attempt != self.attempts[-1]
        known = float("inf") if is_past or self.nodes == 1 else self.now() - self.store.settles_s
        read = gather(lambda rank: self._read(attempt, rank, *at[rank], is_past=is_past), range(self.nodes))
        # Beyond the last line read of a node that has more, another node's lines would come too early.
        known = min([known, *(lines[-1].moment for lines, has_more, _ in read if has_more and lines)])
        found = [one for lines, *_ in read for one in lines if one.moment <= known]
        shown = sorted(found, key=lambda one: (one.moment, one.node_rank, one.end))
        ends = {one.node_rank: one.end for one in shown}
        after = []
        for rank, (*_, parts) in enumerate(read):
            end = ends.get(rank, at[rank][1])
            after.append((max(part for part in parts if part <= end), end))
        return LogPage(lines=tuple(one.line for one in shown), cursor=_cursor(attempt, after))

    def _read(
        self, attempt: str, rank: int, part: int, offset: int, *, is_past: bool
    ) -> tuple[list[LoggedLine], bool, list[int]]:
        """A page of one node's log, whether there may be more, and where the parts begin of which it is."""
        data, parts, most = b"", [part], PAGE_BYTES
        while True:
            end = offset + len(data)
            data += self.store.read(attempt, rank, parts[-1], end - parts[-1], most - len(data))
            end, has_more = offset + len(data), len(data) == most
            if has_more and b"\n" not in data and most < MOST_PART:
                most += PAGE_BYTES
            elif has_more or not self.store.is_finished(end - parts[-1]):
                break
            else:
                parts.append(end)
        if has_more or not is_past:  # a half line waits for its end
            data = data[: data.rfind(b"\n") + 1] or data[: len(data) * has_more]
        return _logged(data, rank, offset, self.now() + SLACK_S), has_more, parts

    @property
    def begin(self) -> str:
        """The cursor of the present attempt's beginning."""
        return _cursor(self.attempts[-1], [(0, 0)] * self.nodes)

    def near_end(self, lines: int) -> str:
        """A cursor for `read` after which so many lines of each node are left that has more; empty where the
        present attempt is to be read from its beginning."""
        attempt = self.attempts[-1]
        parts = self.store.parts(attempt)
        at = gather(lambda rank: self._near_end(attempt, rank, parts.get(rank, ()), lines), range(self.nodes))
        return _cursor(attempt, at) if any(offset for _, offset in at) else ""

    def _near_end(self, attempt: str, rank: int, parts: Sequence[tuple[int, int]], lines: int) -> Place:
        left = max(1, lines)
        for begin, size in reversed(parts):
            first = max(0, size - MOST_PART)
            data = self.store.read(attempt, rank, begin, first, size - first)
            count = data.count(b"\n")
            if count >= left or first:
                rest = data.split(b"\n", max(count - left, bool(first)))[-1]
                return begin, begin + first + len(data) - len(rest)
            left -= count
        return 0, 0

    def _read_cursor(self, cursor: str) -> tuple[int, list[Place]] | None:
        """The attempt, by its place among those that wrote, and the places of its nodes."""
        found = re.fullmatch(r"([a-z0-9]{1,18})/((?:\d{1,15}\.\d{1,15},?)*)", cursor)
        pairs = [pair.split(".") for pair in found[2].split(",") if pair] if found else []
        if found is None or len(pairs) != self.nodes:
            return None
        if found[1] not in self.attempts:  # it never ran, and another has taken its place
            return len(self.attempts) - 1, [(0, 0)] * self.nodes
        places = [(min(int(part), int(offset)), int(offset)) for part, offset in pairs]
        return self.attempts.index(found[1]), places


def _cursor(attempt: str, places: Iterable[Place]) -> str:
    return f"{attempt}/" + ",".join(f"{part}.{offset}" for part, offset in places)


def _logged(data: bytes, node_rank: int, offset: int, latest: float) -> list[LoggedLine]:
    """The lines of a part of a node's log which begins at an offset.

    Args:
        latest: a stamp beyond it is of a clock that is off: a node's may be, by hours, and a rank may stamp
            its lines itself. Such a line stands where the one before it does.
    """
    entries, moment = [], 0.0
    for raw in io.BytesIO(data):
        offset += len(raw)
        line = read_line(raw.rstrip(b"\n").decode("utf-8", "backslashreplace"), node_rank)
        stamp = line.time.timestamp() if line.time else 0.0
        moment = max(moment, stamp) if stamp <= latest else moment
        entries.append(LoggedLine(moment, node_rank, offset, line))
    return entries


def of_agents(spec: TrainingSpec) -> dict[str, str]:
    """The variables; what is not asked for is left out."""
    asked = {contract.LAUNCHER: spec.launcher.value, contract.LOG_FORMAT: "json"}
    if spec.keep_outputs:
        asked[contract.KEEP_OUTPUTS] = "1"
    if spec.min_nodes is not None:
        asked[contract.MIN_NODES] = str(spec.min_nodes)
    if spec.hang_timeout is not None:
        asked[contract.HANG_TIMEOUT] = f"{spec.hang_timeout.total_seconds():g}"
    return asked


def of_code(spec: TrainingSpec, bundle: Bundle, bucket: str, addresses: Mapping[str, str]) -> dict[str, Any]:
    """What the loader and the setup get as arguments.

    Args:
        bucket: the name of the one that the code lies in.
        addresses: of Cloud Storage and Secret Manager.
    """
    return {
        "storage": addresses["storage"],
        "secretmanager": addresses["secretmanager"],
        "bucket": bucket,
        "object": bundle.location.removeprefix(f"gs://{bucket}/"),
        "sha256": bundle.sha256,
        "argv": list(bundle.argv),
        "requirements": list(spec.requirements),
        "secrets": dict(spec.secrets),
    }


def as_word(document: Any) -> str:
    """JSON as an argument that is read as text only: Kubernetes would replace $(NAME).

    >>> "$" in as_word({"argv": ["$(HOME)"]})
    False
    """
    return json.dumps(document, sort_keys=True).replace("$", "\\u0024")


def node_of(name: str, nonce: str) -> int | None:
    """The node whose answer has this name; None for anything else."""
    found = re.search(rf"stacks-{re.escape(nonce)}-(\d{{1,6}})\.json$", name)
    return int(found[1]) if found else None


def read_standings(content: bytes, node_rank: int) -> tuple[Mapping[str, Any], ...]:
    """The ranks of an answer, read where anybody may have written it; what is no rank of one is left out.

    >>> read_standings(b'{"ranks": [{"rank": 1, "trace": "x"}, {"rank": "two"}]}', 0)[0]["rank"]
    1
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return ()
    ranks = document.get("ranks") if isinstance(document, dict) else None
    found = [_fields(one, _STANDING) or {} for one in (ranks if isinstance(ranks, list) else ())]
    return tuple({**_NOWHERE, "node_rank": node_rank, **one} for one in found if "rank" in one)


def _recorded(groups: object) -> dict[str, Any] | None:
    if not isinstance(groups, dict):
        return None
    found = {str(text(group)): _fields(value, _COUNTS) or {} for group, value in groups.items()}
    return {group: {"done": 0, "name": "", **one} for group, one in found.items() if "begun" in one}


_COUNTS = {"begun": whole, "done": whole, "name": text}
_NOWHERE = {"local_rank": 0, "collective": "", "place": "", "trace": "", "absent": "", "recorded": {}}
_STANDING: Mapping[str, Callable[[object], object]] = {
    "rank": whole, "local_rank": whole, "collective": text, "place": text, "trace": text, "absent": text,
    "recorded": _recorded,
}  # fmt: skip


CAUSES: Mapping[str, Cause] = {
    contract.CANCELLED: causes.CANCELLED,
    contract.RUN_LIMIT: causes.TIME_LIMIT,
    contract.WAIT_LIMIT: causes.WAIT_LIMIT,
    contract.BOOT: causes.BOOT,
    contract.ABSENT: causes.BOOT,
    contract.RESTARTED: causes.REBOOTED,
    contract.HALTED: causes.STOPPED,
    contract.SUPERSEDED: causes.CANCELLED,
}
"""Why a supervisor ended its agents, or did not start them; what is superseded is an attempt, not its job.
The other words say nothing of the job: a peer ended, or the machine goes down."""

_STATES = {
    contract.WAITING: State.QUEUED,
    contract.STARTING: State.PROVISIONING,
    contract.RUNNING: State.RUNNING,
    contract.STOPPING: State.STOPPING,
    contract.INTERRUPTED: State.INTERRUPTED,
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
    """Lines of the log that the supervisor could not write down."""
    disk_was_full: bool
    result: Mapping[str, Any]
    """The agent's result document, where the supervisor passes it on."""

    def at(self, phase: str) -> datetime | None:
        """When it came to a phase."""
        return moment_of(self.raw.get(f"{phase}_at"))

    @property
    def is_over(self) -> bool:
        """Whether its supervisor has ended."""
        return self.phase == contract.ENDED

    @property
    def has_started(self) -> bool:
        """Whether ranks run, or ran."""
        return self.phase in (contract.RUNNING, contract.STOPPING, contract.ENDED)

    @property
    def cause(self) -> Cause | None:
        """Why the supervisor ended it; None where it did not."""
        return CAUSES.get(self.why) if self.is_over else None

    @property
    def state(self) -> State | None:
        """What that is for the job as a whole; None where it cannot be read."""
        if not self.is_over:
            return _STATES.get(self.phase)
        if self.exit_code == 0:
            return State.SUCCEEDED
        return self.cause.state if self.cause else State.FAILED


def read(document: Mapping[str, Any]) -> Status:
    """The status that a document tells."""
    is_known = document.get("schema") == contract.SCHEMA and document.get("phase") in contract.PHASES
    lost = document.get("lost")
    pairs = lost.items() if isinstance(lost, Mapping) else ()
    return Status(
        raw=document,
        phase=document["phase"] if is_known else "",
        why=text(document.get("why")) or "",
        attempt=whole(document.get("attempt")) or 0,
        message=text(document.get("message")) or "",
        exit_code=whole(document.get("exit_code")),
        lost={int(node): whole(number) or 0 for node, number in pairs if re.fullmatch("[0-9]{1,6}", node)},
        lost_lines=max(0, whole(document.get("lost_lines")) or 0),
        disk_was_full=document.get("disk_was_full") is True,
        result=read_result(document.get("result")),
    )


def losses(agents: Sequence[Status], results: Sequence[Mapping[str, Any]]) -> str:
    """What of the log is not kept, which is said however well the job ended; empty where all is."""
    counts = [one.get(contract.R_LOST_LINES, 0) for one in results]
    lines = sum(counts) + sum(one.lost_lines for one in agents)
    if lines:
        return f"{lines} lines of the log were lost: they could not be written"
    is_full = any(one.disk_was_full for one in agents)
    return "the disk was full, and lines of the log may be lost" if is_full else ""
