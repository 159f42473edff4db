"""VMs of ours that nobody needs: those without a living job, and what is left of a gang that cannot go on.

The former are found by their labels, and judged by the records of their own home. The latter are ended by
whoever acts for the job, for they bill. The agents see a lost peer within seconds and end by themselves; they
cannot where a VM died before they had met, where its guest never came up, or where a guest hangs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs

from gputrain import catalog, causes
from gputrain.backends.base import Orphan
from gputrain.backends.compute.calls import Calls, ours
from gputrain.backends.compute.causes import HALTED, VmReport, is_half, reports_of
from gputrain.backends.compute.gang import Gangs
from gputrain.backends.compute.look import Looks
from gputrain.backends.compute.names import NAME, VmNames
from gputrain.backends.compute.queue import FADES_S, STATUS, Left, Queue
from gputrain.backends.compute.render import MODELS
from gputrain.catalog import Price
from gputrain.causes import Blame
from gputrain.entrypoint import contract
from gputrain.errors import GputrainError, TransientError
from gputrain.gcp import LABEL_HOME, LABEL_JOB, MissingError, label_value
from gputrain.gcp.forms import Json, mapping
from gputrain.gcp.shared import Kept
from gputrain.lifecycle import Observation, State
from gputrain.planning import Outcome
from gputrain.records import Board, DamagedRecordError, Record, surely
from gputrain.spec.read import LONGEST_GRACE_S
from gputrain.threads import new_lock
from gputrain.times import Since

log = logging.getLogger("gputrain")

_MODELS = {word: model for model, word in MODELS.items()}


Sleep = Callable[[float], None]
UNSTARTED_S = 40.0
"""How long the rest of a gang may live that never trained together: it has nothing to save."""
STARTED_S = 155.0
"""The same where ranks ran, beyond the time that they have to save: VMs send what was saved."""
HEARD_S = 10.0
"""How long a guest may take to see that its job is cancelled."""
SENT_S = 30.0
"""How long it may take, beyond the time that ranks have to save, to send what they saved and to say so."""
LOOK_EVERY_S = 1.0
UNREAD_EVERY_S = 5.0
"""The same, where each VM is looked at by its name."""


def orphans(
    calls: Calls, queue: Queue, board: Board, looks: Looks, home: str, job_id: str = ""
) -> tuple[Orphan, ...]:
    """Our VMs of all zones, of one home, whose job has ended, is at another attempt, or has no record.

    A record that is damaged beyond reading is none: else its VMs would bill to their limit, and nobody could
    end them. One that could not be read just now is no damage. A VM that is going down already is none.

    Args:
        home: the value of the label; VMs of another one are judged by records that are not ours to read.
        job_id: of this job alone; empty: of all.

    Raises:
        TransientError: some zones could not be listed.
    """
    wanted = f"{ours()} AND labels.{LABEL_HOME}={home}"
    if job_id:
        wanted += f" AND labels.{LABEL_JOB}={label_value(job_id)}"
    listing = calls.all_instances(wanted)
    by_job: dict[str, list[Json]] = {}
    for vm in listing.whole("list the VMs of every zone"):
        by_job.setdefault(vm["labels"][LABEL_JOB], []).append(vm)
    queued: dict[str, list[Left]] = {}
    for left in queue.left(home):
        if job_id in ("", left.job_id):
            queued.setdefault(left.job_id, []).append(left)
    found: list[Orphan] = []
    for one_id in {**by_job, **queued}:
        try:
            needed = _needed(board, looks, one_id)
        except GputrainError as error:  # what cannot be judged is not removed
            log.warning("%s could not be looked at: %s", one_id, error.what)
            continue
        vms = by_job.get(one_id, ())
        unneeded = (vm for vm in vms if needed is None or not needed.owns(vm))
        # One that is going down is going already; where it only halts, the next look finds it.
        found += [_orphan(one_id, vm) for vm in unneeded if vm["status"] != "STOPPING"]
        found += [one.orphan for one in queued.get(one_id, ()) if needed is None or one.name != needed.queue]
    return tuple(found)


def _needed(board: Board, looks: Looks, job_id: str) -> VmNames | None:
    """The gang whose VMs must stay; None: none of the job's must."""
    try:
        record = surely(lambda: board.read(job_id))
    except MissingError:  # its home is gone, and nobody can say any more that the VM is needed
        return None
    except DamagedRecordError as error:  # as if there were none
        log.warning("%s has no living job by its record: %s", job_id, error)
        return None
    if record is None or record.over or not record.is_open or record.backend != NAME:
        return None
    seen = looks.observe(record)
    return None if seen.state is not None and seen.state.is_terminal else VmNames.of(record)


def _orphan(job_id: str, vm: Json) -> Orphan:
    zone = _zone(vm)
    return Orphan(name=vm["name"], place=zone, job_id=job_id, status=vm["status"], price=_price(vm, zone))


def _zone(vm: Json) -> str:
    return str(vm["zone"]).rpartition("/")[2]


def _price(vm: Mapping[str, Any], zone: str) -> Price | None:
    """Of one VM for an hour."""
    machine = str(vm.get("machineType", "")).rpartition("/")[2]
    model = _MODELS.get(vm.get("scheduling", {}).get("provisioningModel", ""))
    shapes = catalog.shapes(machine_type=machine)
    if model is None or len(shapes) != 1:
        return None
    return catalog.price(shapes[0], catalog.region_of(zone), model)


class Remains:
    """Ends the rest of gangs that cannot go on, and removes what is halted of jobs that are over."""

    def __init__(self, gangs: Gangs, now: Callable[[], float]) -> None:
        self._gangs = gangs
        self._now = now
        self._lock = new_lock()
        self._since: Kept[tuple[str, str], Since] = Kept()

    def of(self, job_id: str, seen: Observation, record: Callable[[], Record]) -> list[VmReport]:
        """What nobody needs any more of a job that was looked at.

        That is: VMs of a job that is over which Google has only halted, whose disks bill; what still runs of
        one that was cancelled; and what runs of a gang that cannot go on, once it had its time to save.
        """
        nodes = reports_of(seen)
        if seen.state is not None and seen.state.is_terminal:
            return [node for node in nodes if node.status in HALTED]
        if seen.state is State.STOPPING:  # a cancel whose deletes were refused, or whose caller died
            return [node for node in nodes if node.status and node.status != "STOPPING"]
        if not is_half(nodes):
            self._since.drop((job_id, seen.ask))
        elif self._has_had_its_time((job_id, seen.ask), nodes, record):
            return [one for one in nodes if not one.is_over and one.status != "STOPPING"]
        return []

    def leave_queue(self, board: Board, job_id: str, seen: Observation) -> None:
        """End a wait in Google's queue that was too long, and remove what a gang that is over left there.

        The end is written down first: without its request nothing would tell why the job has none.
        """
        told, is_over = seen.raw.get("queue"), seen.state is not None and seen.state.is_terminal
        if told is None and not is_over:
            return
        try:
            record = board.read(job_id)
            if record is None or record.last is None or not (gang := VmNames.of(record)).queue:
                return
            if gang.nonce != seen.ask:  # a look of before: what was asked for since is none of its
                return
            queue, cause = self._gangs.queue, causes.of(seen.failure.kind if seen.failure else "")
            if told is not None and not record.over:
                if not record.is_open:  # a look of before: it was answered since, and may go on
                    return
                if not is_over and not (told["is_late"] and queue.cancel(gang.zone, gang.queue)):
                    return  # it may wait, or it is being served this very moment
                if is_over and cause.fault in (Blame.CAPACITY, Blame.QUOTA) and not told["is_late"]:
                    return  # the ladder goes on, and clears it
                # Answered as well: who submits it once more asks anew, not for what has been withdrawn.
                over = cause.kind if is_over else causes.WAIT_LIMIT.kind
                board.write(attrs.evolve(record.answered(Outcome.NO_ROOM.value), over=over))
            queue.sweep(gang)
            if told is not None:  # Google may have made some, and taken them back
                self._gangs.traces.remove(gang)
        except GputrainError as error:  # one who may only look leaves it to others
            log.info("could not remove what %s left in the queue: %s", job_id, error)

    def let_save(self, record: Record, look: Callable[[Record], Observation], sleep: Sleep) -> None:
        """Wait until the guests of a cancelled job have ended, or had their time to.

        The power button would give the ranks of a Spot VM 30 s whatever they were promised.
        """
        since, most_s = Since(self._now), HEARD_S + _grace_s(record) + SENT_S
        while since.seconds < most_s:
            with suppress(TransientError):  # a look that failed says nothing of the guests
                nodes = reports_of(look(record))
                if not any(node.told.has_started and not node.is_over for node in nodes):
                    return
            sleep(LOOK_EVERY_S)

    def end(self, gang: VmNames, seen: Observation, nodes: Sequence[VmReport]) -> None:
        """Delete VMs of a gang, as far as that can be done now; of the ask that was seen, and of no later."""
        if gang.nonce != seen.ask or (seen.state is State.RUNNING and self._is_whole(gang, seen)):
            return
        with suppress(GputrainError):  # as below
            self._gangs.queue.sweep(gang)
        for node in nodes:
            try:
                self._gangs.remove(gang, gang.names[node.rank])
            except GputrainError as error:  # noqa: PERF203  # one who may only look leaves it to others
                log.info("could not delete %s: %s", gang.names[node.rank], error)

    def _is_whole(self, gang: VmNames, seen: Observation) -> bool:
        """Whether a VM that lists do not show is there, or may be: ranks may train on."""
        try:
            absent = [gang.names[node.rank] for node in reports_of(seen) if not node.status]
            return any(self._gangs.calls.instance(gang.zone, name) is not None for name in absent)
        except GputrainError:
            return True

    def end_unread(
        self, error: DamagedRecordError, seen: Callable[[], Sequence[Orphan]], sleep: Sleep
    ) -> None:
        """End what is seen of a job whose record nobody can read, its guests first, which may save.

        A list proves no absence: what none shows yet finds the cancel in the bucket, and ends by itself.
        """
        since, most_s = Since(self._now), HEARD_S + _usual_grace_s() + SENT_S
        left = seen()
        while (left := [one for one in left if self._runs(one)]) and since.seconds < most_s:
            sleep(UNREAD_EVERY_S)
        self.remove(seen())
        error.what += "; what lists show of it was asked to go"

    def _runs(self, one: Orphan) -> bool:
        vm = None if one.status == STATUS else self._gangs.calls.instance(one.place, one.name)
        return vm is not None and vm["status"] == "RUNNING"

    def remove(self, found: Iterable[Orphan]) -> tuple[Orphan, ...]:
        """Ask each to go; those that were asked.

        Raises:
            GputrainError: the first refusal; all others were asked to go first, as each of them may bill.
        """
        gone, refusals = [], []
        for one in found:
            try:
                gone += [one] if self._drop(one) else []
            except GputrainError as error:  # noqa: PERF203  # what may not be removed keeps nothing else
                refusals.append(error)
        if refusals:
            raise refusals[0]
        return tuple(gone)

    def _drop(self, one: Orphan) -> bool:
        """End a VM, or what waits in the queue; False where that cannot be done now."""
        if one.status != STATUS:
            return self._gangs.delete(one.place, one.name)
        self._gangs.queue.withdraw(one.place, one.name, within_s=FADES_S)
        return True

    def _has_had_its_time(
        self, key: tuple[str, str], nodes: Sequence[VmReport], record: Callable[[], Record]
    ) -> bool:
        """Whether the rest of a half gang is to be ended, by when this process first saw it."""
        with self._lock:
            since = self._since.get(key) or self._since.put(key, Since(self._now))
        if not all(node.told.has_started for node in nodes):
            return since.seconds >= UNSTARTED_S
        return since.seconds >= STARTED_S and since.seconds >= STARTED_S + _grace_s(record())


def _grace_s(record: Record) -> float:
    """How long the ranks have to save; what no spec may say of that, no agent took either."""
    with suppress(ValueError):
        said_s = float(str(mapping(record.spec.get("env")).get(contract.GRACE)))
        if 0 <= said_s <= LONGEST_GRACE_S:
            return said_s
    return _usual_grace_s()


def _usual_grace_s() -> float:
    return float(contract.ENVIRONMENT[contract.GRACE][1])
