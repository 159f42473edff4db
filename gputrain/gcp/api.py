"""`Access`: one tenant's way to Google Cloud, and the one module that speaks Google's REST.

::

    access.get(url, action="look at the VM", policy=LOOK)        a JSON object, or one of gputrain's errors
    access.pages(url, action="list the VMs", params={...})       a `Listing`, which knows whether it is whole
    access.post(url, action="...", json={...}, policy=WRITE)     a write says itself whether twice is once
    access.tried(call, action="...", policy=QUEUE)               the same for a call of an official client

What is repeated, how often and for how long is said by a `Policy`, and by nothing else: `gputrain.retry` has
the table of them. A call with a policy ends, also where the answer drips: after ``budget_s`` no other try is
begun, and each has ``call_s`` to be sent and as long again for its answer. An answer that is no JSON object
where one was due counts as unclear.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gputrain.errors import AuthError
from gputrain.gcp.endpoints import GOOGLE, OURS, Api, Endpoints, check_address, check_region, is_googles
from gputrain.gcp.errors import UnclearError
from gputrain.gcp.forms import Json, as_document
from gputrain.gcp.listing import Listing, Page, page_of, read_all
from gputrain.gcp.refusals import to_error
from gputrain.gcp.shared import LONGEST_S, Shared
from gputrain.gcp.translate import answer_of_response, translated
from gputrain.gcp.trial import fitted
from gputrain.retry import LOOK, ONCE, READ, Policy, retried
from gputrain.threads import new_lock

if TYPE_CHECKING:
    from gputrain.gcp.wire import Reply

T = TypeVar("T")
log = logging.getLogger("gputrain")
TELL_EVERY_S = 60.0
LARGEST_DOCUMENT = 64 << 20
"""Bytes of a JSON answer; a page of a thousand machine types has two million."""


class _Made:
    """What an `Access` is made of, once made: credentials, a session, official clients. No fact goes here."""

    def __init__(self) -> None:
        self.lock = new_lock()
        self.credentials: Any = None
        self.session: Any = None
        self.clients: dict[tuple[type[Any], str, str], Any] = {}
        self.told_at = float("-inf")


def _or_googles(given: Any) -> Any:
    return GOOGLE if given is None else given


@attrs.define(kw_only=True, eq=False)
class Access:
    """One tenant's way to Google Cloud: two of them share nothing.

    Args:
        project: the project's id.
        credentials: google.auth credentials; this environment's default ones unless given.
        endpoints: where the APIs are; Google's own unless given.
        sleep, now: the clock that waiting uses, in seconds.

    >>> Access(project="my-project").url(Api.AIPLATFORM, region="us-central1")
    'https://us-central1-aiplatform.googleapis.com'
    """

    project: str
    credentials: Any = attrs.field(default=None, repr=False)
    endpoints: Any = attrs.field(default=None, converter=_or_googles, repr=False)
    sleep: Callable[[float], None] = attrs.field(default=time.sleep, repr=False)
    now: Callable[[], float] = attrs.field(default=time.time, repr=False)
    looks: Shared[str, Any] = attrs.field(init=False, repr=False)
    """What plans and quotas ask of the cloud, side by side, for all threads."""
    _made: _Made = attrs.field(init=False, factory=_Made, repr=False)

    @looks.default
    def _make_looks(self) -> Shared[str, Any]:
        # a failure is kept for less: whoever has just switched an API on should not wait a minute
        return Shared(fresh_s=LONGEST_S, failure_s=15.0, now=self.now)

    def url(self, api: Api, *, region: str = "") -> str:
        """The address of an API, without a slash at its end; empty where these endpoints have none.

        Raises:
            SpecError: no token may go to the address that the endpoints tell, or the region is none.
        """
        address = str(getattr(self.endpoints, api.value, ""))
        check_address(api.value, address)  # of anybody's object, which may say something else each time
        check_region(region)  # of a job's name, which anybody may have written: evil.example/
        return address.replace("{region}", region).rstrip("/")

    def locked_credentials(self) -> Any:
        """The credentials behind a lock, shared by every client made here.

        Raises:
            AuthError: none were given, and this environment has no default ones.
        """
        from gputrain.gcp.credentials import locked

        with self._made.lock, translated("find credentials"):
            if self._made.credentials is None:
                self._made.credentials = self._of_our_universe(locked(self.credentials))
            return self._made.credentials

    def _of_our_universe(self, credentials: Any) -> Any:
        """Tokens of a cloud that a partner of Google's runs do not go to Google's own addresses."""
        universe = credentials.universe_domain
        if universe != OURS and is_googles(self.url(Api.STORAGE)):
            raise AuthError(
                f"credentials of {universe} are not for {OURS}",
                why=f"their token would go to {self.url(Api.STORAGE)}",
                fix=f"give endpoints=gputrain.gcp.Endpoints(...) with the addresses of {universe}",
            )
        return credentials

    def sign_in(self, *, policy: Policy = LOOK) -> str:
        """Have a token ready; the word for whoever it speaks for, as `member` says it.

        Raises:
            AuthError: there are no credentials, or no token is given for them.
            TransientError: nobody answered.
        """
        from gputrain.gcp.wire import token_request

        credentials, request = self.locked_credentials(), token_request()
        self.tried(
            lambda: credentials.before_request(request, "GET", "", {}), action="get a token", policy=policy
        )
        return self.member

    @property
    def member(self) -> str:
        """Who calls, as IAM policies name it; ``user:YOU`` where the credentials do not tell."""
        account = self.locked_credentials().account
        return f"serviceAccount:{account}" if account else "user:YOU"

    def client(self, kind: type[T], address: str, *, transport: str = "rest") -> T:
        """The official client of that class for an address, made once and shared by all threads."""
        from gputrain.gcp.credentials import make

        key = (kind, address, transport)
        with self._made.lock:
            if key not in self._made.clients:
                credentials, beside = self.locked_credentials(), self._session()
                self._made.clients[key] = make(kind, address, transport, credentials, beside=beside)
            found: T = self._made.clients[key]
            return found

    def translated(self, action: str, *, place: str = "") -> AbstractContextManager[None]:
        """Let what the official clients raise inside come out as gputrain's errors, as `gcp.translated` does.

        Args:
            action: what is being done, for the message: ``"create the job"``.
            place: the zone or region that is asked.
        """
        return translated(action, project=self.project, place=place, now=self.now, fitted=self.fitted)

    def fitted(self, fix: str) -> str:
        """A remedy as it fits where this leads: to Google, or to the emulator of somebody who tries."""
        return fitted(fix, self.endpoints.trial if isinstance(self.endpoints, Endpoints) else "")

    def tried(self, call: Callable[[], T], *, action: str, policy: Policy, place: str = "") -> T:
        """What a call of an official client returns, under a policy, its errors as gputrain's.

        Args:
            action, place: as `translated` takes them.
            policy: what is repeated; a client's own retries are to be off.
        """

        def once() -> T:
            with self.translated(action, place=place):
                return call()

        unless = () if policy.repeats_unclear else (UnclearError,)
        return retried(once, policy=policy, unless=unless, sleep=self.sleep, tell=self._tell)

    def _tell(self, line: str) -> None:
        """Tell what keeps somebody waiting; once a minute, however many calls wait for the same network."""
        with self._made.lock:
            now = self.now()
            if abs(now - self._made.told_at) < TELL_EVERY_S:
                return
            self._made.told_at = now
        log.warning("%s", line)

    def reply(
        self,
        method: str,
        url: str,
        *,
        action: str,
        policy: Policy,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (),
        check: Callable[[Reply], object] | None = None,
        most_bytes: int = LARGEST_DOCUMENT,
    ) -> Reply:
        """The whole answer to an HTTP call with our credentials, whatever it holds.

        Args:
            action: what is being done, for the error's text.
            policy: what is repeated.
            params: those that are empty are not sent.
            accept: statuses of 300 or more that the caller understands; all others raise.
            check: raises for an answer that is not what was asked for; inside, so that it is repeated.
            most_bytes: of the answer.

        Raises:
            AccessError, RequestError, CapacityError, TransientError, ProviderError: as the answer says.
        """
        from gputrain.gcp.wire import exchange

        asked = {name: value for name, value in (params or {}).items() if value not in ("", None)}

        def once() -> Reply:
            response = exchange(
                self._session(), method, url, params=asked, json=json, data=data,
                headers=dict(headers or {}), timeout_s=policy.call_s, most_bytes=most_bytes,
            )  # fmt: skip
            if response.status_code >= 300 and response.status_code not in accept:
                answer = answer_of_response(response)
                error = to_error(answer, action, project=self.project, now=self.now())
                error.fix = self.fitted(error.fix)
                raise error
            if check is not None:
                check(response)
            return response

        return self.tried(once, action=action, policy=policy)

    def document(self, method: str, url: str, *, action: str, policy: Policy, **options: Any) -> Json:
        """As `reply`, and the JSON object that was answered; any other body is unclear, and so repeated."""
        found = self.reply(
            method, url, action=action, policy=policy, check=lambda it: as_document(it, action), **options
        )
        return as_document(found, action)

    def get(self, url: str, *, action: str, policy: Policy = READ, **options: Any) -> Json:
        """Read a JSON object. Arguments and errors as of `reply`."""
        return self.document("GET", url, action=action, policy=policy, **options)

    def post(self, url: str, *, action: str, policy: Policy = ONCE, **options: Any) -> Json:
        """Ask for something to be made or done. Arguments and errors as of `reply`."""
        return self.document("POST", url, action=action, policy=policy, **options)

    def delete(self, url: str, *, action: str, policy: Policy = ONCE, **options: Any) -> None:
        """Remove something. Arguments and errors as of `reply`."""
        self.reply("DELETE", url, action=action, policy=policy, **options)

    def pages(
        self,
        url: str,
        *,
        action: str,
        items: str = "items",
        params: Mapping[str, Any] | None = None,
        policy: Policy = READ,
        read: Callable[[Reply, Json], Page[Any]] | None = None,
        **options: Any,
    ) -> Listing[Any]:
        """Every page of a list, each under the policy.

        Args:
            items: the field of a page that holds its items.
            read: makes a page of an answer, where that is not all there is to it.
        """

        def page(token: str) -> Page[Any]:
            asked = {**(params or {}), "pageToken": token}
            reply = self.reply("GET", url, action=action, policy=policy, params=asked, check=check, **options)
            body = as_document(reply, action)
            return page_of(body, items) if read is None else read(reply, body)

        def check(reply: Reply) -> Json:
            return as_document(reply, action)

        return read_all(page)

    def _session(self) -> Any:
        from gputrain.gcp.wire import new_session

        with self._made.lock:
            if self._made.session is None:
                self._made.session = new_session(self.locked_credentials())
            return self._made.session
