"""Credentials that many threads share, and Google's own clients, made so that they send our token only.

One refresh, however many threads find the token expired. This module is loaded with the first call only, so
its imports of Google's cost nothing before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping
from typing import Any

import google.auth
import google.auth.credentials
from google.api_core.client_options import ClientOptions
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError

from gputrain.gcp.endpoints import is_channel_here
from gputrain.gcp.errors import unlike_google
from gputrain.gcp.wire import guard, token_request
from gputrain.threads import new_lock

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_JUST_NOW_S = 5.0


class LockedCredentials(google.auth.credentials.Credentials):  # type: ignore[misc]  # untyped upstream
    """Any google.auth credentials, refreshed by one thread at a time.

    google.auth's own are not safe to share: 50 threads with an expired token made 50 refreshes
    (google-auth 2.62.2, measured 2026-11-20).
    """

    def __init__(self, inner: Any, *, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._inner = inner
        self._now = now
        self._lock = new_lock()
        self._refreshed_at = float("-inf")

    @property
    def valid(self) -> bool:
        """True while the token can be used."""
        return bool(self._inner.valid)

    @property
    def expired(self) -> bool:
        """True when the token's time is over."""
        return bool(self._inner.expired)

    @property
    def universe_domain(self) -> str:
        """Google's word for the cloud they belong to."""
        return str(self._inner.universe_domain)

    @property
    def account(self) -> str:
        """The e-mail of the service account that they are of; empty for a person's, or where not told."""
        email = str(getattr(self._inner, "service_account_email", None) or "")
        return email if "@" in email else ""

    def before_request(
        self,
        request: Any,
        method: str,  # noqa: ARG002  # the signature is google.auth's
        url: str,  # noqa: ARG002
        headers: MutableMapping[str, str],
    ) -> None:
        """Put a fresh token into ``headers``."""
        if not self._inner.valid:
            with self._lock:
                if not self._inner.valid:
                    self._renew(request)
        self._inner.apply(headers)

    def refresh(self, request: Any) -> None:
        """Renew the token that a server just refused; threads that were refused together renew once."""
        with self._lock:
            if self._now() - self._refreshed_at < _JUST_NOW_S and self._inner.valid:
                return
            self._renew(request)

    def apply(self, headers: MutableMapping[str, str], token: str | None = None) -> None:
        """Put the token that is there into ``headers``."""
        self._inner.apply(headers, token=token)

    def _renew(self, request: Any) -> None:
        self._inner.refresh(request)
        self._refreshed_at = self._now()

    def __repr__(self) -> str:
        return f"<LockedCredentials of {type(self._inner).__name__}>"


def locked(credentials: Any) -> LockedCredentials:
    """The credentials, or this environment's default ones for None, behind a lock.

    Raises:
        google.auth.exceptions.DefaultCredentialsError: none were given, and there is no default.
    """
    if isinstance(credentials, LockedCredentials):
        return credentials
    if credentials is None:
        credentials = _default()
    else:
        credentials = google.auth.credentials.with_scopes_if_required(credentials, [SCOPE])
    return LockedCredentials(credentials)


def _default() -> Any:
    try:
        return google.auth.default(scopes=[SCOPE])[0]
    except GoogleAuthError:
        raise
    except (
        OSError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        # it reads the file of GOOGLE_APPLICATION_CREDENTIALS without care: a folder, [] (google-auth 2.62.2)
        raise DefaultCredentialsError(f"{type(error).__name__}: {error}") from error


def make(kind: Any, address: str, transport: str, credentials: Any, *, beside: Any) -> Any:
    """A client of a class of google.cloud's, for one address.

    Args:
        transport: ``rest``, or ``grpc`` where the class has it.
        beside: the session that it shares its connections with.
    """
    if transport == "grpc" and is_channel_here(address):
        channel = _channel_of_this_machine(address, credentials)
        return kind(transport=kind.get_transport_class("grpc")(channel=channel))
    options = ClientOptions(api_endpoint=address)
    made = kind(credentials=credentials, transport=transport, client_options=options)
    if transport == "rest":
        session = made.transport._session  # they give no other way to it (google-api-core 2.44, 2026-11-22)
        guard(session, beside=beside)
        session.hooks["response"].append(_check)
    return made


def _check(response: Any, *_: Any, **__: Any) -> None:
    """Refuse a body that protobuf takes for an empty message, as it takes ``[]``."""
    if response.status_code < 300 and not response.content.lstrip().startswith(b"{"):
        why = f"a JSON object was due, {response.text[:40]!r} came"
        raise unlike_google("the answer is not what was asked for", why)


def _channel_of_this_machine(address: str, credentials: Any) -> Any:
    """A channel without TLS: gRPC itself sends no token over one, so each call is given it as metadata."""
    import grpc

    class Signed(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # untyped upstream
        def intercept_unary_unary(self, go_on: Any, call: Any, request: Any) -> Any:
            headers: dict[str, str] = {}
            credentials.before_request(token_request(), "POST", f"http://{address}", headers)
            token = [(name.lower(), value) for name, value in headers.items()]
            return go_on(call._replace(metadata=[*(call.metadata or ()), *token]), request)

    return grpc.intercept_channel(grpc.insecure_channel(address), Signed())
