"""From whatever Google's libraries raise to gputrain's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gputrain.gcp.answer import CANONICAL, Answer, answer_of_json
from gputrain.gcp.refusals import to_error


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Let what the official clients raise inside come out as gputrain's errors, the cause kept.

    Args:
        action: what is being done, for the message: ``"create the job"``.

    Raises:
        AccessError, RequestError, CapacityError, TransientError, ProviderError: as the answer says.
    """
    try:
        yield
    except _families() as error:
        raise to_error(read_answer(error), action) from error


def _families() -> tuple[type[Exception], ...]:
    """The four roots of what the clients raise; a broken connection is not a google.api_core error (REST)."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.protobuf.json_format import ParseError
    from requests import RequestException

    return GoogleAPIError, GoogleAuthError, ParseError, RequestException


def read_answer(error: Exception) -> Answer:
    """The answer that an exception of the official clients, google-auth or requests carries."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    if isinstance(error, GoogleAPICallError):
        return _of_call(error)
    if isinstance(error, GoogleAuthError):
        return _of_auth(error)
    return Answer(message=f"{type(error).__name__}: {error}", raw=repr(error))


def answer_of_response(response: Any) -> Answer:
    """The answer in an HTTP response of `requests` with a status of 400 or more."""
    try:
        body = response.json()
    except ValueError:
        body = None
    asked = response.headers.get("Retry-After", "")
    return answer_of_json(
        body,
        status=response.status_code,
        retry_after_s=float(asked) if asked.isdigit() else None,
        text=f"HTTP {response.status_code} {response.reason}: {response.text[:200]}",
    )


def _of_call(error: Any) -> Answer:
    response = error.response
    if hasattr(response, "headers") and hasattr(response, "status_code"):
        return answer_of_response(response)
    status = int(error.code) if error.code else 0
    named = error.grpc_status_code
    reason = error.reason  # the ErrorInfo among the details, where there is one
    return Answer(
        status=status,
        canonical=named.name if named is not None else CANONICAL.get(status, ""),
        message=error.message or "",
        reasons=frozenset({reason} if reason else ()),
        metadata=dict(error.metadata or {}),
        raw={"message": error.message, "details": [str(one) for one in error.details]},
    )


def _of_auth(error: Any) -> Answer:
    from google.auth.exceptions import TransportError

    if isinstance(error, TransportError) or getattr(error, "retryable", False):
        return Answer(message=f"{type(error).__name__}: {error}", raw=repr(error))
    for argument in error.args:
        if isinstance(argument, dict) and "error" in argument:
            return answer_of_json(argument, status=401)
    return Answer(
        status=401, canonical="UNAUTHENTICATED", message=str(error.args[0] if error.args else error)
    )
