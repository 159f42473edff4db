"""How a gang stands in Google's flex-start queue, as its request tells. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.compute.queue import WAITS
from gputrain.backends.google import cause_of
from gputrain.gcp import answer_of_operation, gravest, to_error
from gputrain.gcp.answer import cut
from gputrain.gcp.forms import mapping, mappings
from gputrain.lifecycle import Failure, State
from gputrain.records import Record


@attrs.frozen(kw_only=True)
class Queued:
    """One look at a request that has no VMs, or not all of them."""

    state: State
    detail: str
    failure: Failure | None = None
    is_late: bool = False
    """It waits for longer than the spec allows. Google would let it wait for ever: whoever acts ends it."""


def queued(record: Record, request: Mapping[str, Any] | None) -> Queued | None:
    """Where a request stands; None where its VMs tell more: it was served, or there is none."""
    state = str((request or {}).get("state", ""))
    status = mapping((request or {}).get("status"))
    waited_s = record.now - (record.waiting_since or record.latest.at)
    is_late = not record.unread and waited_s > record.training_spec.longest_queue.total_seconds()
    if state in WAITS:
        return _waiting(record, status, is_late)
    if state == "FAILED":
        return _failed(record, status)
    if state == "CANCELLED":
        cause = causes.CANCELLED if record.over else causes.STOPPED_BY_PERSON
        cause = causes.WAIT_LIMIT if is_late and not record.over else cause
        failure = Failure(kind=cause.kind, message=cause.title)
        return Queued(state=cause.state, detail=cause.title, failure=failure, is_late=is_late)
    return None


def deleted(who: str) -> Queued:
    """How a gang ended whose group somebody deleted while it waited."""
    cause = causes.STOPPED_BY_PERSON
    return Queued(
        state=cause.state,
        detail=f"its group in Google's queue was deleted by {who}",
        failure=Failure(kind=cause.kind, message=f"its group in Google's queue was deleted: by {who}"),
    )


def _waiting(record: Record, status: Mapping[str, Any], is_late: bool) -> Queued:
    machine, count = record.latest.way.machine_type, len(record.latest.names)
    told = [f"{count} {machine} wait in Google's queue, all or none, and cost nothing"]
    last = mapping(mapping(status.get("lastAttempt")).get("error"))
    told += [cut(one.get("message")) for one in mappings(last.get("errors"))][:1]
    if is_late:
        told.append("longer than max_wait_duration: whoever waits for the job ends that")
    state = State.STOPPING if record.over else State.QUEUED
    return Queued(state=state, detail="; ".join(told), is_late=is_late)


def _failed(record: Record, status: Mapping[str, Any]) -> Queued:
    """Google gave it up, and removed what it had made."""
    place = record.latest.way.place
    errors = mappings(mapping(status.get("error")).get("errors"))
    answers = [answer_of_operation(one, place=place) for one in errors]
    error = gravest(to_error(one, f"make the VMs of {record.job_id}") for one in answers)
    kind, message = causes.STOCKOUT_REGION.kind, "Google gave the request up"
    if error is not None:
        cause = cause_of(type(error))
        kind = error.kind if cause is None else cause.kind
        message = ": ".join(filter(None, [error.what, error.why]))
    return Queued(state=State.FAILED, detail=message, failure=Failure(kind=kind, message=message))
