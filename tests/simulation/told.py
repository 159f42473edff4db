"""Whether a state that a client was told was true at some moment of its call."""

ENDS = ("succeeded", "failed", "cancelled", "expired")
FRESH_S = 3.0
"""Looks of many jobs are shared: an answer may be so old."""

BY_A_PERSON = ("delete", "delete group", "cancel request")

LATE_S = 31.0
"""How late a guest's last word may come: until then it runs for all that anybody knows."""


def is_true(world, told):
    """Judged from who trained when, and from what was asked for."""
    since = told.asked_at - FRESH_S - world.schedule.lag_s - _views(world) - set_back_s(world, told.client)
    if told.state == "running":
        since -= LATE_S
    if told.state in ENDS:  # an end never changes: a handle that was told of it asks nobody again
        same = (
            one.asked_at for one in world.truth.told if (one.client, one.state) == (told.client, told.state)
        )
        since = min(since, *same)
    until = told.told_at
    trained = [one for one in world.truth.trained(told.job_id) if one.since <= until]
    if told.state == "succeeded":
        return any(one.code == 0 and one.until <= until for one in trained)
    if told.state == "running":
        return any(one.until >= since for one in trained)
    if told.state in ("stopping", "cancelled"):
        was_asked = any(
            (act.name in ("cancel", "submit") or act.error.startswith("KeyboardInterrupt"))
            and act.began_at <= until
            for act in world.truth.acts
        ) or any(one.process.is_dead for one in world.clients)
        was_deleted = any(one.kind in BY_A_PERSON for one in world.schedule.happenings)
        return (was_asked or was_deleted) and (told.state == "stopping" or _rests(trained, since, until))
    return _rests(trained, since, until)


def set_back_s(world, client):
    """By how much a client's clock is set back: its answers stay fresh for so much longer."""
    jumps = (one for one in world.schedule.happenings if (one.client, one.kind) == (client, "clock jumps"))
    return sum(-one.seconds for one in jumps if one.seconds < 0)


def _views(world):
    return 60.0 if any(one.kind == "sees" for one in world.schedule.mishaps) else 0.0


def _rests(trained, since, until):
    """Whether at some moment of the time not every rank ran."""
    moments = [since, until, *(one.until for one in trained if since <= one.until <= until)]
    return any(not any(one.since <= moment < one.until for one in trained) for moment in moments)
