"""What must hold after every schedule."""

from tests.simulation.bystanders import is_theirs
from tests.simulation.fences import attempt_of
from tests.simulation.told import is_true
from tests.simulation.turns import Process, Turns

SETTLES_S = 1500.0
"""Guests that wait for a peer, and VMs on their way out, come to an end in this time."""
HALTED = ("TERMINATED", "STOPPED", "SUSPENDED")
"""Of these only the disk bills: whoever waits for the job removes it, or a clean-up; no limit of Google's."""


def billable(world, *, and_disks=False, and_queue=False):
    """What of the job costs money now, or waits for machines that will; by the nonce of its ask."""
    found = {}
    for name in sorted(world.cloud.compute.queued) if and_queue else ():
        found.setdefault(name.rpartition("-")[2], []).append(f"{name} waits")
    for vm in world.cloud.compute.vms.values():
        labels = vm.resource.get("labels", {})
        is_ours = labels.get("gputrain-job") == world.job_id and not world.bystanders.own(vm)
        if is_ours and (and_disks or vm.status not in (*HALTED, "STOPPING")):
            found.setdefault(attempt_of(labels), []).append(f"{vm.zone}/{vm.name} {vm.status}")
    for job in world.cloud.vertex.jobs.values():
        labels = job.document.get("labels", {})
        is_ours = labels.get("gputrain-job") == world.job_id and not is_theirs(job)
        if is_ours and job.ended is None:
            nonce = attempt_of(labels)
            found.setdefault(nonce, []).append(f"{job.region}/{job.id} {job.state.name}")
    return found


def judge_at_rest(world):
    """With every client gone, and all that was under way come to an end."""
    truth = world.truth
    if world.turns.broken:
        truth.violate("no wait beyond its bound", world.turns.broken[-1500:])
    for error in world.cloud.dispatcher.failures:
        truth.violate("the simulation holds", f"the emulator: {error!r}")
    there = billable(world, and_queue=True)
    if len(billable(world)) > 1:  # what waits in Google's queue is free, and leaves once it is served
        truth.violate("one job a key", f"{there}")
    for one, other, since, until in world.cloud.ledger.overlaps():
        times = f"from {since - world.began_at:.1f} s to {until - world.began_at:.1f} s"
        what = f"{one} and {other} both cost money {times}"
        truth.violate("one job a key", what)
    _judge_cancels(world, there)
    for name in world.bystanders.harmed():
        truth.violate("others are untouched", f"{name} is gone or changed")


ENDS_S = 180.0
"""How long what a cancel has asked to end may go on: guests save, a machine that comes late sees it."""


def _judge_cancels(world, there):
    truth, lives = world.truth, world.cloud.ledger.all
    for act in truth.acts:
        if act.name != "cancel" or act.error:
            continue
        until = act.ended_at + ENDS_S
        left = [str(one) for one in truth.trained(world.job_id) if one.until > until]
        left += [str(one) for one in lives if one.since <= act.ended_at and one.until > until]
        if there or left:
            truth.violate("a cancel ends all", f"it returned at {act.ended_at:.1f}: {there} {left}")


LAST_S = 60.0
"""How long a VM may be there once its guest has said its last: it deletes itself."""


def judge_seen(world):
    """A fresh process, soon after the last client has gone, sees what bills: a living job, or an orphan."""
    there, seen = billable(world, and_queue=True), []
    if not there:
        return

    def look(trainer):
        seen.extend(job.id for job in trainer.jobs() if not job.state.is_terminal)
        seen.extend(one.job_id for one in trainer.orphans())

    _alone(world, look)
    if world.job_id in seen:
        return
    world.cloud.clock.advance(LAST_S)
    if there := billable(world, and_queue=True):
        world.truth.violate("nothing bills unseen", f"{there}, and what is seen is {seen}")


def _alone(world, does):
    """A process that is met by nothing does something with a trainer, once every client has gone."""
    from tests.simulation import substitutes
    from tests.simulation.clients import new_trainer

    world.turns = turns = Turns(world.cloud.clock, world.dice_of("auditor"))
    process = Process(turns, "auditor", dice=world.dice_of("auditor"))
    world.wire.lag = None
    world.cloud.settings(list_lag_s=0.0)

    def run():
        substitutes.turns = turns
        does(new_trainer(world.cloud, process, world.owners_token, world.schedule.backends))

    substitutes.turns = turns
    turns.spawn(process, run, "main")
    turns.run()
    if turns.broken:
        world.truth.violate("the simulation holds", turns.broken[-1500:])


def judge_after(world):
    """Once every limit is over: nothing runs, and a person can end what is left, disks of VMs that halted."""
    there = [*_over_their_limit(world), *_forgotten(world)]
    if there:
        world.truth.violate("the bill ends", f"{there}")
    if billable(world, and_disks=True, and_queue=True):
        _alone(world, _end_by_hand)
        world.cloud.clock.advance(ENDS_S)
        there = billable(world, and_disks=True, and_queue=True)
        if there:
            world.truth.violate("the bill ends", f"after a clean-up and a cancel: {there}")


def _over_their_limit(world):
    """What bills for longer than its limit: Google's queue may serve late, and what waits there is free."""
    born = {one.machine: one.since for one in world.cloud.ledger.all if "/instances/" in one.machine}
    longest_s = world.schedule.limit_s + SETTLES_S
    for found in billable(world).values():
        for told in found:
            place, status = told.split()
            zone, name = place.split("/")
            path = f"projects/my-project/zones/{zone}/instances/{name}"
            if status == "PENDING" or world.cloud.clock.now() - born.get(path, 0.0) < longest_s:
                continue
            yield told


def _end_by_hand(trainer):
    """Clean up, and cancel the jobs that live on, as those do whose next attempt nobody has started."""
    trainer.clean_up()
    for job in trainer.jobs():
        if not job.state.is_terminal:
            job.cancel()


def _forgotten(world):
    """VMs that never said a word, and whose peers left and did not delete them."""
    guests = world.guests.by_vm.values()
    spoke = {one.vm.id for one in guests if one.phase}
    left = {one.nonce for one in guests if one.status.get("why") in ("absent", "max_run_duration")}
    for vm in world.cloud.compute.vms.values():
        if attempt_of(vm.resource.get("labels", {})) in left and vm.id not in spoke:
            yield f"{vm.zone}/{vm.name} {vm.status}, which its peers left behind"


def judge_told(world):
    """Every state that was told was true at some moment since it was asked."""
    for told in world.truth.told:
        if not is_true(world, told):
            world.truth.violate("what is told is true", f"{told}")
