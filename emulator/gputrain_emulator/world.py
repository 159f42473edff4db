"""The state behind the wire: projects, callers, faults, the ledger and each service's own part."""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import re
import secrets
import zlib
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gputrain_emulator.clock import Clock
from gputrain_emulator.errors import ApiError, Style, error_info
from gputrain_emulator.faults import Faults, invalid_credentials
from gputrain_emulator.ledger import Ledger
from gputrain_emulator.rates import Rates
from gputrain_emulator.runtime import Runtime

DEFAULT_APIS = (
    "compute", "aiplatform", "storage", "logging", "cloudbilling", "cloudquotas", "serviceusage",
    "cloudresourcemanager", "iam", "iamcredentials",
)  # fmt: skip

TITLES = {
    "compute": "Compute Engine API",
    "aiplatform": "Vertex AI API",
    "cloudbilling": "Cloud Billing API",
    "cloudquotas": "Cloud Quotas API",
}


@dataclass(kw_only=True)
class Project:
    """A Google Cloud project."""

    id: str
    number: str
    apis: set[str] = field(default_factory=lambda: set(DEFAULT_APIS))
    """Short names of the services that are enabled."""


@dataclass(kw_only=True)
class Caller:
    """Who a bearer token speaks for.

    ``permissions`` None means owner: everything is allowed.
    """

    email: str
    permissions: frozenset[str] | None = None
    refresh_token: str = ""

    def may(self, permission: str) -> bool:
        return self.permissions is None or permission in self.permissions


@dataclass(kw_only=True)
class Callers:
    """Everyone who holds a token."""

    anonymous: Caller | None
    """Who a request without a token is taken for; None refuses it."""
    unsigned: bool = True
    """Believe a service account's JWT for its ``iss``, as no key is known here to check it with."""
    by_email: dict[str, Caller] = field(default_factory=dict)
    _by_token: dict[str, Caller] = field(default_factory=dict)

    def lock(self) -> None:
        """From now on only tokens issued here count: what comes is run, so nobody else may send it."""
        self.anonymous = None
        self.unsigned = False

    def add(self, email: str, permissions: frozenset[str] | None = None) -> Caller:
        """A new caller, or the same one with other permissions."""
        caller = self.by_email.setdefault(
            email, Caller(email=email, refresh_token=f"emulator-refresh-{secrets.token_urlsafe(24)}")
        )
        caller.permissions = permissions
        return caller

    def issue(self, caller: Caller) -> str:
        """A new access token for ``caller``."""
        token = f"emulator-token-{secrets.token_urlsafe(24)}"
        self._by_token[token] = caller
        return token

    def by_refresh_token(self, refresh_token: str) -> Caller | None:
        return next((c for c in self.by_email.values() if c.refresh_token == refresh_token), None)

    def find(self, authorization: str) -> Caller:
        """Who ``Authorization`` speaks for; raises ApiError 401."""
        if not authorization:
            if self.anonymous is None:
                raise invalid_credentials()
            return self.anonymous
        kind, _, token = authorization.partition(" ")
        caller = self._by_token.get(token.strip()) if kind.lower() == "bearer" else None
        caller = caller or self._self_signed(token.strip())
        if caller is None:
            raise invalid_credentials()
        return caller

    def _self_signed(self, token: str) -> Caller | None:
        """Whose own JWT it is, where such are believed."""
        email = (claims_of(token) or {}).get("iss") if self.unsigned else None
        if not isinstance(email, str) or "@" not in email:
            return None
        return self.by_email.get(email) or self.add(email)


def claims_of(token: str) -> dict[str, Any] | None:
    """What a JWT says, whoever has signed it; None for a text that is none."""
    parts = token.split(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (IndexError, binascii.Error, ValueError, RecursionError):
        return None
    return claims if len(parts) == 3 and isinstance(claims, dict) else None


Part = TypeVar("Part")


class World:
    """All state of one emulated cloud. Handlers and events run under ``lock``, one at a time."""

    def __init__(self, *, clock: Clock, rate_limits: bool, anonymous: bool) -> None:
        self.clock = clock
        self.lock = clock.lock
        self.projects: dict[str, Project] = {}
        self.ledger = Ledger(clock)
        self.faults = Faults()
        self.rates = Rates(clock.ticking, enforced=rate_limits)
        self.callers = Callers(anonymous=Caller(email="anonymous") if anonymous else None)
        self.runtime = Runtime()
        self.base_url = ""
        """``http://127.0.0.1:PORT`` once the server listens."""
        self._parts: dict[type, Any] = {}
        self._ids = itertools.count(1)

    def part(self, kind: type[Part]) -> Part:
        """The one instance of a service's state, made as ``kind(world)`` when first asked for."""
        with self.lock:
            if kind not in self._parts:
                self._parts[kind] = kind(self)  # type: ignore[call-arg]  # every part takes its world
            found: Part = self._parts[kind]
            return found

    def close(self) -> None:
        """Let every part that holds more than memory give it back."""
        for part in self._parts.values():
            if hasattr(part, "close"):
                part.close()

    def new_id(self) -> str:
        """A numeric id as Google makes them: 19 digits, never reused."""
        serial = next(self._ids)
        return str(10**18 * 4 + (serial * 2654435761 % 2**40) * 10**5 + serial)

    def add_project(self, name: str, number: str = "") -> Project:
        """A project with all APIs on; its number follows from its id unless given.

        Raises ValueError for what can be no project's id.
        """
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9.:-]*", name):
            raise ValueError(f"no project has such an id: {name!r:.100}")
        number = number or str(10**11 + zlib.crc32(name.encode()) * 7 % (9 * 10**11))
        project = self.projects[name] = Project(id=name, number=number)
        return project

    def find_project(self, name: str) -> Project | None:
        """By id or by number."""
        found = self.projects.get(name)
        return found or next((p for p in self.projects.values() if p.number == name), None)

    def owner(self, name: str) -> Project:
        """The project of that name, "" for the first one; raises LookupError where there is none."""
        found = self.find_project(name or next(iter(self.projects)))
        if found is None:
            raise LookupError(f"no such project: {name}")
        return found


def unknown_project(name: str, style: Style) -> ApiError:
    """What a project that does not exist (or is not ours to see) is answered with."""
    if style is Style.COMPUTE:
        return ApiError(404, f"The resource 'projects/{name}' was not found")
    return ApiError(403, f"Permission denied on resource project {name}.", details=[
        error_info("CONSUMER_INVALID", "googleapis.com", consumer=f"projects/{name}")])  # fmt: skip


def api_disabled(service: str, project: Project, style: Style) -> ApiError:
    """403 SERVICE_DISABLED with the address that enables it."""
    host = f"{service}.googleapis.com"
    url = f"https://console.developers.google.com/apis/api/{host}/overview?project={project.number}"
    message = (
        f"{TITLES.get(service, host)} has not been used in project {project.number} before or it "
        f"is disabled. Enable it by visiting {url} then retry. If you enabled this API recently, wait a "
        "few minutes for the action to propagate to our systems and retry."
    )
    facts = {"service": host, "consumer": f"projects/{project.number}", "activationUrl": url}
    detail = error_info("SERVICE_DISABLED", "googleapis.com", style, **facts)
    return ApiError(403, message, reason="accessNotConfigured", domain="usageLimits", details=[detail])


def permission_denied(permission: str, resource: str, service: str, style: Style, email: str) -> ApiError:
    """403 in the words of the service, naming the missing permission."""
    if style is Style.COMPUTE:
        return ApiError(403, f"Required '{permission}' permission for '{resource}'")
    if style is Style.STORAGE:
        sentence = (
            f"{email} does not have {permission} access to the Google Cloud Storage object. "
            f"Permission '{permission}' denied on resource (or it may not exist)."
        )
        return ApiError(403, sentence)
    full = f"//{service}.googleapis.com/{resource}"
    detail = error_info(
        "IAM_PERMISSION_DENIED", f"{service}.googleapis.com", permission=permission, resource=resource
    )
    return ApiError(
        403, f"Permission '{permission}' denied on resource '{full}' (or it may not exist).", details=[detail]
    )


class Accounts:
    """Service accounts that do not exist or are switched off, and secrets that exist."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.missing: set[str] = set()
        self.disabled: set[str] = set()
        self.secrets: dict[tuple[str, str], list[bytes]] = {}

    def add_secret(self, name: str, data: bytes, *, project: str = "") -> None:
        """One more version of a secret."""
        self.secrets.setdefault((self.world.owner(project).id, name), []).append(data)
