"""Why the VMs of a job ended: their states, Google's operations and the guests' own documents, joined. Pure.

A VM's state alone cannot tell success from preemption: a VM that was reclaimed, one that reached its limit,
one that a person deleted and one that ended well are all just gone. What happened first is the cause.
Source of the operation types: public audit logs and threads, read 2026-11-20.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.agent_reports import Status, asked_by, first_cause, silence
from gputrain.backends.compute.calls import error_of, errors_of
from gputrain.backends.google import cause_of
from gputrain.causes import Blame, Cause
from gputrain.errors import CapacityError
from gputrain.lifecycle import Failure
from gputrain.runtime import contract
from gputrain.runtime.contract import ENDED, UNABLE
from gputrain.times import moment_of

Document = Mapping[str, Any]


_SYSTEM = "compute.instances."
OPERATIONS: Mapping[str, Cause | None] = {
    f"{_SYSTEM}preempted": causes.PREEMPTED,
    f"{_SYSTEM}baremetalCaretakerPreempted": causes.PREEMPTED,
    f"{_SYSTEM}hostError": causes.HOST_ERROR,
    f"{_SYSTEM}terminateOnHostMaintenance": causes.MAINTENANCE,
    f"{_SYSTEM}guestTerminate": causes.GUEST_SHUTDOWN,
    f"{_SYSTEM}deferredStop": causes.TIME_LIMIT,
    f"{_SYSTEM}deferredDelete": causes.TIME_LIMIT,
    f"{_SYSTEM}migrateOnHostMaintenance": None,
    f"{_SYSTEM}automaticRestart": None,
    f"{_SYSTEM}upcomingMaintenance": None,
    f"{_SYSTEM}upcomingInfraMaintenance": None,
}
"""System operations by type; None says nothing about an end. One that is not here is the host's fault."""

BY_PEOPLE = frozenset({"stop", "delete", "suspend"})
HALTED = frozenset({"TERMINATED", "STOPPED", "SUSPENDED"})
_CREATION = frozenset({"UNSUPPORTED_OPERATION", "RESOURCE_NOT_FOUND"})
"""Codes of an insert whose VM was reclaimed under way. Source: SkyPilot, undocumented, read 2026-11-20."""

_AGENT = re.compile(r"system|(?:service-\d+@[\w-]+\.iam|\d+@cloudservices)\.gserviceaccount\.com")
"""Accounts through which Google's services act, a managed group of VMs by the last. Source: IAM's pages."""

_MUTE = "it removed itself without a word: it could not write to the bucket"
_NOTICES = {"preempted": causes.PREEMPTED, "maintenance": causes.MAINTENANCE}


@attrs.frozen(kw_only=True)
class VmReport:
    """What is known of one VM of the job."""

    rank: int
    status: str = ""
    """Google's word; empty once it is gone."""
    agent: Status
    """What the guest's supervisor wrote last."""
    operations: tuple[Document, ...] = ()
    """Google's operations on it, by its number."""

    @property
    def is_over(self) -> bool:
        """Whether nothing of the job runs on it any more, or will."""
        return self.agent.is_over or not self.status or self.status in HALTED

    @property
    def is_traceless(self) -> bool:
        """Gone, and neither Google nor its guest says how."""
        kinds = {str(one.get("operationType", "")) for one in self.operations} - {"insert", "bulkInsert"}
        is_explained = any(OPERATIONS.get(kind, causes.VANISHED) is not None for kind in kinds)
        return not (self.status or self.agent.is_over or is_explained)


@attrs.frozen(kw_only=True)
class Ending:
    """Why an attempt ended."""

    cause: Cause | None = None
    """None: it ended well."""
    detail: str = ""
    failure: Failure | None = None


def judge(nodes: Sequence[VmReport], *, account: str, is_cancelled: bool) -> Ending:
    """Why a job whose VMs are over ended.

    Args:
        nodes: all of them, by rank.
        account: the VMs' own service account: what it deletes has ended already.
        is_cancelled: whether somebody cancelled the job with us.
    """
    results = [node.agent.result for node in nodes]
    if results[0].get(contract.R_STATE) == contract.STATE_DONE:
        return Ending()
    of_ranks, failed_at = first_cause(results), None
    blamed = Ending(cause=causes.of(of_ranks.kind if of_ranks else ""), failure=of_ranks)
    if of_ranks is not None and causes.of(of_ranks.kind).fault is Blame.USER:
        failed_at = min((seconds_of(one.get(contract.R_ENDED_AT)) for one in results if one), default=0.0)
    events = sorted(_events(nodes, account), key=lambda event: event[0])
    if failed_at is not None and not any(at < failed_at for at, _, _ in events):
        return blamed
    if is_cancelled:
        return Ending(cause=causes.CANCELLED, failure=_said(causes.CANCELLED, nodes[0]))
    traceless = [node for node in nodes if node.is_traceless]
    for _, cause, node in events:
        if cause is causes.STOPPED_BY_PERSON and traceless and node not in traceless:
            break  # the rest of the VMs were deleted after a VM had vanished
        failure = _said(cause, node)
        return Ending(cause=cause, detail=_detail(cause, node), failure=failure)
    if failed_at is not None:
        return blamed
    if all(one.get(contract.R_STATE) == contract.STATE_STOPPED for one in results):
        by_itself = Failure(kind=causes.STOPPED.kind, message=asked_by(results), exit_code=contract.STOPPED)
        return Ending(cause=causes.STOPPED, failure=of_ranks or by_itself)
    gone = next((node for node in (*traceless, *nodes) if not node.agent.is_over), nodes[0])
    was_mute = not gone.agent.is_over and any(
        one.get("operationType") == "delete" and one.get("user") == account for one in gone.operations
    )
    failure, detail = _said(causes.VANISHED, gone), _MUTE if was_mute else ""
    return Ending(cause=causes.VANISHED, detail=detail, failure=failure)


def has_ended_in_order(node: VmReport) -> bool:
    """Whether it said how it ended, and its agent ran: the agents of the others know of it."""
    return node.agent.is_over and node.agent.why not in UNABLE


def _events(nodes: Sequence[VmReport], account: str) -> Iterator[tuple[float, Cause, VmReport]]:
    """Everything but the ranks' own failures that can have ended the job, with its time."""
    for node in nodes:
        ended_at = node.agent.at(ENDED)
        ended = ended_at.timestamp() if ended_at else 0.0
        for operation in node.operations:
            cause = _of_operation(operation, account)
            at = seconds_of(operation.get("insertTime"))
            if cause is not None and not (node.agent.is_over and at >= ended):
                yield at, cause, node
        stop = node.agent.result.get(contract.R_STOP, {})
        notice = _NOTICES.get(stop.get("reason", "").split(":")[0])
        if node.agent.cause is not None:
            yield ended, node.agent.cause, node
        elif node.agent.is_over and notice is not None and stop.get("node_rank") == node.rank:
            yield ended, notice, node


def _of_operation(operation: Document, account: str) -> Cause | None:
    kind, user = str(operation.get("operationType", "")), str(operation.get("user", ""))
    if kind == "insert":
        error = error_of(operation, "make the VM")
        if {str(one.get("code")) for one in errors_of(operation)} & _CREATION:
            return causes.PREEMPTED_IN_CREATION
        if isinstance(error, CapacityError):  # of one VM that was to come all the same
            return causes.WAIT_LIMIT
        return None if error is None else cause_of(type(error)) or causes.UNKNOWN
    if kind in BY_PEOPLE:
        return None if user == account else causes.STOPPED_BY_PERSON
    return OPERATIONS.get(kind, causes.HOST_ERROR) if kind.startswith(_SYSTEM) else None


def _detail(cause: Cause, node: VmReport) -> str:
    if cause is causes.STOPPED_BY_PERSON:
        who = [str(one.get("user")) for one in node.operations if one.get("operationType") in BY_PEOPLE]
        if who and _AGENT.fullmatch(who[0]):
            return f"by {who[0]}, Google's own: the VM's group, a schedule or a policy wanted it so"
        return f"by {who[0]}" if who else ""
    if cause is causes.TIME_LIMIT:
        return "; ".join(filter(None, (cause.title, silence([node.agent.result]))))
    if cause in (causes.QUOTA_REGION, causes.UNKNOWN):
        errors = (error_of(one, "make the VM") for one in node.operations)
        return next((f"{one.what}: {one.why}" for one in errors if one), "")
    return node.agent.message if cause in (causes.BOOT, causes.REBOOTED, causes.STOPPED) else ""


def _said(cause: Cause, node: VmReport) -> Failure:
    text = _detail(cause, node) or cause.title
    return Failure(kind=cause.kind, message=text, node_rank=node.rank, exit_code=node.agent.exit_code)


def of_last_made(node: VmReport, operations: Sequence[Document]) -> tuple[Document, ...]:
    """Of the operations on VMs of one name that waited in Google's queue, those on the VM that stayed.

    The queue makes VMs before it has room for all, and takes them back. They are distinguished by Google's
    number: as the guest says it, or that of the first one that was not taken back.
    """
    made = [one for one in operations if one.get("operationType") == "insert"]
    made.sort(key=lambda one: seconds_of(one.get("insertTime")))
    deleted = [
        (one.get("targetId"), one.get("user")) for one in operations if one.get("operationType") == "delete"
    ]
    stayed = [one for one in made if (one.get("targetId"), one.get("user")) not in deleted] or made[-1:]
    number = str(node.agent.raw.get("vm_id", ""))
    if stayed and (not number or number in {str(one.get("targetId")) for one in made if one not in stayed}):
        number = str(stayed[0].get("targetId"))
    return tuple(one for one in operations if number in ("", str(one.get("targetId"))))


def seconds_of(text: object) -> float:
    """Seconds since 1970 of an RFC 3339 time; 0 for none."""
    moment = moment_of(text)
    return moment.timestamp() if moment else 0.0
