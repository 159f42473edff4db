"""Which APIs gputrain calls, and where they are: addresses are read strictly, for tokens are sent there."""

from __future__ import annotations

import enum
import os
import re
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

import attrs

from gputrain.fields import Field, refused

_ADDRESS = re.compile(
    r"(?ai)(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)"
    r"(?::(?P<port>\d{1,5}))?(?P<path>(?:/[\w.~-]+)*)/?"
)
OURS = "googleapis.com"
"""Google's own universe; partners of Google's run others."""
_HOLDS_TOKEN = "/_emulator/as/"  # noqa: S105  # what stands before it in an emulator's address
_TOKEN = re.compile(r"[\w-]+", re.ASCII)
_REGION = re.compile(r"[a-z0-9-]{1,63}")
_CHANNEL = re.compile(r"(?ai)(?P<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+):\d{1,5}")


@attrs.frozen(kw_only=True)
class Address:
    """An address in its parts; what was written besides is no part of it."""

    scheme: str
    host: str
    port: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``https://host:port/path``.

        Raises:
            ValueError: a login, a query, a backslash or anything else stands in it that two readers could
                take for two different hosts.

        >>> Address.parse("http://127.0.0.1:18080/").text
        'http://127.0.0.1:18080'
        """
        found = _ADDRESS.fullmatch(text)
        if found is None:
            raise ValueError(text)
        parts = {name: part or "" for name, part in found.groupdict().items()}
        return cls(**{**parts, "scheme": parts["scheme"].lower(), "host": parts["host"].lower()})

    @property
    def text(self) -> str:
        """The address, written anew from its parts."""
        return f"{self.scheme}://{self.host}{f':{self.port}' if self.port else ''}{self.path}"

    @property
    def is_here(self) -> bool:
        """Whether it is this machine's own, which nobody else can answer at."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its address and not by how its name begins.

    >>> is_loopback("127.0.0.1"), is_loopback("127.evil.example")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_channel_here(address: str) -> bool:
    """Whether ``host:port`` of a gRPC service is on this machine."""
    found = _CHANNEL.fullmatch(address)
    return found is not None and is_loopback(found["host"].lower())


def check_address(name: str, address: str) -> None:
    """Refuse an address to which no token may go: one in clear text is this machine's, or none at all.

    Args:
        name: of the field that holds it; that of a gRPC service ends in ``_grpc``, and holds ``host:port``.
        address: with ``{region}`` and ``{host}`` still in it; empty where there is none.

    Raises:
        SpecError: it is no such address.
    """
    filled = address.replace("{region}", "region").replace("{host}", "host")
    is_channel = name.endswith("_grpc")
    if not address or (_CHANNEL.fullmatch(filled) if is_channel else _is_closed(filled)):
        return
    allowed = "host:port" if is_channel else "https://host, or http://127.0.0.1:port"
    fix = f"write {allowed}, and no login: tokens are sent there"
    raise refused(f"endpoints.{name}", address, allowed, fix)


def check_region(region: str) -> None:
    """Refuse what is no region, as an address begins with it: a token would go to whatever it names.

    Raises:
        SpecError: it is none; empty stands for no region.
    """
    if region and not _REGION.fullmatch(region):
        raise refused("region", region, "a region's name", "copy job.uri as it was told")


@lru_cache  # asked before each call, of the few addresses that there are
def _is_closed(address: str) -> bool:
    try:
        found = Address.parse(address)
    except ValueError:
        return False
    return found.scheme == "https" or found.is_here


def is_googles(address: str) -> bool:
    """Whether an address is in Google's own universe, whose tokens alone may go there."""
    host = address.partition("://")[2].partition("/")[0] or address
    return host.partition(":")[0].endswith(f".{OURS}")


class Api(enum.Enum):
    """The APIs that gputrain calls; each word is an attribute of `Endpoints`."""

    AIPLATFORM = "aiplatform"
    AIPLATFORM_GRPC = "aiplatform_grpc"
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
    """Addresses of the APIs: Google's own unless said.

    ``{region}`` in an address is filled in, and ``{host}`` with the name of an image's registry.
    ``aiplatform_grpc`` is ``host:port``; an address of this machine is spoken to without TLS.
    Any object with such attributes will do instead, an emulator's for one; what it lacks is not called.
    Tokens and code are sent there, so an address is ``https``, or of this machine.

    Raises:
        SpecError: an address is neither, or holds more than a host, a port and a path.
    """

    aiplatform: str = "https://{region}-aiplatform.googleapis.com"
    aiplatform_grpc: str = "{region}-aiplatform.googleapis.com:443"
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
    trial: str = ""
    """How a person who tries with an emulator calls it, in commands; empty for Google."""

    def __attrs_post_init__(self) -> None:
        for api in Api:
            check_address(api.value, getattr(self, api.value))


GOOGLE = Endpoints()


def _addresses(value: Any) -> Any:
    if not any(isinstance(getattr(value, api.value, None), str) for api in Api):
        raise ValueError
    return value


def _signing(value: Any) -> Any:
    if isinstance(value, type) or not all(hasattr(value, name) for name in ("valid", "apply", "refresh")):
        raise ValueError
    return value


ROWS = {
    "endpoints": Field(
        _addresses, "addresses of Google's APIs, as Endpoints of gputrain.gcp holds them",
        "leave it out for Google's own; gputrain.emulator serves others",
    ),
    "credentials": Field(
        _signing, "credentials of google.auth", "leave it out for those of google.auth.default()"
    ),
}  # fmt: skip
"""How each is read: a way to Google may be of anybody's make, as long as it can lead there."""


def asked_for(endpoints: Any, credentials: Any) -> dict[str, Any]:
    """``endpoints`` and ``credentials`` as they were given; those of ``$GPUTRAIN_ENDPOINT`` where none were.

    Credentials that were given without endpoints are Google's, and do not go to an emulator.

    Raises:
        SpecError: the variable is no address of this machine.
    """
    url = os.environ.get("GPUTRAIN_ENDPOINT", "")
    return reach(url) if url and endpoints is None else {"endpoints": endpoints, "credentials": credentials}


def reach(url: str) -> dict[str, Any]:
    """``endpoints`` and ``credentials`` for a backend that speaks to the emulator at ``url`` over REST.

    An emulator that runs what comes wants its own token, which stands in the address that it prints. No other
    goes there, so nothing of yours goes to a wrong address.

    Raises:
        SpecError: the address is not of this machine.
    """
    plain, holds, token = url.partition(_HOLDS_TOKEN)
    address = _here(plain)
    if address is None or (holds and not _TOKEN.fullmatch(token)):
        raise refused(
            "endpoint",
            url,
            "the address of an emulator on this machine, as it prints it",
            "http://127.0.0.1:18080, where `gputrain-emulator --port 18080` serves",
        )
    addresses = {api.value: address.text for api in Api if api is not Api.AIPLATFORM_GRPC}
    trial = "$GPUTRAIN_ENDPOINT" if os.environ.get("GPUTRAIN_ENDPOINT") == url else address.text
    if token and not trial.startswith("$"):  # which is not shown
        trial += f"{_HOLDS_TOKEN}TOKEN"
    endpoints = Endpoints(**addresses, aiplatform_grpc="", trial=trial)
    return {"endpoints": endpoints, "credentials": _credentials(token)}


def _credentials(token: str) -> Any:
    if token:
        from google.oauth2.credentials import Credentials

        return Credentials(token=token)
    from google.auth.credentials import AnonymousCredentials

    return AnonymousCredentials()


def leads_here(url: str) -> bool:
    """Whether an address is one of this machine and nothing else, as an emulator's is."""
    return _here(url) is not None


def emulator_of(endpoints: Any) -> str:
    """The address of the emulator on this machine that endpoints lead to; empty where they lead elsewhere."""
    found = _here(str(getattr(endpoints, Api.STORAGE.value, "")))
    return found.text if found else ""


def on_trial(address: str) -> str:
    """A word for what shows jobs of a trial; nothing where it is none.

    >>> on_trial("http://127.0.0.1:18080")
    ' (a trial: http://127.0.0.1:18080)'
    """
    return f" (a trial: {address})" if address else ""


def _here(url: str) -> Address | None:
    """The address, where it is one of this machine and nothing else."""
    try:
        found = Address.parse(url)
    except ValueError:
        return None
    return found if found.scheme == "http" and found.is_here and not found.path else None
