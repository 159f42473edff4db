"""Where Google's APIs are. Tokens are sent to these addresses, so they are read strictly."""

from __future__ import annotations

import enum
import os
import re
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

import attrs

from gputrain.fields import Field, invalid, reader

_ADDRESS = re.compile(
    r"(?a)(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)"
    r"(?P<port>:\d{1,5})?(?P<path>(?:/[\w.~-]+)*)/?"
)
OURS = "googleapis.com"
"""Google's own universe; partners of Google's run others."""
_HOLDS_TOKEN = "/_emulator/as/"  # noqa: S105  # what stands before it in an emulator's address


def read_address(text: str) -> re.Match[str]:
    """The ``scheme``, ``host``, ``port`` and ``path`` of an address, in small letters but for the path.

    Raises:
        ValueError: a login, a query, a backslash or anything else stands in it that two readers could
            take for two different hosts.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found


def _is_here(host: str) -> bool:
    """Whether a host is this machine, by its address and not by how its name begins."""
    with suppress(ValueError):
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    return False


@lru_cache(maxsize=64)
def check_address(name: str, address: str) -> None:
    """Refuse an address to which no token may go: in clear text it must be this machine's.

    Args:
        name: of the field that holds it.
        address: with ``{region}`` and ``{host}`` still in it; empty where there is none.

    Raises:
        SpecError: it is no such address.
    """
    with suppress(ValueError):
        found = read_address(address.replace("{region}", "region").replace("{host}", "host"))
        if found["scheme"] == "https" or _is_here(found["host"]):
            return
    if address:
        fix = "write https://host, and no login: tokens are sent there"
        raise invalid(f"endpoints.{name}", address, "https://host, or http://127.0.0.1:port", fix)


def check_region(region: str) -> None:
    """Refuse what is no region, as an address begins with it: a token would go to the host it names."""
    if not re.fullmatch(r"[a-z0-9-]{0,63}", region):
        raise invalid("region", region, "a region's name", "copy job.uri unchanged")


class Api(enum.Enum):
    """The APIs that gputrain calls; each word is an attribute of `Endpoints`."""

    AIPLATFORM = "aiplatform"
    ARTIFACTREGISTRY = "artifactregistry"
    CLOUDBILLING = "cloudbilling"
    CLOUDBUILD = "cloudbuild"
    CLOUDQUOTAS = "cloudquotas"
    COMPUTE = "compute"
    IAM = "iam"
    LOGGING = "logging"
    REGISTRY = "registry"
    RESOURCEMANAGER = "resourcemanager"
    SECRETMANAGER = "secretmanager"
    SERVICEUSAGE = "serviceusage"
    STORAGE = "storage"


@attrs.frozen(kw_only=True)
class Endpoints:
    """Addresses of the APIs: Google's own by default.

    ``{region}`` in an address is filled in, and ``{host}`` with the name of an image's registry.
    Any object with such attributes will do instead, such as an emulator; an API it lacks is not called.
    Tokens and code are sent there, so an address is ``https``, or of this machine.

    Raises:
        SpecError: an address is neither, or holds more than a host, a port and a path.
    """

    aiplatform: str = "https://{region}-aiplatform.googleapis.com"
    artifactregistry: str = "https://artifactregistry.googleapis.com"
    cloudbilling: str = "https://cloudbilling.googleapis.com"
    cloudbuild: str = "https://cloudbuild.googleapis.com"
    cloudquotas: str = "https://cloudquotas.googleapis.com"
    compute: str = "https://compute.googleapis.com"
    iam: str = "https://iam.googleapis.com"
    logging: str = "https://logging.googleapis.com"
    registry: str = "https://{host}"
    resourcemanager: str = "https://cloudresourcemanager.googleapis.com"
    secretmanager: str = "https://secretmanager.googleapis.com"
    serviceusage: str = "https://serviceusage.googleapis.com"
    storage: str = "https://storage.googleapis.com"

    def __attrs_post_init__(self) -> None:
        for api in Api:
            check_address(api.value, getattr(self, api.value))


GOOGLE = Endpoints()
ROWS = {
    "endpoints": Field(
        reader(lambda value: any(isinstance(getattr(value, one.value, None), str) for one in Api)),
        "addresses of Google's APIs, as Endpoints of gputrain.google holds them",
        "leave it out for Google's own; gputrain.emulator serves others",
    ),
    "credentials": Field(
        reader(lambda value: not isinstance(value, type) and hasattr(value, "before_request")),
        "credentials of google.auth",
        "leave it out for those of google.auth.default()",
    ),
}
"""How both arguments are read: each may be of anybody's make."""


def asked_for(endpoints: Any, credentials: Any) -> dict[str, Any]:
    """``endpoints`` and ``credentials`` as they were given; those of ``$GPUTRAIN_ENDPOINT`` where none were.

    Credentials that were given without endpoints are Google's, and do not go to an emulator.
    """
    url = os.environ.get("GPUTRAIN_ENDPOINT", "")
    return reach(url) if url and endpoints is None else {"endpoints": endpoints, "credentials": credentials}


def reach(url: str) -> dict[str, Any]:
    """``endpoints`` and ``credentials`` for a backend that speaks to the emulator at ``url``.

    An emulator that runs what comes wants its own token, which stands in the address that it prints. No other
    goes there, so nothing of yours goes to a wrong address.

    Raises:
        SpecError: the address is not of this machine.
    """
    plain, holds, token = url.partition(_HOLDS_TOKEN)
    if not leads_here(plain) or (holds and not re.fullmatch(r"[\w-]+", token, re.ASCII)):
        expected = "the address of an emulator on this machine, as it prints it"
        fix = "http://127.0.0.1:18080, where `gputrain-emulator --port 18080` serves"
        raise invalid("endpoint", url, expected, fix)
    from google.auth.credentials import AnonymousCredentials
    from google.oauth2.credentials import Credentials

    endpoints = Endpoints(**{api.value: plain.rstrip("/") for api in Api})
    return {"endpoints": endpoints, "credentials": Credentials(token) if token else AnonymousCredentials()}


def leads_here(url: str) -> bool:
    """Whether an address is one of this machine and nothing else, as an emulator's is."""
    with suppress(ValueError):
        found = read_address(url)
        return found["scheme"] == "http" and _is_here(found["host"]) and not found["path"]
    return False


def emulator_of(endpoints: Any) -> str:
    """The address of the emulator on this machine that endpoints lead to; empty where they lead elsewhere."""
    address = str(getattr(endpoints, Api.STORAGE.value, ""))
    return address.rstrip("/") if leads_here(address) else ""


def on_emulator(address: str) -> str:
    """A word for what shows jobs of an emulator; nothing where there is none."""
    return f" (emulator: {address})" if address else ""
