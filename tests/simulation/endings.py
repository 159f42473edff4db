"""Whether a client may end a machine or an attempt, judged at the moment at which it does so."""

from gputrain import causes
from gputrain.jobstore import Launch, Wanted

CLIENT = "somebody@example.com"


def judge_end(world, life, caller):
    """A machine or a custom job is asked to end by somebody: a person and the guests may do so."""
    record = world.record
    if caller != CLIENT or record is None or record.attempt is None:
        return
    is_current = record.attempt.id == life.nonce and not record.has_ended
    if is_current and record.wanted is Wanted.RUN and _is_healthy(world, record):
        world.truth.violate("what is wanted goes on", f"{life} is asked to end")
    guest = next((one for one in world.guests.by_vm.values() if one.vm.path == life.machine), None)
    is_launched = is_current and record.attempt.state is Launch.LAUNCHED
    if guest is not None and is_launched and guest.saves:
        world.truth.violate("no node is deleted while it saves", f"{life}")


def judge_change(world, before, after):
    """A record was written: what it named and wanted may be replaced or ended only once it is over."""
    attempt = None if before is None or before.has_ended else before.attempt
    if attempt is None or attempt.state is not Launch.LAUNCHED or before.wanted is not Wanted.RUN:
        return
    is_same = after.attempt is not None and after.attempt.id == attempt.id and not after.has_ended
    if not is_same and after.result != causes.WITHDRAWN.kind and _is_healthy(world, before):
        world.truth.violate("what is wanted goes on", f"{attempt} is followed by {after}")


def _is_healthy(world, record):
    """Whether all of an attempt is there, and nothing of it at its end."""
    attempt = record.attempt
    if attempt.option.backend != "compute":
        jobs = (job for job in world.cloud.vertex.jobs.values() if attempt.handle.endswith(f"/{job.id}"))
        guests = world.guests.by_job
        return any(job.ended is None and job.id in guests and not guests[job.id].is_off for job in jobs)
    guests = {one.vm.name: one for one in world.guests.by_vm.values()}
    there = {vm.name for vm in world.cloud.compute.vms.values() if vm.status in ("STAGING", "RUNNING")}
    return all(
        name in there and not (name in guests and (guests[name].is_over or guests[name].is_off))
        for name in attempt.names
    )
