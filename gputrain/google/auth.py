"""Credentials, and sessions that send their token only where it was meant to go."""

from __future__ import annotations

from typing import Any

import google.auth
from google.auth.credentials import with_scopes_if_required
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.auth.transport.requests import AuthorizedSession, Request
from requests import Session
from requests.adapters import HTTPAdapter

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
CONNECTIONS = 64
"""That are kept open: as many as threads."""


def find_credentials(given: Any) -> Any:
    """The given credentials with our scope, or this environment's default ones for None.

    Raises:
        google.auth.exceptions.DefaultCredentialsError: there are none.
    """
    if given is not None:
        return with_scopes_if_required(given, SCOPES)
    try:
        return google.auth.default(scopes=SCOPES)[0]
    except GoogleAuthError:
        raise
    except Exception as error:  # it reads a key file without care: a folder, [] (2.62.2)
        raise DefaultCredentialsError(f"{type(error).__name__}: {error}") from error


def new_session(credentials: Any) -> Any:
    """A session that sends a token of these credentials with each request."""
    session = AuthorizedSession(credentials, auth_request=token_request())
    session.headers["User-Agent"] = "gputrain (gzip)"  # Google compresses for those who say it here too
    return guard(session)


def token_request() -> Any:
    """What google-auth requests tokens with."""
    return Request(guard(Session()))


def guard(session: Any) -> Any:
    """Make a session send our token only, and only to the address that was asked."""
    session.auth = lambda request: request  # without it a login in .netrc takes the place of our token
    session.max_redirects = 0  # the first one raises, with its response
    for scheme in ("https://", "http://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=CONNECTIONS))
    return session
