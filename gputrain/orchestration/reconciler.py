"""What comes next for a job: one pure table, read from the top. docs/design/record.md explains its rows."""

from __future__ import annotations

import attrs

from gputrain import causes
from gputrain.backends.base import Status
from gputrain.causes import Blame
from gputrain.jobstore import JobRecord, Launch, Wanted
from gputrain.lifecycle import State

SAVE_S = 155
"""What a node may take beyond the grace it was given: its logs, an unmount, a slow bucket."""
NEVER_RAN_S = 40
"""How long nodes without ranks may outlive a lost one."""
COMES_WITHIN_S = 600
"""How long a launch that has begun to show may take, a create of many machines above all."""
UNFENCED_TTL_S = 600
"""How long a launch of which nothing can be seen is waited for if nothing in it would ask its record."""
LAUNCH_LOST = "launch_lost"
FIRST_REST_S, LONGEST_REST_S = 30, 600

SUCCEEDED = "succeeded"


@attrs.frozen(kw_only=True)
class Rules:
    """What a backend, a spec and this process allow."""

    launch_ttl_s: float = 90
    """How long a launch of which nothing can be seen may still be on its way."""
    grace_s: float = 30
    """What ranks have for a checkpoint once they are asked to stop."""
    restarts_left: int = 0
    """Also 0 where no time or money is left."""
    restarts_itself: bool = False
    """The platform starts an interrupted attempt again."""
    max_wait_s: float | None = None
    """How long the job may wait for room; None: its first round is its only one."""


@attrs.frozen(kw_only=True)
class Nothing:
    """Wait; the job is in this state. None: unknown."""

    state: State | None


@attrs.frozen(kw_only=True)
class End:
    """Write the result, then remove what is left."""

    result: str


@attrs.frozen
class Terminate:
    """Remove all machines of the attempt: they had their time."""


@attrs.frozen(kw_only=True)
class Adopt:
    """Write that the attempt is launched; its launcher did not live to do so."""

    handle: str


@attrs.frozen(kw_only=True)
class Replace:
    """End the attempt, see its machines gone, and launch another."""

    outcome: str


@attrs.frozen
class Retry:
    """Ask for room again."""


Action = Nothing | End | Terminate | Adopt | Replace | Retry


def decide(record: JobRecord, status: Status, age_s: float, rules: Rules, *, waited_s: float = 0.0) -> Action:
    """What comes next.

    Args:
        record: as it was read.
        status: of its attempt, looked at after that.
        age_s: since the record was written, by its store's clock.
        rules: as above.
        waited_s: since the first refusal of a job that waits for room, by the same clock.
    """
    if record.has_ended:
        return Nothing(state=state_of(record.result))
    if record.attempt is None:
        return _between_attempts(record, age_s, rules, waited_s)
    if status.state is None:
        return Nothing(state=None)
    if status.lost_for_s is not None:
        return _half(record, status, status.lost_for_s, rules)
    if status.exists and not _is_over(status):
        return _alive(record, status, age_s, rules)
    if status.state is State.SUCCEEDED:
        return End(result=SUCCEEDED)
    if record.wanted is Wanted.CANCEL:
        return End(result=causes.CANCELLED.kind)
    if record.attempt.state is Launch.LAUNCHING and not status.exists:
        is_lost = age_s >= rules.launch_ttl_s
        return Replace(outcome=LAUNCH_LOST) if is_lost else Nothing(state=State.QUEUED)
    return _over(status, rules)


def _between_attempts(record: JobRecord, age_s: float, rules: Rules, waited_s: float) -> Action:
    if record.wanted is Wanted.CANCEL:
        return End(result=causes.CANCELLED.kind)
    if rules.max_wait_s is not None and waited_s >= rules.max_wait_s:
        return End(result=causes.WAIT_LIMIT.kind)
    rest_s = min(max(waited_s - age_s, FIRST_REST_S), LONGEST_REST_S)  # as long as it had waited before
    if age_s >= rest_s:
        return Retry()
    return Nothing(state=State.INTERRUPTED if record.restarts else State.QUEUED)


def _half(record: JobRecord, status: Status, lost_for_s: float, rules: Rules) -> Action:
    """Some nodes have ended and others live: these have time to save."""
    may_take_s = rules.grace_s + SAVE_S if status.has_run else NEVER_RAN_S
    if lost_for_s >= may_take_s:
        return Terminate()
    return Nothing(state=State.STOPPING if record.wanted is Wanted.CANCEL else status.state)


def _alive(record: JobRecord, status: Status, age_s: float, rules: Rules) -> Action:
    attempt = record.current
    if record.wanted is Wanted.CANCEL:
        return Terminate() if age_s >= rules.grace_s + SAVE_S else Nothing(state=State.STOPPING)
    if attempt.state is Launch.LAUNCHING and not status.is_whole:
        is_late = age_s >= COMES_WITHIN_S
        return Replace(outcome="launch_incomplete") if is_late else Nothing(state=State.PROVISIONING)
    if attempt.state is Launch.LAUNCHING or (status.handle and status.handle != attempt.handle):
        return Adopt(handle=status.handle)
    return Nothing(state=status.state)


def _is_over(status: Status) -> bool:
    return status.state is State.INTERRUPTED or (status.state is not None and status.state.is_terminal)


def _over(status: Status, rules: Rules) -> Action:
    cause = status.cause or causes.VANISHED
    if cause is causes.WAIT_LIMIT:  # in the platform's own queue
        return End(result=cause.kind)
    found_no_room = cause.fault in (Blame.CAPACITY, Blame.QUOTA) and not status.has_run
    if found_no_room or (cause.may_restart and rules.restarts_left and not rules.restarts_itself):
        return Replace(outcome=cause.kind)
    if cause.may_restart and rules.restarts_itself and status.state is State.INTERRUPTED:
        return Nothing(state=State.INTERRUPTED)
    return End(result=cause.kind)


def state_of(result: str) -> State:
    """The state of a job that ended so."""
    return State.SUCCEEDED if result == SUCCEEDED else causes.of(result).state
