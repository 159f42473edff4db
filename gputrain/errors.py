"""Every error that gputrain raises, grouped by what the reader has to do about it.

::

    GputrainError
    ├─ RequestError            mend the request
    │  ├─ SpecError            (also ValueError) every fault of a spec at once
    │  │  └─ UnknownGpuError   (nearest names)
    │  └─ NoFitError           (counts that exist)
    ├─ AccessError             mend the account
    │  ├─ AuthError
    │  ├─ PermissionDeniedError
    │  ├─ ApiDisabledError
    │  ├─ OrgPolicyError
    │  └─ QuotaExceededError   (metric, limit, usage, need, where)
    ├─ CapacityError           try elsewhere (place, zones with capacity)
    ├─ TransientError          try again (retry_after_s)
    ├─ NoPlacementError        every candidate refused (plan, attempts)
    ├─ JobError                look into the job
    │  ├─ JobFailedError       (kind, rank, exit code, traceback, last lines)
    │  ├─ JobLostError
    │  ├─ JobTimeoutError
    │  └─ StoppedError
    └─ ProviderError           unknown answer (raw code and body)

Each pickles and carries ``what`` happened, ``why``, a ``fix`` for today and the provider's ``raw`` payload;
its ``kind`` names the case, ``scope``, ``retryable`` and ``try_elsewhere`` tell a program what may help.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import attrs

from gputrain.terminal import safe


class Scope(enum.Enum):
    """How far an error reaches: everything that shares its fate with the call that met it."""

    CALL = "call"
    """This call alone: the next one may go through."""
    REQUEST = "request"
    """The same request, wherever it is sent."""
    ZONE = "zone"
    REGION = "region"
    PROJECT = "project"
    """The project's use of this one service, in all regions: another backend may do."""
    ACCOUNT = "account"
    """Whoever calls: the credentials, or what was granted to them."""
    JOB = "job"
    """A job that was made; submitting is not to blame."""


class GputrainError(Exception):
    """Root of all errors of this package.

    ``kind`` is a stable word for the case, the anchor of its entry on the page of errors. ``scope`` says
    how far it reaches; ``retryable`` that the same call may succeed by itself later, if it may be
    repeated at all; ``try_elsewhere`` that another place of the same project may do better now.

    Args:
        what: one sentence saying what happened.
        why: the cause, where it is known.
        fix: something the reader can do today.
        raw: the provider's own answer, kept word for word; not shown by ``str()``.
        facts: what else the class declares; ``kind``, ``scope``, ``retryable`` and ``try_elsewhere`` too.
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
        return safe(self._told())

    def _told(self) -> str:
        told = {"why": self.why, "fix": self.fix}
        return "\n".join([self.what, *(f"  {name}: {text}" for name, text in told.items() if text)])

    def _render_traceback_(self) -> list[str]:  # IPython asks for it: without the frames of this library
        return [f"{type(self).__name__}: {self}"]

    def __reduce__(self) -> tuple[Any, ...]:
        same = partial(type(self), self.what, why=self.why, fix=self.fix, raw=self.raw, **self._facts)
        return same, ()


class RequestError(GputrainError):
    """The request itself must be mended; sending it again changes nothing."""

    kind = "request"
    scope = Scope.REQUEST


@attrs.frozen(kw_only=True)
class Fault:
    """One thing wrong with one field of a spec."""

    field: str
    value: str
    """The offending value as text, cut short and with anything that looks like a secret hidden."""
    allowed: str
    fix: str

    def __str__(self) -> str:
        return safe(f"{self.field}={self.value}: {self.allowed}. Fix: {self.fix}")


class SpecError(RequestError, ValueError):
    """A spec has faults; ``faults`` holds all of them, each naming its field."""

    kind = "spec"
    faults: tuple[Fault, ...] = ()


class UnknownGpuError(SpecError):
    """No GPU goes by this name; ``nearest`` holds the names that come closest."""

    kind = "unknown_gpu"
    nearest: tuple[str, ...] = ()


class NoFitError(RequestError):
    """Nothing on sale has this shape; ``refusals`` says for each thing tried why not, and what would work.

    ``counts`` holds the GPU counts that exist, ``nearest`` the machine types whose names come closest.
    """

    kind = "no_fit"
    refusals: tuple[Any, ...] = ()
    counts: tuple[Any, ...] = ()
    nearest: tuple[str, ...] = ()


class AccessError(GputrainError):
    """The account, project or policy must be mended."""

    kind = "access"
    scope = Scope.ACCOUNT


class AuthError(AccessError):
    """No usable credentials."""

    kind = "credentials_missing"


class PermissionDeniedError(AccessError):
    """The caller lacks a ``permission``; ``service_account`` is whom it is about, where it is told."""

    kind = "permission"
    permission: str = ""
    service_account: str = ""


class ApiDisabledError(AccessError):
    """An API of the project is switched off (``api``)."""

    kind = "api_disabled"
    scope = Scope.PROJECT
    api: str = ""


class OrgPolicyError(AccessError):
    """An organization policy forbids the request (``constraint``)."""

    kind = "org_policy"
    scope = Scope.PROJECT
    constraint: str = ""


class QuotaExceededError(AccessError):
    """A quota is too small: ``metric``, ``limit``, ``usage``, ``need`` and ``where`` it applies.

    ``where`` is a region, or ``global``. ``metrics`` holds all the metrics where the provider names several.
    ``limit_name`` and ``dimensions`` are Cloud Quotas' words, ``future_limit`` is on its way; None: untold.
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
    """No machines at ``place``, or never any (``is_lasting``); the provider names ``zones_available``."""

    kind = "stockout"
    scope = Scope.ZONE
    try_elsewhere = True
    place: str = ""
    is_lasting: bool = False
    zones_available: tuple[str, ...] = ()


class TransientError(GputrainError):
    """A passing failure; only `gputrain.retry` looks at ``retry_after_s``, the wait that was asked for.

    ``metric`` names a limit that is used up until ``refills_in_s``, ``unreached`` an address nobody is at.
    """

    kind = "transient"
    retryable = True
    retry_after_s: float | None = None
    refills_in_s: float | None = None
    metric: str = ""
    unreached: str = ""


class NoPlacementError(GputrainError):
    """Every candidate was refused; ``plan`` and the ledger of ``attempts`` tell the story."""

    kind = "no_placement"
    scope = Scope.REQUEST
    plan: Any = None
    attempts: tuple[Any, ...] = ()


class JobError(GputrainError):
    """The job ran into something; ``uri`` names it."""

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

    def _told(self) -> str:
        text = super()._told()
        if self.traceback:
            return f"{text}\n{self.traceback.rstrip()}"
        if self.last_lines:
            return "\n".join([text, "  last lines:", *(f"    {line}" for line in self.last_lines)])
        return text


class JobLostError(JobError):
    """The job vanished: neither it nor its traces can be found."""

    kind = "job_lost"


class JobTimeoutError(JobError):
    """The client's wait ended before the job did; the job goes on."""

    kind = "job_timeout"


class StoppedError(JobError):
    """The client was told to stop waiting; the job goes on, if there is one."""

    kind = "wait_stopped"


class ProviderError(GputrainError):
    """An answer nobody foresaw, kept in ``code`` and ``raw``; never guessed at, never blindly retried."""

    kind = "unknown"
    code: str = ""
