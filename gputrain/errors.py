"""Every error that gputrain raises, grouped by what you have to change.

::

    GputrainError
    ├─ RequestError            the request
    │  ├─ SpecError            (also ValueError) every fault of a spec at once
    │  │  └─ UnknownGpuError   (nearest names)
    │  └─ NoFitError           (counts that exist)
    ├─ AccessError             the account
    │  ├─ AuthError
    │  ├─ PermissionDeniedError
    │  ├─ ApiDisabledError
    │  ├─ OrgPolicyError
    │  └─ QuotaExceededError   (metric, limit, usage, need, where)
    ├─ CapacityError           try elsewhere (place, zones with capacity)
    ├─ TransientError          try again (retry_after_s)
    ├─ NoPlacementError        every candidate was refused (plan, attempts)
    ├─ JobError                the job
    │  ├─ JobFailedError       (kind, rank, exit code, traceback, last lines)
    │  ├─ JobLostError
    │  ├─ JobTimeoutError
    │  └─ StoppedError
    └─ ProviderError           unknown response (raw code and body)

Each pickles, and says ``what`` happened, ``why``, a ``fix`` and the provider's ``raw`` payload. Its ``kind``
names the case; ``scope``, ``retryable`` and ``try_elsewhere`` tell programs what may help.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import attrs

from gputrain.text import sanitize
from gputrain.times import plain

logging.getLogger("gputrain").addHandler(logging.NullHandler())  # the embedding program decides what is shown


class Scope(enum.Enum):
    """What an error affects."""

    CALL = "call"
    """This call; the next one may succeed."""
    REQUEST = "request"
    """This request, in any place."""
    ZONE = "zone"
    REGION = "region"
    PROJECT = "project"
    """The project's use of one service, in all regions; another backend may work."""
    ACCOUNT = "account"
    """The credentials, or their permissions."""
    JOB = "job"
    """A job that was created."""


class GputrainError(Exception):
    """Root of all errors of this package.

    Args:
        what: one sentence that says what happened.
        why: the cause, where it is known.
        fix: what to do.
        raw: the provider's response, unchanged; ``str()`` does not show it.
        facts: other attributes that the class declares, also these four:
            ``kind``, a stable word for the case and the anchor of its entry in the error reference;
            ``scope``, what the error affects;
            ``retryable``: the same call may succeed later;
            ``try_elsewhere``: another place of the same project may work now.
    """

    kind: str = "error"
    scope: Scope = Scope.CALL
    retryable: bool = False
    try_elsewhere: bool = False

    def __init__(self, what: str, *, why: str = "", fix: str = "", raw: Any = None, **facts: Any) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix
        self.raw = raw
        for name, value in facts.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} carries no fact named {name!r}")
            setattr(self, name, value)
        self._facts = facts

    def __str__(self) -> str:
        return sanitize(self._text())

    def _text(self) -> str:
        parts = {"why": self.why, "fix": self.fix}
        return "\n".join([self.what, *(f"  {name}: {text}" for name, text in parts.items() if text)])

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON types: its class, kind, what, why, fix, scope and facts; without ``raw``."""
        common = "what", "why", "fix", "kind", "scope", "retryable", "try_elsewhere"
        facts = {name: getattr(self, name) for name in self._facts if not name.startswith("_")}
        document = {"type": type(self).__name__, **{name: getattr(self, name) for name in common}, **facts}
        return dict(plain(document))

    def _render_traceback_(self) -> list[str]:  # for IPython: without the frames of this library
        return [f"{type(self).__name__}: {self}"]

    def __reduce__(self) -> tuple[Any, ...]:
        same = partial(type(self), self.what, why=self.why, fix=self.fix, raw=self.raw, **self._facts)
        return same, ()


class RequestError(GputrainError):
    """The request must be changed; sending it again does not help."""

    kind = "request"
    scope = Scope.REQUEST


@attrs.frozen(kw_only=True)
class FieldError:
    """One thing wrong with one field."""

    field: str
    value: str
    """The value as it was given: its repr, shortened, with secrets hidden."""
    expected: str = ""
    """What would be valid, as a noun phrase."""
    fix: str = ""
    """What to write instead."""
    problem: str = ""
    """What is wrong, where that is more than "VALUE is not valid"."""

    def __str__(self) -> str:
        problem = self.problem or ("missing" if self.value == "None" else f"{self.value} is not valid")
        expected = f". Expected {self.expected}" if self.expected else ""
        fix = f". Try: {self.fix}" if self.fix else ""
        return sanitize(f"{self.field}: {problem}{expected}{fix}")


class SpecError(RequestError, ValueError):
    """A spec has faults; ``faults`` holds all of them, each naming its field."""

    kind = "spec"
    faults: tuple[FieldError, ...] = ()


class UnknownGpuError(SpecError):
    """No GPU has this name; ``nearest`` holds the closest names."""

    kind = "unknown_gpu"
    nearest: tuple[str, ...] = ()


class NoFitError(RequestError):
    """No machine type has this shape; ``refusals`` says why for each one that was tried, and what would work.

    ``counts`` holds the GPU counts that exist, ``nearest`` the closest names of machine types.
    """

    kind = "no_fit"
    refusals: tuple[Any, ...] = ()
    counts: tuple[Any, ...] = ()
    nearest: tuple[str, ...] = ()


class AccessError(GputrainError):
    """The account, project or policy must be changed."""

    kind = "access"
    scope = Scope.ACCOUNT


class AuthError(AccessError):
    """No usable credentials."""

    kind = "credentials_missing"


class PermissionDeniedError(AccessError):
    """A ``permission`` is missing, for ``service_account`` where the provider names one."""

    kind = "permission"
    permission: str = ""
    service_account: str = ""


class ApiDisabledError(AccessError):
    """An API of the project is disabled (``api``)."""

    kind = "api_disabled"
    scope = Scope.PROJECT
    api: str = ""


class OrgPolicyError(AccessError):
    """An organization policy forbids the request (``constraint``)."""

    kind = "org_policy"
    scope = Scope.PROJECT
    constraint: str = ""


class QuotaExceededError(AccessError):
    """A quota is too small: ``metric``, ``limit``, ``usage``, ``need`` and ``where``, a region or ``global``.

    ``metrics`` holds all metrics where the provider names several. ``limit_name`` and ``dimensions``
    are those of Cloud Quotas; ``future_limit`` has been granted and applies soon. None: unknown.
    """

    kind = "quota_region"
    scope = Scope.REGION
    try_elsewhere = True
    metric: str = ""
    limit: float | None = None
    usage: float | None = None
    need: float | None = None
    where: str = ""
    metrics: tuple[str, ...] = ()
    limit_name: str = ""
    future_limit: float | None = None
    dimensions: Mapping[str, str] = MappingProxyType({})


class CapacityError(GputrainError):
    """No machines at ``place``, for good if ``is_lasting``; ``zones_available`` are named by the provider."""

    kind = "stockout"
    scope = Scope.ZONE
    try_elsewhere = True
    place: str = ""
    is_lasting: bool = False
    zones_available: tuple[str, ...] = ()


class TransientError(GputrainError):
    """A temporary failure; ``retry_after_s`` is the wait that the provider asks for.

    ``metric`` is a rate limit that refills in ``refills_in_s``, ``unreached`` an address without answer.
    """

    kind = "transient"
    retryable = True
    retry_after_s: float | None = None
    refills_in_s: float | None = None
    metric: str = ""
    unreached: str = ""


class NoPlacementError(GputrainError):
    """Every candidate was refused; see ``plan`` and ``attempts``."""

    kind = "no_placement"
    scope = Scope.REQUEST
    plan: Any = None
    attempts: tuple[Any, ...] = ()


class JobError(GputrainError):
    """A job has a problem; ``uri`` names it."""

    kind = "job"
    scope = Scope.JOB
    uri: str = ""


class JobFailedError(JobError):
    """The job ended without success.

    ``kind`` is the cause (``exception``, ``signal``, ``exit``, ``out_of_memory``, ``node_missing``...);
    ``rank`` is the first rank that failed (None when no rank did), with its ``exit_code``, ``traceback``
    and ``last_lines``.
    """

    kind = "unknown"
    rank: int | None = None
    node_rank: int | None = None
    exit_code: int | None = None
    traceback: str = ""
    last_lines: tuple[str, ...] = ()

    def _text(self) -> str:
        text = super()._text()
        if self.traceback:
            return f"{text}\n{self.traceback.rstrip()}"
        if self.last_lines:
            return "\n".join([text, "  last lines:", *(f"    {line}" for line in self.last_lines)])
        return text


class JobLostError(JobError):
    """The job cannot be found."""

    kind = "job_lost"


class JobTimeoutError(JobError):
    """The wait ended before the job did; the job continues."""

    kind = "job_timeout"


class StoppedError(JobError):
    """The wait was stopped by the caller; the job continues, if there is one."""

    kind = "wait_stopped"


class ProviderError(GputrainError):
    """An unknown response, kept in ``code`` and ``raw``; it is not retried."""

    kind = "unknown"
    code: str = ""
