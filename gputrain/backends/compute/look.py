"""A look at a job, which changes nothing: its VMs, their guests' words, and Google's on those that went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.compute.calls import Calls, ours
from gputrain.backends.compute.causes import (
    GangVerdict,
    VmReport,
    is_half,
    judge,
    of_ask,
    reports_of,
    seconds_of,
)
from gputrain.backends.compute.moments import moments, ran
from gputrain.backends.compute.names import JobObjects, VmNames
from gputrain.backends.compute.queue import Queue
from gputrain.backends.compute.queued import Queued, deleted, queued
from gputrain.backends.status import losses
from gputrain.gcp.buckets import BucketPrefix
from gputrain.gcp.errors import TooLargeError
from gputrain.gcp.forms import Json
from gputrain.gcp.objects import Objects
from gputrain.gcp.shared import Shared
from gputrain.keeper.status import ENDED, RUNNING
from gputrain.lifecycle import Failure, Observation, State
from gputrain.records import Record
from gputrain.records.record import SHORTEST_RESTART_S

UNSTARTED_S = 900.0
"""How long a submit may be under way before a job without VMs counts as never started."""

BEFORE_S = 60.0
"""How far Cloud Storage's clock may be ahead of Compute Engine's."""

FEW = 4
FRESH_S = 0.5
PAGE_COSTS_S = 3.0
"""500 VMs on a page, and a page in each 3 s is 20 calls a minute and zone: with what jobs of a region ask for
themselves, at most a call a second, watching stays below 150 a minute."""

LARGEST_STATUS = 1_000_000
"""Bytes of what one guest writes of itself; its result is of some thousand."""
PREPARING = frozenset({"PENDING", "PROVISIONING", "STAGING"})
_Listed = tuple[Mapping[str, Json], bool]


class Looks:
    """Looks at jobs by their records; the VMs of a zone are listed for all jobs together."""

    def __init__(
        self, calls: Calls, bucket: BucketPrefix, stored: Objects, account: str, queue: Queue
    ) -> None:
        self._calls, self._queue = calls, queue
        self._bucket = bucket
        self._stored = stored
        self._account = account
        self._listed: Shared[str, _Listed] = Shared(fresh_s=_fresh_s, now=calls.access.now)

    def observe(self, record: Record) -> Observation:
        """The job as it is now, by its present record."""
        if not record.is_open:
            return _unplaced(record)
        gang = VmNames.of(record)
        vms, is_whole = self._vms(gang)
        if not is_whole and len(vms) < len(gang.names):
            return Observation(detail="the list of VMs is incomplete")
        if gang.queue and len(vms) < len(gang.names):
            request = self._queue.request(gang)
            if (stands := queued(record, request)) is not None:
                return _in_queue(record, stands)
            if request is not None:  # served just now, however old the ask is: lists may not know it yet
                vms = {**vms, **self._singly(gang, vms)}
        nodes = self.nodes(gang, vms)
        if any(_is_unheard(node) for node in nodes):
            nodes = self.nodes(gang, {**vms, **self._singly(gang, vms)})
        if not any(node.status or node.document for node in nodes):
            nodes = self.joined(record, nodes)
            if gang.queue and (who := self._queue.deleted_by(gang)):
                return _in_queue(record, deleted(who))
            if not any(node.operations for node in nodes):
                return _unplaced(record)
        is_over = all(node.is_over for node in nodes)
        return self._ended_one(record, nodes) if is_over else _living(record, gang, nodes)

    def listed(self, record: Record) -> tuple[VmReport, ...]:
        """The VMs of a record's latest ask, as one list tells of all in the zone; none where it has none."""
        if not record.is_open:
            return ()
        gang = VmNames.of(record)
        vms, _ = self._list(gang.zone)
        return _standing(gang, {name: vm for name, vm in vms.items() if gang.owns(vm)})

    def living(self, record: Record) -> Observation | None:
        """A job whose VMs all are in the zone's list; None where more has to be asked."""
        gang = VmNames.of(record)
        listed, _ = self._list(gang.zone)
        vms = {name: listed[name] for name in gang.names if name in listed and gang.owns(listed[name])}
        if len(vms) < len(gang.names):
            return None
        nodes = self.nodes(gang, vms)
        return None if any(node.is_over for node in nodes) else _living(record, gang, nodes)

    def changed(self, record: Record, seen: Observation, listed: tuple[VmReport, ...]) -> Observation:
        """The job with what the zone's list tells of its VMs now, and what their guests have said so far."""
        before = {
            node.rank: node.document for node in reports_of(seen) if node.vm_id == listed[node.rank].vm_id
        }
        nodes = (attrs.evolve(node, document=before.get(node.rank)) for node in listed)
        return _living(record, VmNames.of(record), tuple(nodes))

    def booted(self, record: Record, seen: Observation) -> Observation:
        """The job with what guests that boot have said since; none behind one with nothing new to say."""
        gang, nodes = VmNames.of(record), reports_of(seen)
        for rank, node in enumerate(nodes):
            if node.told.has_started:
                continue
            nodes[rank] = self._heard(gang, node)
            if nodes[rank] == node:
                break
        return _living(record, gang, tuple(nodes))

    def nodes(self, gang: VmNames, vms: Mapping[str, Json]) -> tuple[VmReport, ...]:
        """Each VM's state, and the document its guest wrote last."""
        found = _standing(gang, vms)
        if {node.status for node in found} <= PREPARING:  # no guest has a word to say yet
            return found
        return tuple(self._heard(gang, node) for node in found)

    def _heard(self, gang: VmNames, node: VmReport) -> VmReport:
        """A VM with what its guest says; a word of another VM of its name is not its own."""
        objects = JobObjects(bucket=self._bucket, job_id=gang.job_id)
        document = self._document(objects.status(gang.attempt, node.rank))
        told = str((document or {}).get("vm_id") or node.vm_id)
        if node.vm_id in ("", told):
            return attrs.evolve(node, document=document)
        if gang.queue:  # Google may make VMs and remove them before it has room for all: the word is old
            return node
        return attrs.evolve(node, status="", document=document)

    def _document(self, name: str) -> Mapping[str, Any] | None:
        """What a guest wrote; whatever is no JSON object, or of a size no guest writes, is not its word."""
        try:
            stored = self._stored.read(name, most_bytes=LARGEST_STATUS)
            document = json.loads(stored.content) if stored else None
        except (TooLargeError, ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    def told(self, record: Record, nodes: tuple[VmReport, ...]) -> tuple[GangVerdict, tuple[VmReport, ...]]:
        """Why a gang that is over ended, and its nodes; asks Google unless the guests have said it all."""
        is_cancelled = record.is_to_end
        plain = judge(nodes, account=self._account, is_cancelled=is_cancelled)
        if plain.cause is None and all(node.told.is_over for node in nodes):
            return plain, nodes
        joined = self.joined(record, nodes)
        return judge(joined, account=self._account, is_cancelled=is_cancelled), joined

    def joined(self, record: Record, nodes: tuple[VmReport, ...]) -> tuple[VmReport, ...]:
        """The nodes with Google's operations on them."""
        gang = VmNames.of(record)
        if not gang.names:
            return nodes
        stem = gang.names[0].rpartition("-")[0]
        listing = self._calls.operations(gang.zone, f'targetLink eq ".*/instances/{stem}-[0-9]+"')
        by_name: dict[str, list[Json]] = {}
        for operation in listing.whole(f"tell what became of {record.job_id}"):
            if seconds_of(operation.get("insertTime")) > record.latest.at - BEFORE_S:
                name = str(operation.get("targetLink", "")).rpartition("/")[2]
                by_name.setdefault(name, []).append(operation)
        found = [by_name.get(name, []) for name in gang.names]
        mine = (of_ask(node, found[node.rank], is_queued=bool(gang.queue)) for node in nodes)
        return tuple(attrs.evolve(node, operations=ops) for node, ops in zip(nodes, mine))

    def _ended_one(self, record: Record, nodes: tuple[VmReport, ...]) -> Observation:
        verdict, nodes = self.told(record, nodes)
        cause = verdict.cause
        state, title = (State.SUCCEEDED, "") if cause is None else (cause.state, cause.title)
        title = "" if cause is causes.UNKNOWN else title
        ran_s = ran(record, nodes)
        may_restart = cause is not None and cause.may_restart and not record.over and record.restarts_left > 0
        may_restart = may_restart and record.spent(ran_s).left_s >= SHORTEST_RESTART_S
        failure = verdict.failure
        lost = losses([one.told for one in nodes], [one.result for one in nodes])
        said = ": ".join(filter(None, [title, verdict.detail])) or (failure.message if failure else "")
        code = next((one.told.exit_code for one in nodes if one.document), None)
        seen = _observation(
            record,
            nodes,
            state=State.INTERRUPTED if may_restart else state,
            detail="; ".join(filter(None, [said, lost, record.unread if cause else ""])),
            failure=failure,
            ended_at=max(moments(record, nodes, ENDED), default=None),
            exit_code=failure.exit_code if failure and failure.exit_code is not None else code,
            ran_s=ran_s,
        )
        return attrs.evolve(seen, raw={**seen.raw, "cause": state.value if cause is None else cause.kind})

    def _vms(self, gang: VmNames) -> tuple[Mapping[str, Json], bool]:
        listed, is_whole = self._list(gang.zone)
        found = {name: listed[name] for name in gang.names if name in listed and gang.owns(listed[name])}
        if len(found) < len(gang.names):  # gone, or its labels were edited by hand
            stem = gang.names[0].rpartition("-")[0]
            by_name = self._calls.instances(gang.zone, f'name eq "{stem}-[0-9]+"')
            named = {str(vm["name"]): vm for vm in by_name.seen if not gang.is_anothers(vm)}
            found |= {name: named[name] for name in gang.names if name in named}
            is_whole = is_whole and by_name.is_whole
        return found, is_whole

    def _singly(self, gang: VmNames, found: Mapping[str, Json]) -> dict[str, Json]:
        """The VMs that lists lack, asked for by name, which lags behind nothing."""
        singly = {name: self._calls.instance(gang.zone, name) for name in gang.names if name not in found}
        return {name: vm for name, vm in singly.items() if vm}

    def _list(self, zone: str) -> _Listed:
        """Our VMs of a zone by name, and whether the list is whole: a partial one proves no absence."""

        def read() -> _Listed:
            listing = self._calls.instances(zone, ours())
            return {str(vm["name"]): vm for vm in listing.seen}, listing.is_whole

        return self._listed.get(zone, read)


def _is_unheard(node: VmReport) -> bool:
    """Whether lists lack a VM that has not said its last: they may lag, or lack what is there."""
    return not node.status and not node.told.is_over


def _standing(gang: VmNames, vms: Mapping[str, Json]) -> tuple[VmReport, ...]:
    """The VMs of a gang that are among these, as Google tells of them."""
    mine = {name: vm for name, vm in vms.items() if not gang.is_anothers(vm)}
    found = enumerate(mine.get(name, {}) for name in gang.names)
    told = ((rank, str(vm.get("status", "")), str(vm.get("id", ""))) for rank, vm in found)
    return tuple(VmReport(rank=rank, status=status, vm_id=number) for rank, status, number in told)


def _fresh_s(listed: _Listed) -> float:
    found = len(listed[0])
    return FRESH_S if found <= FEW else PAGE_COSTS_S * -(-found // 500)


def _living(record: Record, gang: VmNames, nodes: tuple[VmReport, ...]) -> Observation:
    statuses = {node.status for node in nodes}
    if record.is_to_end:
        state = State.STOPPING
    elif "PENDING" in statuses:
        state = State.QUEUED
    elif statuses & {*PREPARING, "REPAIRING"} or not all(node.told.has_started for node in nodes):
        state = State.PROVISIONING
    else:
        state = State.RUNNING
    told = ", ".join(sorted(status.lower() for status in statuses if status))
    gone = ", ".join(gang.names[node.rank] for node in nodes if node.is_over)
    detail = f"{gone} is gone; whoever waits for the job ends the rest" if is_half(nodes) else f"VMs {told}"
    return _observation(record, nodes, state=state, detail=detail)


def _in_queue(record: Record, stands: Queued) -> Observation:
    told = {"state": stands.state, "detail": stands.detail, "failure": stands.failure}
    return attrs.evolve(_observation(record, (), **told), raw={"queue": {"is_late": stands.is_late}})


def _unplaced(record: Record) -> Observation:
    """A job without VMs of which nobody has a word to say: it was never asked for, or waits for room."""
    state, detail, failure = State.QUEUED, "", None
    if record.is_to_end:
        state, detail = State.CANCELLED, causes.CANCELLED.title
    elif record.over:
        cause = causes.of(record.over)
        state, detail = cause.state, cause.title
        failure = Failure(kind=cause.kind, message=cause.title)
    elif record.attempt or record.is_made or record.waiting_since:
        state, detail = State.INTERRUPTED, record.unread or "waits for capacity"
    elif record.age_s > UNSTARTED_S:
        state, detail = causes.UNSTARTED.state, f"{causes.UNSTARTED.title}: {causes.UNSTARTED.fix}"
        failure = Failure(kind=causes.UNSTARTED.kind, message=detail)
    return _observation(record, (), state=state, detail=detail, failure=failure)


def _observation(record: Record, nodes: tuple[VmReport, ...], **seen: Any) -> Observation:
    last = record.last
    return Observation(
        started_at=min(moments(record, nodes, RUNNING), default=None),
        attempt=record.attempt,
        ran_before_s=record.used_s,
        spent_before_usd=record.used_usd,
        price_usd_h=last.price_usd_h if last else None,
        place=last.way.place if last else "",
        ask=last.nonce if last else "",
        raw={"nodes": [attrs.asdict(node, recurse=False) for node in nodes]},
        **seen,
    )
