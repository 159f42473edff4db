"""`GoogleClient`: one project's way to Google Cloud, over REST and with Google's own clients.

::

    client.get(url, action="look at the VM", policy=LOOK)         a JSON object, or one of gputrain's errors
    client.list_all(url, action="list the VMs", params={...})     a `Listing`, which knows what it lacks
    client.post(url, action="...", json={...}, policy=WRITE)      a write says whether it may be repeated
    client.tried(call, action="...", policy=CREATE)               the same for a call of an official client

A `gputrain.retry.Policy` says what is repeated, and how long each try and all of them may take.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import attrs

from gputrain.errors import AuthError
from gputrain.google.cache import LONGEST_S, Cache
from gputrain.google.endpoints import GOOGLE, OURS, Api, check_address, check_region
from gputrain.google.errors import UnclearError, google_errors, response_error, to_error, unlike_google
from gputrain.google.forms import Json, Listing, mappings, missing_of
from gputrain.retry import LOOK, ONCE, READ, Policy, retried
from gputrain.text import redacted

T = TypeVar("T")
log = logging.getLogger("gputrain")
TELL_EVERY_S = 60.0
CONNECT_S = 10.0
"""How long a connection may take to come about."""


def _or_googles(given: Any) -> Any:
    return GOOGLE if given is None else given


@attrs.define(kw_only=True, eq=False)
class GoogleClient:
    """One project's way to Google Cloud: two of them share nothing.

    Args:
        project: the project's id.
        credentials: google.auth credentials; this environment's default ones unless given.
        endpoints: where the APIs are; Google's own unless given.
        sleep, now: the clock that waiting uses, in seconds.

    >>> GoogleClient(project="my-project").url(Api.AIPLATFORM, region="us-central1")
    'https://us-central1-aiplatform.googleapis.com'
    """

    project: str
    credentials: Any = attrs.field(default=None, repr=False)
    endpoints: Any = attrs.field(default=None, converter=_or_googles, repr=False)
    sleep: Callable[[float], None] = attrs.field(default=time.sleep, repr=False)
    now: Callable[[], float] = attrs.field(default=time.time, repr=False)
    looks: Cache[str, Any] = attrs.field(init=False, repr=False)
    """What plans and quotas ask of the cloud, side by side, for all threads."""
    _lock: Any = attrs.field(init=False, factory=threading.RLock, repr=False)
    _found_credentials: Any = attrs.field(init=False, default=None, repr=False)
    _session: Any = attrs.field(init=False, default=None, repr=False)
    _clients: dict[tuple[object, str], Any] = attrs.field(init=False, factory=dict, repr=False)
    _told_at: float = attrs.field(init=False, default=float("-inf"), repr=False)

    @looks.default
    def _make_looks(self) -> Cache[str, Any]:
        # an error is kept for less: an API that was just enabled should not be waited for a minute
        return Cache(fresh_s=LONGEST_S, failure_s=15.0, now=self.now)

    def url(self, api: Api, *, region: str = "") -> str:
        """The address of an API, without a slash at its end; empty where these endpoints have none.

        Raises:
            SpecError: no token may go to this address, or the region is none.
        """
        address = str(getattr(self.endpoints, api.value, ""))
        check_address(api.value, address)  # of anybody's object, which may say something else each time
        check_region(region)  # of a job's name, which anybody may have written: evil.example/
        return address.replace("{region}", region).rstrip("/")

    def get_credentials(self) -> Any:
        """The credentials that calls are made with; AuthError where there are none."""
        from gputrain.google.auth import find_credentials

        with self._lock, google_errors("find credentials"):
            if self._found_credentials is None:
                found, storage = find_credentials(self.credentials), self.url(Api.STORAGE)
                universe = found.universe_domain
                if universe != OURS and f".{OURS}" in storage:
                    raise AuthError(
                        f"credentials of {universe} are not for {OURS}",
                        why=f"their token would go to {storage}",
                        fix=f"give endpoints=gputrain.google.Endpoints(...) with the addresses of {universe}",
                    )
                self._found_credentials = found
            return self._found_credentials

    def token(self, *, policy: Policy = LOOK) -> str:
        """A token that is valid now; empty where the credentials need none."""
        from gputrain.google.auth import token_request

        credentials, headers = self.get_credentials(), dict[str, str]()
        ask = lambda: credentials.before_request(token_request(), "GET", "", headers)  # noqa: E731
        self.tried(ask, action="get a token", policy=policy)
        value = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
        return value.removeprefix("Bearer ")

    @property
    def member(self) -> str:
        """Who calls, as IAM policies name it; ``user:YOU`` where the credentials do not tell."""
        email = str(getattr(self.get_credentials(), "service_account_email", None) or "")
        return f"serviceAccount:{email}" if "@" in email else "user:YOU"

    def session(self) -> Any:
        """The session of `requests` that all calls share: it sends our token, and follows no redirect."""
        from gputrain.google.auth import new_session

        with self._lock:
            if self._session is None:
                self._session = new_session(self.get_credentials())
            return self._session

    def client(self, kind: type[T], address: str) -> T:
        """The official REST client of that class for an address, shared by all threads."""
        from google.api_core.client_options import ClientOptions

        from gputrain.google.auth import guard

        def make() -> T:
            credentials, options = self.get_credentials(), ClientOptions(api_endpoint=address)
            made: Any = kind(credentials=credentials, transport="rest", client_options=options)  # type: ignore[call-arg]
            session = guard(made.transport._session)  # there is no other way to it (google-api-core 2.44)
            for scheme, adapter in self.session().adapters.items():
                session.mount(scheme, adapter)  # one pool of connections for all
            return made  # type: ignore[no-any-return]

        return self.shared(kind, address, make)

    def shared(self, kind: object, address: str, make: Callable[[], T]) -> T:
        """The one client of that kind for an address, shared by all threads; made when first wanted."""
        with self._lock:
            if (kind, address) not in self._clients:
                self._clients[kind, address] = make()
            found: T = self._clients[kind, address]
            return found

    def tried(
        self,
        call: Callable[[], T],
        *,
        action: str,
        policy: Policy,
        errors: Callable[..., AbstractContextManager[None]] = google_errors,
    ) -> T:
        """What a call of an official client returns, retried under a policy, its errors as gputrain's.

        The client's own retries are to be off. ``action`` is for the error's text.
        """

        def once() -> T:
            with errors(action, project=self.project):
                return call()

        unless = () if policy.repeats_unclear else (UnclearError,)
        return retried(once, policy=policy, unless=unless, sleep=self.sleep, tell=self._tell)

    def _tell(self, line: str) -> None:
        """Log what is waited for; once a minute, however many calls wait for the same network."""
        with self._lock:
            now = self.now()
            if abs(now - self._told_at) < TELL_EVERY_S:
                return
            self._told_at = now
        log.warning("%s", line)

    def request(
        self,
        method: str,
        url: str,
        *,
        action: str,
        policy: Policy,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        as_json: bool = False,
    ) -> Any:
        """The response to an HTTP call with our credentials, as `requests` gives it; errors as of `tried`.

        Args:
            params: those that are empty are not sent.
            as_json: return the JSON object in the response; any other body is unclear, and so repeated.
        """
        sent = {name: value for name, value in (params or {}).items() if value not in ("", None)}
        session = self.session()

        def once() -> Any:
            response = session.request(
                method, url, params=sent, json=json, headers=dict(headers or {}),
                timeout=(min(CONNECT_S, policy.call_s), policy.call_s),
            )  # fmt: skip
            if response.status_code >= 300:
                raise to_error(response_error(response), action, project=self.project)
            return _json_of(response, action) if as_json else response

        return self.tried(once, action=action, policy=policy)

    def request_json(self, method: str, url: str, **options: Any) -> Json:
        """The JSON object in a response. Arguments and errors as of `request`."""
        body: Json = self.request(method, url, as_json=True, **options)
        return body

    def get(self, url: str, *, policy: Policy = READ, **options: Any) -> Json:
        """Read a JSON object. Arguments and errors as of `request`."""
        return self.request_json("GET", url, policy=policy, **options)

    def post(self, url: str, *, policy: Policy = ONCE, **options: Any) -> Json:
        """Create or do something. Arguments and errors as of `request`."""
        return self.request_json("POST", url, policy=policy, **options)

    def list_all(
        self,
        url: str,
        *,
        action: str,
        items: str = "items",
        params: Mapping[str, Any] | None = None,
        policy: Policy = READ,
        read: Callable[[Json], tuple[Iterable[Any], Iterable[str]]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Listing[Any]:
        """Every page of a list, each under the policy.

        Args:
            items: the field of a page that holds its items; Google omits it where there are none.
            read: what a page holds, and what it lacks, where that is not all there is to it.
        """
        found: list[Any] = []
        missing: list[str] = []
        token = ""
        while True:
            asked = {**(params or {}), "pageToken": token}
            body = self.get(url, action=action, policy=policy, params=asked, headers=headers)
            held, lacks = read(body) if read else (mappings(body.get(items)), missing_of(body))
            found += held
            missing += lacks
            token = str(body.get("nextPageToken") or "")
            if not token:
                return Listing(tuple(found), tuple(dict.fromkeys(missing)))


def _json_of(response: Any, action: str) -> Json:
    """The JSON object in a response; UnclearError where it holds anything else."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        body = response.text[:200]
    if not isinstance(body, dict):
        came = f"text beginning {body[:40]!r}" if isinstance(body, str) else type(body).__name__
        what = f"could not {action}: the answer is not what was asked for"
        raise unlike_google(what, f"a JSON object was due, {came} came", raw=redacted(body))
    return body
