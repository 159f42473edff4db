"""From whatever Google's libraries raise to gputrain's errors."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import attrs

from gputrain.errors import RequestError
from gputrain.gcp.answer import (
    CANONICAL,
    Answer,
    Surface,
    answer_of_json,
    answer_of_operation,
    cut,
    place_of,
    seconds,
)
from gputrain.gcp.refusals import gravest, to_error
from gputrain.secrets import redact

_THEIRS = ("google.", "requests.", "urllib3.", "proto.", "grpc.", "json.")


_OF_CERTIFICATES = re.compile("certificate|CA bundle", re.IGNORECASE)
"""How requests 2.34 names the files of them that are not there, which it does by a bare OSError."""
LARGEST = 1 << 20
"""Bytes of a body that is read as JSON; a refusal of Google's has a few thousand."""


@contextmanager
def translated(
    action: str,
    *,
    project: str = "",
    place: str = "",
    now: Callable[[], float] | None = None,
    fitted: Callable[[str], str] = str,
) -> Iterator[None]:
    """Let what the official clients raise inside come out as gputrain's errors, the cause kept.

    Args:
        action: what is being done, for the message: ``"create the job"``.
        project, place, now: as `to_error` takes them, ``now`` as a clock; `Access.translated` knows them.
        fitted: makes a remedy one that fits where the call went.

    Raises:
        AccessError, RequestError, CapacityError, TransientError, ProviderError: as the answer says.
    """
    try:
        yield
    except _families() as error:
        if why := _untrusted(error):
            raise _of_this_machine(action, why) from _shown(error)
        answers = read_answers(error)
        at = now() if now else None
        found = [to_error(one, action, project=project, place=place, now=at) for one in answers]
        for one in found:
            one.fix = fitted(one.fix)
        raise (gravest(found) or found[0]) from _shown(error)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # The clients read bodies of another shape than they expect without care (google-api-core 2.44.0).
        if not _is_theirs(error.__traceback__):
            raise
        raise to_error(_unreadable(error), action) from _shown(error)
    except OSError as error:  # a broken connection is one of the families
        if not _is_theirs(error.__traceback__) or not _OF_CERTIFICATES.search(str(error)):
            raise
        raise _of_this_machine(action, f"{type(error).__name__}: {error}") from _shown(error)


def _of_this_machine(action: str, why: str) -> RequestError:
    """Nothing was sent, and no waiting helps."""
    fix = "name the certificates that this network's proxy needs, in a file that is there: REQUESTS_CA_BUNDLE"
    return RequestError(f"could not {action}: the connection cannot be trusted", why=cut(why), fix=fix)


def _untrusted(error: Any) -> str:
    """What is wrong with certificates, theirs or our file of them; empty where it is something else."""
    for _ in range(10):  # each lies in the one that is raised
        if isinstance(error, ssl.SSLCertVerificationError) or getattr(error, "library", "") == "X509":
            return str(error)
        reason = getattr(error, "reason", None)
        inner = (reason, *getattr(error, "args", ()))
        error = next((one for one in inner if isinstance(one, Exception)), None)
    return ""


def _shown(error: Exception) -> Exception | None:
    """The cause, for tracebacks; none where its words hold a credential, such as an upload's address."""
    try:
        said = str(error)
    except (TypeError, ValueError):  # google-api-core cannot show a message of another type than text
        return None
    return error if redact(said) == said else None


def _families() -> tuple[type[Exception], ...]:
    """The four roots of what the clients raise; a broken connection is not a google.api_core error (REST)."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.protobuf.json_format import ParseError
    from requests import RequestException

    return GoogleAPIError, GoogleAuthError, ParseError, RequestException


def _is_theirs(trace: TracebackType | None) -> bool:
    """Whether they raised it, or what they called of Python's: a mistake of ours must show as one."""
    module = ""
    while trace is not None:
        named = f"{trace.tb_frame.f_globals.get('__name__', '')}."
        module = named if named.startswith((*_THEIRS, "gputrain.")) else module
        trace = trace.tb_next
    return module.startswith(_THEIRS)


def read_answer(error: Exception) -> Answer:
    """The answer that an exception of the official clients, google-auth or requests carries."""
    return read_answers(error)[0]


def read_answers(error: Exception) -> tuple[Answer, ...]:
    """The answers in it: an operation of Compute Engine ends with one for each thing that went wrong."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError
    from requests import TooManyRedirects

    if isinstance(error, GoogleAPICallError):
        if hasattr(error.response, "error"):  # an operation of Compute Engine, which `result()` waited for
            return _of_operation(error)
        return (_of_call(error),)
    if isinstance(error, GoogleAuthError):
        return (_of_auth(error),)
    if isinstance(error, TooManyRedirects) and error.response is not None:
        return (answer_of_response(error.response),)  # one is too many: nobody follows it with our token
    return (_unreadable(error),)


def answer_of_response(response: Any) -> Answer:
    """The answer in an HTTP response of `requests` with a status of 400 or more."""
    try:
        body = response.json() if len(response.content) <= LARGEST else None
    except (ValueError, RecursionError):
        body = None
    has_error = isinstance(body, Mapping) and isinstance(body.get("error"), (str, Mapping))
    text = "" if has_error else f"HTTP {response.status_code} {response.reason}: {cut(response.text)[:200]}"
    return answer_of_json(
        body,
        status=response.status_code,
        retry_after_s=seconds(response.headers.get("Retry-After")),
        text=text,
        url=str(getattr(response, "url", None) or ""),
    )


def _unreadable(error: Exception) -> Answer:
    host, why = _unreached(error)
    said = f"nobody answers at {host}: {why}" if host else cut(f"{type(error).__name__}: {error}")
    return Answer(surface=Surface.TRANSPORT, message=said, raw=cut(repr(error)), unreached=host)


def _unreached(error: Any) -> tuple[str, str]:
    """The address to which no connection came about, so that nothing was sent, and why; empty otherwise."""
    from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

    url = str(getattr(getattr(error, "request", None), "url", ""))
    met = error.args[0] if url and error.args else None
    met = met.reason if isinstance(met, MaxRetryError) else met
    if not isinstance(met, (NewConnectionError, ConnectTimeoutError)):
        return "", ""
    why = getattr(met.__context__, "strerror", None) or "no connection in time"
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}", cut(why)


def _of_operation(error: Any) -> tuple[Answer, ...]:
    """What an operation's ``result()`` raises: the errors in it are messages of Compute Engine's own."""
    from google.protobuf.json_format import MessageToDict

    operation = error.response
    errors = [MessageToDict(type(one).pb(one)) for one in operation.error.errors]
    told = errors or [{"message": error.message}]
    place = place_of(f"{operation.zone or operation.region}/")
    return tuple(answer_of_operation(one, status=int(error.code or 0), place=place) for one in told)


def _of_call(error: Any) -> Answer:
    response = error.response
    if hasattr(response, "headers") and hasattr(response, "status_code"):
        return answer_of_response(response)
    from google.protobuf.json_format import MessageToDict

    status = int(error.code or 0)
    named = error.grpc_status_code
    details = [
        one if isinstance(one, Mapping) else MessageToDict(one)
        for one in error.details
        if isinstance(one, Mapping) or hasattr(one, "DESCRIPTOR")
    ]
    body = {
        "code": status,
        "status": named.name if named is not None else CANONICAL.get(status, ""),
        "message": error.message or "",
        "details": details,
    }
    answer = answer_of_json({"error": body}, status=status)
    return attrs.evolve(answer, surface=Surface.VERTEX)  # the one service that is spoken to without REST


def _of_auth(error: Any) -> Answer:
    """What google-auth says: no credentials, no token, or a token that is not taken. Nothing was sent."""
    from google.auth.exceptions import GoogleAuthError, TransportError

    for argument in error.args:
        body = _document(argument)
        if body is not None and "error" in body:
            answer = answer_of_json(body)
            status = answer.status or (0 if error.retryable else 400)
            return attrs.evolve(answer, surface=Surface.AUTH, status=status)
    cause = error.args[0] if error.args and isinstance(error.args[0], GoogleAuthError) else error
    is_passing = isinstance(cause, TransportError) or error.retryable
    said = cause.args[0] if cause.args else cause
    host, why = _unreached(said)
    return Answer(
        surface=Surface.AUTH,
        status=503 if is_passing else 401,
        message=cut(f"{type(cause).__name__}: {f'nobody answers at {host}: {why}' if host else said}"),
        unreached=host,
        codes=frozenset() if is_passing else frozenset({type(cause).__name__}),
        raw=cut(repr(error)),
    )


def _document(value: Any) -> Mapping[str, Any] | None:
    """A JSON object, as it is or as text."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None
