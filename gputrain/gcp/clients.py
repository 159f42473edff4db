"""Google's own client libraries, made so that they send our token and nothing else.

Loaded with the first of them.
"""

from __future__ import annotations

from typing import Any

from google.api_core.client_options import ClientOptions

from gputrain.gcp.wire import guard

_HERE = ("127.", "localhost:", "[::1]:")


def make(kind: Any, address: str, transport: str, credentials: Any) -> Any:
    """A client of a class of google.cloud's, for one address.

    Args:
        transport: ``rest``, or ``grpc`` where the class has it.
    """
    if transport == "grpc" and address.startswith(_HERE):
        import grpc

        # Without TLS no token can be sent: only an address of this machine is spoken to like this.
        return kind(transport=kind.get_transport_class("grpc")(channel=grpc.insecure_channel(address)))
    options = ClientOptions(api_endpoint=address)
    made = kind(credentials=credentials, transport=transport, client_options=options)
    if transport == "rest":
        guard(made.transport._session)  # they give no other way to it (google-api-core 2.44, 2026-11-22)
    return made
