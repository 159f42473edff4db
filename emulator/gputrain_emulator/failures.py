"""Every documented way in which a call to Compute Engine or Vertex AI goes wrong, by row.

``cloud.fail("compute.instances.insert", "C26")`` makes the next insert go wrong as row C26 of
``data/failures.tsv`` says, and ``cloud.fail("aiplatform.customJobs.create", "V07")`` a create as V07 says. A
small letter behind a number is another form of the same failure. Many rows also come about by themselves when
the world's rules are broken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gputrain_emulator import faults, tables
from gputrain_emulator.errors import ApiError, Style, error_info
from gputrain_emulator.faults import Fault, OperationFails, Refuse

AT_ONCE, LATER, WIRE, LIST = "at once", "in the operation", "on the wire", "in a list"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One row: where it shows, with which status and code, in which words."""

    where: str
    http: int | None
    code: str
    """Old-style reason where it shows at once, ``errors[].code`` in an operation, warning code in a list."""
    domain: str
    info: str
    """ErrorInfo.reason, where the reply carries one; ``facts`` are its metadatas."""
    canonical: str
    """google.rpc.Code of a Vertex AI refusal, where it is not the usual one of its status."""
    message: str
    facts: Mapping[str, str]
    quota: Mapping[str, Any]
    """quotaInfo, where an operation's error carries one."""


def _failure(where: str, http: str, *texts: str) -> Failure:
    code, domain, info, canonical, message, facts, quota = texts
    return Failure(
        where=where,
        http=int(http) if http else None,
        code=code,
        domain=domain,
        info=info,
        canonical=canonical,
        message=message.replace("\\n", "\n"),
        facts=json.loads(facts or "{}"),
        quota=json.loads(quota or "{}"),
    )


_EVERY = {row: _failure(*columns) for row, *columns in tables.rows("failures.tsv")}
ROWS = {row: failure for row, failure in _EVERY.items() if row.startswith("C")}
VERTEX_ROWS = {row: failure for row, failure in _EVERY.items() if row.startswith("V")}


def fault(row: str, **names: str) -> Fault:
    """The fault of one row, its sentences filled in; raises LookupError where there is none."""
    failure = _EVERY.get(row)
    if failure is None:
        raise LookupError(f"no such row: {row!r}; there are {', '.join(_EVERY)}")
    if failure.where == WIRE:
        return faults.html(502)
    if failure.where == LIST:
        return faults.partial_page(failure.code)
    message = failure.message.format(**names)
    facts = {key: text.format(**names) for key, text in failure.facts.items()}
    if failure.where == LATER:
        error: dict[str, Any] = {"code": failure.code, "message": message}
        if failure.info:
            info = {"reason": failure.info, "domain": "compute.googleapis.com", "metadatas": facts}
            error["errorDetails"] = [{"errorInfo": info}]
        if failure.quota:
            error["errorDetails"] = [{"quotaInfo": dict(failure.quota)}]
        return OperationFails(errors=[error], http_status=failure.http)
    domain, style = "googleapis.com", Style.PLATFORM
    if row in ROWS:
        domain, style = "compute.googleapis.com", Style.COMPUTE
    details = [error_info(failure.info, domain, style, **facts)] if failure.info else []
    return Refuse(
        error=ApiError(
            failure.http or 500,
            message,
            reason=failure.code,
            domain=failure.domain,
            canonical=failure.canonical,
            details=details,
        )
    )
