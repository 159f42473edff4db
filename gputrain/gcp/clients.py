"""Google's own client libraries, made so that they send our token and nothing else.

Loaded with the first of them.
"""

from __future__ import annotations

from typing import Any

from google.api_core.client_options import ClientOptions

from gputrain.gcp.addresses import is_channel_here
from gputrain.gcp.errors import UnclearError
from gputrain.gcp.wire import guard, token_request

_HEADER = "authorization"


def make(kind: Any, address: str, transport: str, credentials: Any) -> Any:
    """A client of a class of google.cloud's, for one address.

    Args:
        transport: ``rest``, or ``grpc`` where the class has it.
    """
    if transport == "grpc" and is_channel_here(address):
        channel = _channel_of_this_machine(address, credentials)
        return kind(transport=kind.get_transport_class("grpc")(channel=channel))
    options = ClientOptions(api_endpoint=address)
    made = kind(credentials=credentials, transport=transport, client_options=options)
    if transport == "rest":
        session = made.transport._session  # they give no other way to it (google-api-core 2.44, 2026-11-22)
        guard(session)
        session.hooks["response"].append(_check)
    return made


def _check(response: Any, *_: Any, **__: Any) -> None:
    """Refuse a body that protobuf takes for an empty message, as it takes ``[]``."""
    if response.status_code < 300 and not response.content.lstrip().startswith(b"{"):
        raise UnclearError(
            "the answer is not what was asked for",
            why=f"a JSON object was due, {response.text[:40]!r} came",
            fix="check what stands between this machine and Google: a proxy may answer for it",
        )


def _channel_of_this_machine(address: str, credentials: Any) -> Any:
    """A channel without TLS: gRPC itself sends no token over one, so each call is given it as metadata."""
    import grpc

    class Signed(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # untyped upstream
        def intercept_unary_unary(self, go_on: Any, call: Any, request: Any) -> Any:
            headers: dict[str, str] = {}
            credentials.before_request(token_request(), "POST", f"http://{address}", headers)
            token = [(name.lower(), value) for name, value in headers.items() if name.lower() == _HEADER]
            return go_on(call._replace(metadata=[*(call.metadata or ()), *token]), request)

    return grpc.intercept_channel(grpc.insecure_channel(address), Signed())
