"""One exchange over HTTP: guarded against what stands between, and at its end when its time is over.

A session of `requests` trusts more than our credentials may: it takes a login for Google's host out of
``.netrc`` in place of our token, follows redirects, and waits for ever for a reply that drips, since its
timeout is one for each read. `guard` ends all three, for our own sessions and for those of Google's clients.
"""

from __future__ import annotations

import io
import json
import os
import queue
import time
from collections.abc import Callable, Mapping
from http.client import HTTPResponse
from typing import Any

import attrs
import urllib3
from requests.adapters import HTTPAdapter
from requests.cookies import RequestsCookieJar
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from gputrain.gcp.errors import TooLargeError

CHUNK_BYTES = 1_000_000
CONNECTIONS = 64
"""That are kept open: as many as threads."""


@attrs.frozen(kw_only=True, eq=False)
class Reply:
    """An HTTP answer, read to its end."""

    status_code: int
    reason: str
    url: str
    headers: Mapping[str, str]
    """Their names are found in any case."""
    content: bytes = attrs.field(repr=False)

    @property
    def text(self) -> str:
        """The content as text, whatever it is."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The content as JSON. Raises ValueError for anything else."""
        return json.loads(self.content)


def exchange(
    session: Any, method: str, url: str, *, timeout_s: float, most_bytes: int, **request: Any
) -> Reply:
    """Send one request and read the whole answer.

    Args:
        session: one that `guard` has been over.
        timeout_s: for the way there, and once more for the whole answer.
        most_bytes: of the answer, all of which is taken into memory.

    Raises:
        TooLargeError: the answer is larger.
        requests.RequestException, google.auth's errors: none came.
    """
    with session.request(method, url, timeout=timeout_s, stream=True, **request) as response:
        taken: list[bytes] = []
        left = most_bytes
        for chunk in response.iter_content(CHUNK_BYTES):
            left -= len(chunk)
            if left < 0:
                raise TooLargeError(
                    f"an answer of more than {most_bytes} bytes was not read",
                    why=f"{method} {url.partition('?')[0]} was due to be smaller",
                    fix="look at what is there: it is not what gputrain keeps in such a place",
                )
            taken.append(chunk)
        return Reply(
            status_code=response.status_code,
            reason=str(response.reason or ""),
            url=str(response.url or ""),
            headers=response.headers,
            content=b"".join(taken),
        )


def new_session(credentials: Any) -> Any:
    """A session that sends a token of these credentials with each request."""
    from google.auth.transport.requests import AuthorizedSession

    session = AuthorizedSession(credentials, auth_request=token_request())
    session.headers["User-Agent"] = "gputrain (gzip)"  # Google packs for those who say it here too
    guard(session)
    return session


def token_request() -> Any:
    """What google-auth asks for tokens with."""
    from google.auth.transport.requests import Request
    from requests import Session

    session = Session()
    guard(session)
    return Request(session)


def guard(session: Any, *, beside: Any = None) -> None:
    """Make a session of `requests` send our token only, only where it was meant to go, and end in time.

    Args:
        beside: a session that this one shares its connections with.
    """
    session.auth = _as_it_is  # none at all would make requests look into .netrc, and replace our token
    session.cookies = _NoCookies()
    session.max_redirects = 0  # the first one raises, with its answer
    adapter = _Adapter(pool_maxsize=CONNECTIONS) if beside is None else beside.get_adapter("https://")
    session.mount("https://", adapter)
    session.mount("http://", adapter)


def _as_it_is(request: Any) -> Any:
    return request


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a moment; each read may take what is left until then."""

    def __init__(self, raw: Any, sock: Any, now: Callable[[], float] = time.monotonic) -> None:
        self._raw = raw
        self._sock = sock
        self._now = now
        self._timeout_s = sock.gettimeout()
        self._until = now() + self._timeout_s if self._timeout_s else None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._until is not None:
            left_s = self._until - self._now()
            if left_s <= 0:
                raise TimeoutError("the answer took too long")
            self._sock.settimeout(left_s)
        found: int | None = self._raw.readinto(buffer)
        return found

    def close(self) -> None:
        if not self.closed:
            if self._sock.fileno() >= 0:  # the connection is kept for the next request, with its own time
                self._sock.settimeout(self._timeout_s)
            self._raw.close()
        super().close()


class _TimedResponse(HTTPResponse):
    """An answer whose timeout is one for its head and body together, not one for each read."""

    def __init__(self, sock: Any, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self.fp = io.BufferedReader(_TimedReader(self.fp.detach(), sock))


class _Answer(urllib3.HTTPResponse):
    """One that Python need not ask, as it lets go of it, whether it is closed.

    What a Ctrl-C raises in that answer is dropped (CPython's ``iobase_finalize``), and nobody is told of it.
    """

    closed = False

    def release_conn(self) -> None:
        super().release_conn()
        self.closed = True

    def close(self) -> None:
        super().close()
        self.closed = True


class _Answering:
    def getresponse(self) -> Any:
        answer: Any = super().getresponse()  # type: ignore[misc]
        if type(answer) is urllib3.HTTPResponse:
            answer.__class__ = _Answer
        return answer


class _Connection(_Answering, HTTPConnection):
    response_class = _TimedResponse


class _SecureConnection(_Answering, HTTPSConnection):
    response_class = _TimedResponse


class _Resting(queue.LifoQueue[Any]):
    """The connections of a pool that nobody uses: a queue that takes no lock, as lists need none.

    That of Python's queues stays shut for good where a Ctrl-C falls into its first step, and the request that
    it interrupts wants it once more.
    """

    def put(self, item: Any, *_: Any, **__: Any) -> None:
        if self._qsize() >= self.maxsize:
            raise queue.Full
        self._put(item)

    def get(self, *_: Any, **__: Any) -> Any:
        try:
            return self._get()
        except IndexError:
            raise queue.Empty from None

    def qsize(self) -> int:
        return self._qsize()


class _NoCookies(RequestsCookieJar):
    """Google's services need none, and the lock of a jar stays shut as that of a queue does."""

    def extract_cookies(self, *_: Any) -> None:
        """Keep nothing."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection
    QueueCls = _Resting


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection
    QueueCls = _Resting


class _Adapter(HTTPAdapter):
    """The adapter of requests, over connections whose answers end in time, a proxy's as well.

    A process that was forked opens its own: on one that both hold, each would read the other's answers.
    """

    def send(self, *arguments: Any, **named: Any) -> Any:
        if self._process != os.getpid():
            super().__init__(pool_maxsize=CONNECTIONS)
        return super().send(*arguments, **named)

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        super().init_poolmanager(*arguments, **named)
        _timed(self.poolmanager)
        self._process = os.getpid()

    def proxy_manager_for(self, *arguments: Any, **named: Any) -> Any:
        return _timed(super().proxy_manager_for(*arguments, **named))


def _timed(manager: Any) -> Any:
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
    return manager
