"""How attempts stand: their VMs, what the guests wrote, and Google's word on those that went.

One list shows the VMs of all jobs together, so a job that runs costs no call of its own. What a list lacks
is asked for by its name, and is gone only where the answer is a 404. What guests write is read by turns
where many jobs are watched, and Google's operations only once an attempt is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from gputrain import causes
from gputrain.backends.agent_reports import losses, read
from gputrain.backends.base import Status
from gputrain.backends.compute.calls import Calls
from gputrain.backends.compute.causes import VmReport, has_ended_in_order, judge, of_last_made, seconds_of
from gputrain.backends.compute.flex_queue import FlexQueue, is_late, queue_ended, queue_status
from gputrain.backends.compute.request import AttemptVms
from gputrain.backends.run_reports import Reports, RunReports, times
from gputrain.errors import GputrainError, TransientError
from gputrain.google import LABEL_OWNER
from gputrain.google.cache import Cache, Recent
from gputrain.google.forms import Json
from gputrain.jobstore import JobRecord, Launch, Wanted
from gputrain.lifecycle import State
from gputrain.runtime.contract import ENDED, RUNNING, WAITING

FEW = 4
"""Up to so many attempts are looked at closely each time."""
CALLS_A_S, BURST = 1.5, 20.0
"""Of more, all together: with the lists of their VMs that stays below 150 calls a minute."""
FRESH_S, PAGE_S = 0.5, 3.0
"""How long the list of VMs is kept: of few of them, or for each of its pages of 500."""
PREPARING = frozenset({"PENDING", "PROVISIONING", "STAGING"})
NOTICE_S = 150.0
"""From Google's word that a VM ends to its end, at most: a Spot VM's notice and its 30 s of shutdown."""
CREATES = ("insert", "bulkInsert")


class Looks:
    """Looks at attempts. It changes nothing; what it remembers only saves calls."""

    def __init__(self, calls: Calls, queue: FlexQueue, reports: RunReports, account: str, home: str):
        self._calls, self._queue, self._reports = calls, queue, reports
        self._account, self._home = account, home
        now = calls.access.now
        self._listed: Cache[str, Mapping[tuple[str, str], Json]] = Cache(fresh_s=_fresh_s, now=now)
        self._heard: Recent[str, Reports] = Recent(now=now)
        self._lost: Recent[str, float] = Recent(now=now)
        self._ended: Recent[str, bool] = Recent(now=now)
        self._asked: Recent[str, float] = Recent(idle_s=120, now=now)
        self._left, self._left_at = BURST, now()

    def inspect_many(self, records: Sequence[JobRecord]) -> dict[str, Status]:
        """As of `Backend`."""
        found, wanted, away = dict[str, Status](), list[tuple[JobRecord, AttemptVms]](), ""
        for record in records:
            try:
                wanted.append((record, AttemptVms.of(record.job_id, record.current)))
            except GputrainError as error:  # noqa: PERF203  # one that cannot be looked at hides no other
                found[record.job_id] = _unseen(error)
        listed = self._list({vms.zone for _, vms in wanted})
        shown = [(record, vms, _shown(vms, listed)) for record, vms in wanted]
        for record, vms, there in sorted(shown, key=lambda one: self._turn(*one[1:])):
            try:
                found[record.job_id] = Status(detail=away) if away else self._look(record, vms, there)
            except GputrainError as error:  # noqa: PERF203
                found[record.job_id] = _unseen(error)
                if isinstance(error, TransientError):  # each other would wait as long for the same service
                    away = found[record.job_id].detail
        return found

    def saw_end_of(self, attempt_id: str) -> bool:
        """Whether an attempt was seen to be over, also before its record says so."""
        return bool(self._ended.get(attempt_id))

    def _turn(self, vms: AttemptVms, there: Mapping[str, Json]) -> tuple[bool, float]:
        """First those that lack a VM, and of like ones those that were asked about longest ago."""
        return len(there) == len(vms.names), self._asked.get(vms.attempt) or 0.0

    def _may_ask(self, vms: AttemptVms, calls: int) -> bool:
        """Whether it is the turn of an attempt to have more asked about it than a list tells."""
        now = self._calls.access.now()
        self._left = min(BURST, self._left + (now - self._left_at) * CALLS_A_S)
        self._left_at = now
        if len(self._asked) > FEW and self._left < 1:
            return False
        self._left -= calls
        self._asked.put(vms.attempt, now)
        return True

    def _list(self, zones: set[str]) -> Mapping[tuple[str, str], Json]:
        """Our VMs by zone and name. It may lack some: only a read by a VM's name shows that it is gone."""
        if not zones:
            return {}
        only, wanted = next(iter(zones)), f"labels.{LABEL_OWNER}={self._home}"
        if len(zones) == 1:
            return self._listed.get(only, lambda: _by_name(self._calls.instances(only, wanted).items, only))
        return self._listed.get("", lambda: _by_name(self._calls.all_instances(wanted).items))

    def _look(self, record: JobRecord, vms: AttemptVms, there: dict[str, Json]) -> Status:
        if len(there) == len(vms.names):
            reports = self._hear(vms, there)
            nodes = _nodes(vms, there, reports)
            if not any(node.is_over for node in nodes):
                return self._living(record, nodes, reports)
        if not self._may_ask(vms, 2 * len(vms.names)):
            return Status(detail="it is looked at in its turn")
        return self._look_closely(record, vms, there)

    def _hear(self, vms: AttemptVms, there: Mapping[str, Json]) -> Reports:
        """What the guests have said: first of those that boot, one after the other, and then of the first."""
        heard = dict(self._heard.get(vms.attempt) or {})
        if {vm["status"] for vm in there.values()} <= PREPARING or not self._may_ask(vms, 1):
            return heard
        for rank in (rank for rank in range(len(vms.names)) if rank == 0 or rank not in heard):
            report = self._reports.read(vms.job_id, vms.attempt, rank)
            if report is not None and (report.agent.has_started or rank in heard):
                heard[rank] = report
                self._heard.put(vms.attempt, heard)
            else:
                break
        return heard

    def _look_closely(self, record: JobRecord, vms: AttemptVms, there: dict[str, Json]) -> Status:
        """An attempt of which something has not come yet, or is gone, halted or at its end."""
        for name in (name for name in vms.names if name not in there):
            vm = self._calls.instance(vms.zone, name)
            if vm is not None and vms.are_of(vm):
                there[name] = vm
        is_placed, request = True, None
        if vms.is_queued and len(there) < len(vms.names):
            request = self._queue.request(vms)
            if (waits := queue_status(record, request, self._calls.access.now())) is not None:
                return waits
            is_placed = request is not None
        reports = self._reports.read_all(vms.job_id, vms.attempt, len(vms.names))
        nodes = _nodes(vms, there, reports, is_queued=vms.is_queued)
        has_run = _has_run(nodes)
        is_launching = record.current.state is Launch.LAUNCHING
        if not there and not reports and is_launching:
            return Status(state=State.QUEUED, detail="nothing of it can be seen yet")
        if not there and not reports and not is_placed:
            return queue_ended(causes.STOPPED_BY_PERSON, "its group in Google's queue was deleted")
        if all(node.is_over for node in nodes):
            return self._over(record, vms, nodes, reports)
        lost_for_s = None if is_launching and not has_run else self._lost_for_s(vms, nodes, reports)
        status = self._living(record, nodes, reports)
        if lost_for_s is None:
            return status
        gone = ", ".join(vms.names[node.rank] for node in nodes if node.is_over)
        return attrs.evolve(status, lost_for_s=lost_for_s, detail=f"{gone} is gone; the others have to save")

    def _lost_for_s(self, vms: AttemptVms, nodes: Sequence[VmReport], reports: Reports) -> float | None:
        """Since when a node is gone, or could not start. The agents of the others end by themselves where
        one ended in order, and may have much to save."""
        lost = [node for node in nodes if node.is_over and not has_ended_in_order(node)]
        if not lost:
            return None
        now = self._calls.access.now()
        since = self._lost.get(vms.attempt) or self._lost.put(vms.attempt, now)
        ended = (reports[node.rank] for node in lost if node.agent.is_over)
        return max([now - since, *(one.seen_at - one.written_at for one in ended)])

    def _living(self, record: JobRecord, nodes: Sequence[VmReport], reports: Reports) -> Status:
        statuses = {node.status for node in nodes}
        if record.wanted is Wanted.CANCEL:
            state = State.STOPPING
        elif "PENDING" in statuses:
            state = State.QUEUED
        elif statuses & {*PREPARING, "REPAIRING"} or not all(node.agent.has_started for node in nodes):
            state = State.PROVISIONING
        else:
            state = State.RUNNING
        return Status(
            state=state,
            exists=True,
            is_whole=not any(node.is_over for node in nodes),
            has_run=_has_run(nodes),
            detail="VMs " + ", ".join(sorted(status.lower() for status in statuses if status)),
            started_at=min(times(reports, RUNNING), default=None),
        )

    def _over(
        self, record: JobRecord, vms: AttemptVms, nodes: Sequence[VmReport], reports: Reports
    ) -> Status:
        self._ended.put(vms.attempt, True)
        is_cancelled = record.wanted is Wanted.CANCEL
        verdict = judge(nodes, account=self._account, is_cancelled=is_cancelled)
        if verdict.cause is not None or not all(node.agent.is_over for node in nodes):
            nodes = self._joined(vms, nodes)
            verdict = judge(nodes, account=self._account, is_cancelled=is_cancelled)
        cause, failure = verdict.cause, verdict.failure
        if cause is causes.WAIT_LIMIT and not is_late(record, self._calls.access.now()):
            cause = causes.STOCKOUT_REGION  # Google lets one VM wait for two hours at most
        state, title = (State.SUCCEEDED, "") if cause is None else (cause.state, cause.title)
        title = "" if cause is causes.UNKNOWN else title
        said = ": ".join(filter(None, [title, verdict.detail])) or (failure.message if failure else "")
        lost = losses([node.agent for node in nodes], [node.agent.result for node in nodes])
        return Status(
            state=State.INTERRUPTED if cause is not None and cause.may_restart else state,
            exists=bool(reports) or any(node.status for node in nodes),
            cause=cause,
            has_run=_has_run(nodes),
            ran_s=ran_s(record, nodes, reports),
            detail="; ".join(filter(None, [said, lost])),
            failure=failure,
            started_at=min(times(reports, RUNNING), default=None),
            ended_at=max(times(reports, ENDED), default=None),
        )

    def _joined(self, vms: AttemptVms, nodes: Sequence[VmReport]) -> Sequence[VmReport]:
        """The nodes with Google's operations on them."""
        listing = self._calls.operations(vms.zone, f'targetLink eq ".*/instances/{vms.queue}-[0-9]+"')
        by_name: dict[str, list[Json]] = {}
        for operation in listing.require_complete(f"tell what became of {vms.job_id}"):
            by_name.setdefault(str(operation.get("targetLink", "")).rpartition("/")[2], []).append(operation)
        joined = []
        for node in nodes:
            found = by_name.get(vms.names[node.rank], [])
            of_node = of_last_made(node, found) if vms.is_queued else tuple(found)
            joined.append(attrs.evolve(node, operations=of_node))
        return joined


def _unseen(error: GputrainError) -> Status:
    return Status(detail=": ".join(filter(None, (error.what, error.why))))


def _shown(vms: AttemptVms, listed: Mapping[tuple[str, str], Json]) -> dict[str, Json]:
    found = ((name, listed.get((vms.zone, name))) for name in vms.names)
    return {name: vm for name, vm in found if vm is not None and vms.are_of(vm)}


def _by_name(found: Iterable[Json], zone: str = "") -> dict[tuple[str, str], Json]:
    return {(zone or str(vm["zone"]).rpartition("/")[2], str(vm["name"])): vm for vm in found}


def _fresh_s(listed: Mapping[Any, Json]) -> float:
    return FRESH_S if len(listed) <= FEW else PAGE_S * -(-len(listed) // 500)


def _nodes(
    vms: AttemptVms, there: Mapping[str, Json], reports: Reports, *, is_queued: bool = False
) -> list[VmReport]:
    """Google's queue makes VMs before it has room for all, and takes them back: their last words are old."""
    nodes = []
    for rank, name in enumerate(vms.names):
        vm, report = there.get(name, {}), reports.get(rank)
        number = str(vm.get("id", ""))
        if report and is_queued and number not in ("", str(report.agent.raw.get("vm_id") or number)):
            report = None
        agent, status = report.agent if report else read({}), str(vm.get("status", ""))
        nodes.append(VmReport(rank=rank, status=status, agent=agent))
    return nodes


def _has_run(nodes: Sequence[VmReport]) -> bool:
    return any(node.agent.at(RUNNING) is not None for node in nodes)


def ran_s(record: JobRecord, nodes: Sequence[VmReport], reports: Reports) -> float:
    """Seconds that an attempt has taken of the time limit: rather too many than too few.

    A VM that Google took may never have written when it began or ended; then Google's operations on it tell,
    with all the notice that it may have had. What it waited in Google's queue was free.
    """
    operations = [(one.get("operationType") in CREATES, one) for node in nodes for one in node.operations]
    moments = [(is_create, seconds_of(one.get("insertTime"))) for is_create, one in operations]
    starts = [at.timestamp() for at in times(reports, WAITING)]
    if not starts and record.current.option.model != "flex-start":
        starts = [at for is_create, at in moments if is_create and at]
    unreported = any(not node.agent.is_over for node in nodes)
    ends = [at.timestamp() for at in times(reports, ENDED)]
    ends += [at + NOTICE_S for is_create, at in moments if unreported and not is_create and at]
    ends = ends or [one.seen_at for one in reports.values()]
    took_s = max(0.0, max(ends) - min(starts)) if starts and ends else 0.0
    return min(took_s, record.training_spec.max_run_duration.total_seconds())
