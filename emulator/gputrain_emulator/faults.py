"""Everything that can go wrong on demand, and the book that says when."""

from __future__ import annotations

import enum
import fnmatch
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gputrain_emulator.errors import ApiError


class Phase(enum.Enum):
    """Where in the life of a request a fault strikes."""

    REQUEST = "request"
    """Before anything is done."""
    VIEW = "view"
    """While reading: what the handler sees."""
    OPERATION = "operation"
    """In the asynchronous work that the request starts."""
    RESPONSE = "response"
    """After the work is committed, on the way back."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that goes wrong."""

    phase: ClassVar[Phase]


@dataclass(frozen=True, kw_only=True)
class DropBeforeCommit(Fault):
    """The connection closes and nothing was done."""

    phase = Phase.REQUEST


@dataclass(frozen=True, kw_only=True)
class DropAfterCommit(Fault):
    """The work is done and the connection closes without a reply."""

    phase = Phase.RESPONSE


@dataclass(frozen=True, kw_only=True)
class Delay(Fault):
    """The reply comes ``seconds`` of real time late."""

    phase = Phase.REQUEST
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Refuse(Fault):
    """Google's JSON error instead of the work."""

    phase = Phase.REQUEST
    error: ApiError


@dataclass(frozen=True, kw_only=True)
class RawReply(Fault):
    """Any bytes instead of the work: a proxy's HTML page, half a document."""

    phase = Phase.REQUEST
    status: int
    body: bytes
    content_type: str = "text/html; charset=UTF-8"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Truncate(Fault):
    """The work is done; the reply breaks off after ``share`` of its bytes."""

    phase = Phase.RESPONSE
    share: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Reshape(Fault):
    """The work is done; ``change`` rewrites the reply's document (a new field, an unknown enum value)."""

    phase = Phase.RESPONSE
    change: Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Stale(Fault):
    """Lists show the world as it was ``seconds`` ago."""

    phase = Phase.VIEW
    seconds: float


@dataclass(frozen=True, kw_only=True)
class OperationFails(Fault):
    """The asynchronous operation ends with these ``errors`` (``code``, ``message``, ``errorDetails``)."""

    phase = Phase.OPERATION
    errors: Sequence[Mapping[str, Any]]
    http_status: int | None = None


def html(status: int = 200) -> RawReply:
    """A page for people, as portals and proxies send it."""
    page = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
    return RawReply(status=status, body=page)


def server_error(status: int = 503, message: str = "", *, retry_after_s: int | None = None) -> Refuse:
    """A 5xx in Google's JSON."""
    text = message or {500: "Internal error encountered.", 503: "The service is currently unavailable."}.get(
        status, "Backend Error"
    )
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return Refuse(error=ApiError(status, text, reason="backendError", headers=headers))


def unauthorized() -> Refuse:
    """The 401 of a token that has just expired."""
    return Refuse(error=invalid_credentials())


def invalid_credentials() -> ApiError:
    return ApiError(
        401,
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie "
        "or other valid authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
        headers={"WWW-Authenticate": 'Bearer realm="https://accounts.google.com/", error="invalid_token"'},
    )


def partial_page(warning: str = "UNREACHABLE") -> Reshape:
    """Half of a list, with Compute's warning that it is incomplete and no further page."""

    def halve(document: dict[str, Any]) -> dict[str, Any]:
        cut = {key: value for key, value in document.items() if key != "nextPageToken"}
        for key in ("items", "customJobs"):
            if isinstance(cut.get(key), list):
                cut[key] = cut[key][: len(cut[key]) // 2]
        return {**cut, "warning": {"code": warning, "message": "Not all results could be read."}}

    return Reshape(change=halve)


def unreachable(zone: str) -> Reshape:
    """A list of Compute's without what lies in ``zone``, which is told as unreachable."""
    warning = {"code": "UNREACHABLE", "message": f"The zone {zone} could not be reached."}

    def change(document: dict[str, Any]) -> dict[str, Any]:
        items = document.get("items")
        if isinstance(items, dict):
            empty = {**warning, "data": [{"key": "scope", "value": f"zones/{zone}"}]}
            return {**document, "items": {**items, f"zones/{zone}": {"warning": empty}}}
        kept = [one for one in items or () if f"/zones/{zone}/" not in f"{one.get('selfLink', '')}/"]
        return {**document, "items": kept, "warning": warning}

    return Reshape(change=change)


def _refused(permission: str = "the permission that it needs") -> Fault:
    """403: the caller may not."""
    return Refuse(error=ApiError(403, f"Required '{permission}' permission"))


def _other_json(text: str = "[]") -> Fault:
    """A 200 whose JSON is no document of the method's."""
    return RawReply(status=200, body=text.encode(), content_type="application/json; charset=UTF-8")


NAMED: Mapping[str, Callable[..., Fault]] = {
    "lag": Stale,
    "unreachable": unreachable,
    "half-list": partial_page,
    "refused": _refused,
    "unauthorized": unauthorized,
    "error": server_error,
    "lost-before": DropBeforeCommit,
    "lost-after": DropAfterCommit,
    "late": Delay,
    "cut": Truncate,
    "html": html,
    "json": _other_json,
}
"""What ``cloud.fail(METHOD, "lag", seconds=30)`` and ``POST /_emulator/fail`` order, by name."""


def named(name: str, **details: Any) -> Fault:
    """The fault called ``name``; raises TypeError or ValueError for details that it does not take."""
    if details.get("seconds", 0) < 0:
        raise ValueError("a reply does not come before its time: seconds are no less than 0")
    if not 200 <= details.get("status", 200) < 600:
        raise ValueError("status is one that ends a request: 200 to 599")
    return NAMED[name](**details)


@dataclass(kw_only=True)
class Order:
    """One line of the book: which fault, for whom, how often."""

    method: str
    fault: Fault
    caller: str | None
    left: int | None

    def cancel(self) -> None:
        """No more of this."""
        self.left = 0

    def meets(self, method: str, caller: str, phase: Phase) -> bool:
        """Whether it strikes this call."""
        is_meant = self.fault.phase is phase and self.left != 0 and self.caller in (None, caller)
        return is_meant and fnmatch.fnmatchcase(method, self.method)

    def strike(self) -> Fault:
        self.left = None if self.left is None else self.left - 1
        return self.fault


class Faults:
    """What was ordered; each request takes what is meant for it."""

    def __init__(self) -> None:
        self._orders: list[Order] = []
        self.struck: Counter[tuple[str, type[Fault]]] = Counter()
        """How often each kind of fault has struck which method."""
        self._lock = threading.Lock()

    def order(self, method: str, fault: Fault, *, times: int | None = 1, caller: str | None = None) -> Order:
        """``fault`` strikes calls of ``method`` (``*`` stands for anything) ``times`` times."""
        order = Order(method=method, fault=fault, caller=caller, left=times)
        with self._lock:
            self._orders.append(order)
        return order

    @property
    def are_due(self) -> bool:
        """Whether any may strike yet."""
        return bool(self._orders)

    def clear(self) -> None:
        self._orders.clear()

    def take(self, method: str, caller: str, phase: Phase) -> list[Fault]:
        """The faults that strike now; each taken one is counted."""
        if not self._orders:
            return []
        with self._lock:
            taken: list[Fault] = []
            for order in self._orders:
                if (isinstance(order.fault, Delay) or not _ends(taken)) and order.meets(
                    method, caller, phase
                ):
                    taken.append(order.strike())
            self._orders = [order for order in self._orders if order.left != 0]
            self.struck.update((method, type(fault)) for fault in taken)
            return taken


def _ends(taken: list[Fault]) -> bool:
    """Whether a fault is taken already: the others of its kind wait for the next call."""
    return any(not isinstance(fault, Delay) for fault in taken)
