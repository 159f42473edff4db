"""The way of a request through the emulator, the same for HTTP and for batches."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from gputrain_emulator import faults, messages, partial, schema, world
from gputrain_emulator.call import Call, Method, Reply
from gputrain_emulator.errors import ApiError, Style, bad_request
from gputrain_emulator.exchanges import Request, RequestLog, Seen
from gputrain_emulator.routes import Answer, Routes

LOOKED_AT = re.compile(r"compute\.\w*[oO]perations\.get|compute\.instances\.get|aiplatform\.customJobs\.get")
UNDER_WAY = frozenset(
    ["PENDING", "PROVISIONING", "STAGING", "STOPPING", "REPAIRING"]
    + [f"JOB_STATE_{state}" for state in ("QUEUED", "PENDING", "RUNNING", "CANCELLING")]
)


class Dropped(Exception):
    """The connection is to be closed without a reply."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What goes back: the reply, and how the wire is to misbehave."""

    reply: Reply
    wire: Sequence[faults.Fault] = ()


class Dispatcher:
    """Routes, reads, checks and runs requests against one world."""

    def __init__(self, world: world.World, routes: Routes, *, polls_move_clock: bool = False) -> None:
        self.world = world
        self.routes = routes
        self.requests = RequestLog()
        self._polls_move_clock = polls_move_clock and not world.clock.wall
        self._unfinished: set[tuple[str, str]] = set()
        """Who has seen what under way, where a second look moves a standing clock on to what happens next."""
        self.stopping = threading.Event()
        self.admin: Callable[[str, dict[str, Any]], Any]
        self.failures: list[Exception] = []
        """Faults of the emulator itself, each answered with a 500; a test asserts that there are none."""
        self.failed: Callable[[Exception], None] = lambda _: None
        """Hears of each."""

    def fail(self, error: Exception) -> None:
        """Keep a fault of the emulator's own, and tell of it."""
        self.failures.append(error)
        self.failed(error)

    def handle(self, request: Request) -> Outcome:
        """Answer one HTTP request; raises Dropped when a fault closes the connection."""
        url = urlsplit(request.target)
        style, method_id, caller = Style.PLATFORM, "", ""
        query = parse_qs(url.query, keep_blank_values=True)

        def log(status: int, reply: bytes | dict[str, Any]) -> None:
            body = reply if isinstance(reply, bytes) else b""
            self.requests.append(
                Seen(
                    verb=request.verb, path=url.path, method=method_id, caller=caller, status=status,
                    body=request.body, query=query, reply=body,
                )
            )  # fmt: skip

        try:
            method, params = self.routes.match(request.verb, url.path)
            style, method_id = method.style, method.id
            who = self._caller(method, request)
            caller = who.email
            wire, reply = self._perform(method, params, query, request, who)
        except ApiError as error:
            refusal = Reply(status=error.status, body=error.body(style), headers=error.headers)
            wire, reply = [], partial.render(refusal, query)
        except Dropped:
            log(0, b"")
            raise
        log(reply.status, reply.body)
        if any(isinstance(fault, faults.DropAfterCommit) for fault in wire):
            raise Dropped
        return Outcome(reply=reply, wire=wire)

    def _caller(self, method: Method, request: Request) -> world.Caller:
        if method.style is Style.OAUTH:  # whoever asks for a token has none yet
            return world.Caller(email="", permissions=frozenset())
        return self.world.callers.find(request.headers.get("authorization", ""))

    def _perform(
        self,
        method: Method,
        params: dict[str, str],
        query: dict[str, list[str]],
        request: Request,
        who: world.Caller,
    ) -> tuple[list[faults.Fault], Reply]:
        instead = self._struck_before(method.id, who.email)
        if instead is not None:
            return [], instead
        if method.id not in self.routes.answers:
            raise ApiError.unimplemented(method.id)
        partial.check_form(method, query)
        host = request.headers.get("host", "")
        call = Call(
            world=self.world,
            method=method,
            params=params,
            query=schema.read_query(messages.message(method.request), query),
            body={} if method.is_raw else _read_body(method, request),
            raw_body=request.body,
            headers=request.headers,
            caller=who,
            project=self._project(method, params),
            base_url=(f"http://{host}" if host else self.world.base_url) + request.prefix,
            path=urlsplit(request.target).path,
            query_all=query,
        )
        # The answer may be a living document: it is written out before the world moves on.
        with self.world.lock:
            answer = self.routes.answers[method.id]
            self._admit(call, answer)
            views = self.world.faults.take(method.id, who.email, faults.Phase.VIEW)
            call.stale_s = max(
                (fault.seconds for fault in views if isinstance(fault, faults.Stale)), default=0.0
            )
            due = self.world.clock.next_event() if (who.email, call.path) in self._unfinished else None
            if due is not None:
                self.world.clock.advance_to(due)
            result = answer.run(call)
            if self._polls_move_clock and LOOKED_AT.fullmatch(method.id) and isinstance(result, dict):
                remember = self._unfinished.add if _is_under_way(result) else self._unfinished.discard
                remember((who.email, call.path))
            reply = result if isinstance(result, Reply) else Reply(body=result)
            wire: list[faults.Fault] = []
            for fault in self.world.faults.take(method.id, who.email, faults.Phase.RESPONSE):
                if isinstance(fault, faults.Reshape):
                    reply = _reshaped(reply, fault)
                elif isinstance(fault, (faults.DropAfterCommit, faults.Truncate)):
                    wire.append(fault)
            return wire, partial.render(reply, query, method.response)

    def _struck_before(self, method_id: str, caller: str) -> Reply | None:
        """Strike with the faults that come before any work; a reply replaces the work."""
        for fault in self.world.faults.take(method_id, caller, faults.Phase.REQUEST):
            if isinstance(fault, faults.DropBeforeCommit):
                raise Dropped
            if isinstance(fault, faults.Refuse):
                raise fault.error
            if isinstance(fault, faults.Delay):
                self.stopping.wait(fault.seconds)
            if isinstance(fault, faults.RawReply):
                return Reply(
                    status=fault.status,
                    body=fault.body,
                    content_type=fault.content_type,
                    headers=fault.headers,
                )
        return None

    def _project(self, method: Method, params: Mapping[str, str]) -> world.Project | None:
        """The project that the path names; raises ApiError for one that does not exist."""
        name = params.get("project", "")
        if not name:
            match = re.match(r"projects/([^/]+)", next(iter(params.values()), ""))
            name = match.group(1) if match else ""
        if not name:
            return None
        project = self.world.find_project(name)
        if project is None:
            raise world.unknown_project(name, method.style)
        return project

    def _admit(self, call: Call, answer: Answer) -> None:
        method, project = call.method, call.project
        if project is not None:
            if answer.needs_api and method.service not in project.apis:
                raise world.api_disabled(method.service, project, method.style)
            region = call.params.get("region") or call.params.get("zone", "").rpartition("-")[0]
            place = region or "".join(re.findall(r"/locations/([^/]+)", call.path)[:1])
            if answer.pool:
                self.world.rates.charge(answer.pool, project, place)
        if answer.permission != "-" and not call.caller.may(answer.permission):
            raise world.permission_denied(
                answer.permission, _resource(call), method.service, method.style, call.caller.email
            )


def _is_under_way(document: dict[str, Any]) -> bool:
    """Whether it passes by itself; RUNNING does for operations only, as a machine may stay in it."""
    state = document.get("status") or document.get("state") or ""
    return state in UNDER_WAY or (state == "RUNNING" and "operationType" in document)


def _reshaped(reply: Reply, fault: faults.Reshape) -> Reply:
    """A document otherwise; what is kept written (``compute.pages``) is read for it."""
    document: Any = reply.body
    if document and isinstance(document, bytes) and reply.content_type == Reply.content_type:
        document = json.loads(document)
    if not isinstance(document, dict):
        return reply
    return Reply(status=reply.status, body=fault.change(document), headers=reply.headers)


def _read_body(method: Method, request: Request) -> dict[str, Any]:
    if not request.body.strip():
        return {}
    if method.body is None:
        if request.verb in ("GET", "DELETE") or request.body.strip() == b"{}":
            return {}
        raise bad_request([("", "Invalid JSON payload received. The request body must be empty.")])
    try:
        document = schema.decoded(request.body)
    except ValueError:
        raise bad_request([("", "Invalid JSON payload received. Unexpected token.")]) from None
    if method.body == "*":
        return schema.read_message(messages.message(method.request), document, "")
    resource = messages.message(method.request).by_name[method.body].message
    at = "resource" if method.style is Style.COMPUTE else method.body
    return schema.read_message(resource, document, at)


def _resource(call: Call) -> str:
    named = call.params.get("parent") or call.params.get("name")
    return named or call.path[max(0, call.path.find("projects/")) :].partition(":")[0].lstrip("/")
