"""An emulator on this machine in place of Google's APIs: one address for all of them, and no credentials."""

from __future__ import annotations

from typing import Any

from gputrain.errors import Fault, SpecError
from gputrain.gcp.addresses import Address
from gputrain.gcp.endpoints import Api, Endpoints


def reach(url: str) -> dict[str, Any]:
    """``endpoints`` and ``credentials`` for a backend that speaks to the emulator at ``url`` over REST.

    Requests then carry no token, so nothing of yours goes to a wrong address.

    Raises:
        SpecError: the address is not of this machine.
    """
    address = _here(url)
    if address is None:
        fault = Fault(
            field="endpoint",
            value=repr(url),
            allowed="an emulator on this machine",
            fix="http://127.0.0.1:18080, where `python -m gputrain.emulator --port 18080` serves",
        )
        raise SpecError(f"{fault}", faults=(fault,))
    from google.auth.credentials import AnonymousCredentials

    addresses = {api.value: address.text for api in Api if api is not Api.AIPLATFORM_GRPC}
    return {
        "endpoints": Endpoints(**addresses, aiplatform_grpc=""),
        "credentials": AnonymousCredentials(),
    }


def _here(url: str) -> Address | None:
    """The address, where it is one of this machine and nothing else."""
    try:
        found = Address.parse(url)
    except ValueError:
        return None
    return found if found.scheme == "http" and found.is_here and not found.path else None
