"""One look at a job: its VMs, what their guests wrote, and where they are gone, what Google says of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.compute.calls import Calls
from gputrain.backends.compute.causes import Node, Verdict, judge, seconds_of
from gputrain.backends.compute.official import Json
from gputrain.backends.compute.record import Record, Records
from gputrain.backends.compute.watch import Watch
from gputrain.lifecycle import Failure, Observation, State
from gputrain.staging.bucket import read_object
from gputrain.times import moment_of

UNSTARTED_S = 900.0
"""How long a submit may be under way before a job without VMs counts as never started."""

SHORTEST_RESTART_S = 60
"""What must be left of the time limit for another start to be worth its while."""

LAG_S = 180.0
"""How long after a gang was asked for a list that lacks its VMs is not believed."""

NOTICE_S = 150.0
"""From Google's word that a VM ends to its end, at most: a Spot VM's notice and its 30 s of shutdown."""

_PREPARING = frozenset({"PROVISIONING", "STAGING", "REPAIRING"})
_UNSTARTED = "its creator ended before it could start it; submit it again under the same key"


class Looks:
    """What was seen of each job; a job that runs undisturbed costs no call of its own."""

    def __init__(self, calls: Calls, records: Records, account: str) -> None:
        self._calls = calls
        self._records = records
        self._account = account
        self._lock = threading.Lock()
        self._watches: dict[str, Watch] = {}
        self._running: dict[str, tuple[Record, Observation]] = {}
        self._ended: dict[str, Observation] = {}

    def undisturbed(self, job_id: str) -> Observation | None:
        """What was seen before, where nothing can have changed: it has ended, or all its VMs still run."""
        if job_id in self._ended:
            return self._ended[job_id]
        known = self._running.get(job_id)
        if known is None:
            return None
        listed, _ = self._watch(known[0].zone).look()
        return known[1] if _all_run(known[0], listed) else None

    def observe(self, record: Record) -> Observation:
        """The job as it is now, by its present record."""
        vms, is_whole = self._vms(record)
        if not is_whole and len(vms) < len(record.names):
            return Observation(detail="the list of VMs is incomplete")
        nodes = self.nodes(record, vms)
        if not record.ids and not any(node.status or node.document for node in nodes):
            return self._unstarted(record)
        seen = (
            self._ended_one(record, nodes)
            if all(node.is_over for node in nodes)
            else self._living(record, nodes)
        )
        self._remember(record, seen)
        return seen

    def nodes(self, record: Record, vms: Mapping[str, Json]) -> tuple[Node, ...]:
        """Each VM's state, and the document its guest wrote last."""
        objects = self._records.objects(record.job_id)
        found = []
        for rank, name in enumerate(record.names):
            raw = read_object(self._calls.access, self._records.bucket, objects.status(record.attempt, rank))
            document = json.loads(raw) if raw else None
            found.append(Node(rank=rank, status=str(vms.get(name, {}).get("status", "")), document=document))
        return tuple(found)

    def told(self, record: Record, nodes: tuple[Node, ...]) -> tuple[Verdict, tuple[Node, ...]]:
        """Why a gang that is over ended, and its nodes; asks Google unless the guests have said it all."""
        is_cancelled = self._is_cancelled(record)
        plain = judge(nodes, account=self._account, is_cancelled=is_cancelled)
        if plain.cause is None and all(node.phase == "ended" for node in nodes):
            return plain, nodes
        joined = self.joined(record, nodes)
        return judge(joined, account=self._account, is_cancelled=is_cancelled), joined

    def joined(self, record: Record, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes with Google's operations on them."""
        operations = self._operations(record)
        return tuple(attrs.evolve(node, operations=tuple(operations.get(node.rank, ()))) for node in nodes)

    def _operations(self, record: Record) -> dict[int, list[Json]]:
        """Google's operations on the VMs of the attempt, told by number from those on others of the name."""
        stem = record.names[0].rpartition("-")[0]
        listing = self._calls.operations(record.zone, f'targetLink eq ".*/instances/{stem}-[0-9]+"')
        found: dict[int, list[Json]] = {}
        for operation in listing.items:
            name = str(operation.get("targetLink", "")).rpartition("/")[2]
            number = record.ids.get(name)
            if name in record.names and number in (None, str(operation.get("targetId"))):
                found.setdefault(record.names.index(name), []).append(operation)
        return found

    def _living(self, record: Record, nodes: tuple[Node, ...]) -> Observation:
        statuses = {node.status for node in nodes}
        started = _moment(nodes, "running_at", min)
        if self._is_cancelled(record) or statuses == {"STOPPING"}:
            state = State.STOPPING if self._is_cancelled(record) else State.RUNNING
        elif "PENDING" in statuses:
            state = State.QUEUED
        elif statuses & _PREPARING or not all(node.phase in ("running", "ended") for node in nodes):
            state = State.PROVISIONING
        else:
            state = State.RUNNING
        told = ", ".join(sorted(status.lower() for status in statuses if status))
        return Observation(
            state=state,
            detail=f"VMs {told}",
            started_at=started,
            attempt=record.attempt,
            ran_before_s=record.used_s,
            place=record.zone,
            raw=_raw(nodes),
        )

    def _ended_one(self, record: Record, nodes: tuple[Node, ...]) -> Observation:
        verdict, nodes = self.told(record, nodes)
        cause = verdict.cause
        if cause is None:
            state, title, kind = State.SUCCEEDED, "", State.SUCCEEDED.value
        else:
            state, title, kind = cause.state, cause.title, cause.kind
        may_restart = cause is not None and cause.may_restart and record.restarts_left > 0
        spent = record.spent(self.ran_s(record, nodes))
        may_restart = may_restart and spent.left_s >= SHORTEST_RESTART_S
        detail = ": ".join(filter(None, [title, verdict.detail]))
        failure = verdict.failure
        code = next((one.document.get("exit_code") for one in nodes if one.document), None)
        return Observation(
            state=State.INTERRUPTED if may_restart else state,
            detail=detail or (failure.message if failure else ""),
            failure=failure,
            started_at=_moment(nodes, "running_at", min),
            ended_at=_moment(nodes, "ended_at", max),
            attempt=record.attempt,
            ran_before_s=record.used_s,
            place=record.zone,
            exit_code=failure.exit_code if failure and failure.exit_code is not None else code,
            raw={**_raw(nodes), "cause": kind},
        )

    def ran_s(self, record: Record, nodes: tuple[Node, ...]) -> int:
        """Seconds that an attempt has taken of the time limit: rather too many than too few.

        A VM that Google took may never have written when it began or ended; then the time of the order
        counts, and Google's own word on its end with all the notice that it may have had.
        """
        documents = [node.document or {} for node in nodes]
        starts = [start for one in documents if (start := seconds_of(one.get("booted_at")))]
        if not starts and record.order["queue_s"]:
            return 0  # what it waited in Google's queue was free
        began = min(starts, default=record.asked_at)
        ends = [seconds_of(one.get("ended_at")) for one in documents]
        for node in nodes:
            ends += [seconds_of(one.get("insertTime")) + NOTICE_S for one in node.operations]
        now = self._calls.access.now()
        until = max(ends, default=0.0) if all(node.is_over for node in nodes) else now
        return int(min(max(0.0, (until or now) - began), record.left_s))

    def _unstarted(self, record: Record) -> Observation:
        is_late = self._calls.access.now() > record.asked_at + UNSTARTED_S
        if record.attempt:
            return Observation(state=State.INTERRUPTED, detail="waits for capacity", attempt=record.attempt)
        if not is_late:
            return Observation(state=State.QUEUED)
        failure = Failure(kind=causes.UNSTARTED.kind, message=_UNSTARTED)
        return Observation(state=causes.UNSTARTED.state, detail=_UNSTARTED, failure=failure)

    def _is_cancelled(self, record: Record) -> bool:
        name = self._records.objects(record.job_id).cancel
        return read_object(self._calls.access, self._records.bucket, name) is not None

    def _vms(self, record: Record) -> tuple[Mapping[str, Json], bool]:
        listed, is_whole = self._watch(record.zone).look()
        found = {name: listed[name] for name in record.names if name in listed}
        if len(found) < len(record.names):  # gone, or its labels were edited by hand
            stem = record.names[0].rpartition("-")[0]
            by_name = self._calls.instances(record.zone, f'name eq "{stem}-[0-9]+"')
            found = {str(vm["name"]): vm for vm in by_name.items if vm["name"] in record.names}
            is_whole = is_whole and by_name.is_whole
        if len(found) < len(record.names) and self._calls.access.now() < record.asked_at + LAG_S:
            singly = (self._calls.instance(record.zone, name) for name in record.names if name not in found)
            found |= {str(vm["name"]): vm for vm in singly if vm}
        numbers = record.ids
        return {name: vm for name, vm in found.items() if numbers.get(name, vm["id"]) == vm["id"]}, is_whole

    def _watch(self, zone: str) -> Watch:
        with self._lock:
            return self._watches.setdefault(zone, Watch(self._calls, zone))

    def _remember(self, record: Record, seen: Observation) -> None:
        with self._lock:
            self._running.pop(record.job_id, None)
            if seen.state is State.RUNNING:
                self._running[record.job_id] = (record, seen)
            elif seen.state is not None and seen.state.is_terminal:
                self._ended[record.job_id] = seen


def _all_run(record: Record, vms: Mapping[str, Json]) -> bool:
    found = [vms.get(name, {}) for name in record.names]
    return all(
        vm.get("status") == "RUNNING" and record.ids.get(name, vm["id"]) == vm["id"]
        for name, vm in zip(record.names, found)
    )


def _moment(nodes: tuple[Node, ...], field: str, choose: Any) -> datetime | None:
    moments = [moment for node in nodes if (moment := moment_of((node.document or {}).get(field)))]
    return choose(moments) if moments else None


def _raw(nodes: tuple[Node, ...]) -> dict[str, Any]:
    return {
        "nodes": [
            {"status": node.status, "document": node.document, "operations": list(node.operations)}
            for node in nodes
        ]
    }
