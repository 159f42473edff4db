"""A job on places in memory: what is asked, what is waited for, and when it is launched again."""

from datetime import timedelta

import pytest

from gputrain import (
    NoPlacementError,
    RequestError,
    State,
    TrainingSpec,
    TransientError,
    causes,
)
from gputrain.backends.base import Status
from gputrain.google import UnclearError
from gputrain.jobstore import JobRecord, Launch
from gputrain.orchestration.launcher import ASK_AGAIN_S
from gputrain.orchestration.look import FRESH_S
from gputrain.planning import Outcome
from gputrain.trainer.planner import Code
from tests.each import each
from tests.unit.trainer.places import FULL, JOB, Place

STOP = KeyboardInterrupt()


def record_of(world):
    """The record of the job of that key; None where none is kept."""
    found = world.trainer(Place("compute", world)).planner.stores[0].read(JOB)
    return found and found.record


def ended(cause, state=State.FAILED, **more):
    return Status(state=state, cause=cause, **more)


def preempted(**more):
    fields = {"cause": causes.PREEMPTED, "state": State.INTERRUPTED, "has_run": True, "ran_s": 600.0, **more}
    return ended(**fields)


NO_ROOM, NO_QUOTA = ended(causes.STOCKOUT_REGION), ended(causes.QUOTA_REGION)


def looked_after(job):
    job.refresh()
    return job.supervise()


def test_a_limit_that_refills_is_waited_for(world, submit):
    later, place = TransientError("too fast", refills_in_s=60.0), Place("compute", world)
    place.answers = [later] * 3
    assert submit(place).place == "east-a"
    assert world.slept == [60.0] * 3


def test_no_place_is_asked_for_what_the_record_does_not_name(world, submit):
    place, named = Place("compute", world), []
    place.answers = [lambda: named.append(record_of(world))]
    submit(place)
    assert [one and one.attempt.id for one in named] == [record_of(world).attempt.id]


@each("kind", [UnclearError, TransientError])
def test_a_place_whose_answer_was_lost_is_asked_again_and_no_other(world, submit, kind):
    place = Place("compute", world)
    place.answers = [kind("lost"), kind("lost")]
    job = submit(place, idempotency_key=kind.__name__)
    assert place.asked == ["east-a"] * 3
    assert len(place.made) == 1
    assert job.place == "east-a"


def test_what_never_answers_is_raised_and_left_to_the_next_submit(world, submit):
    place = Place("compute", world)
    place.answers = [TransientError("it broke")] * 3
    with pytest.raises(TransientError, match="it broke"):
        submit(place)
    assert place.asked == ["east-a"] * 3
    assert record_of(world).attempt.state is Launch.LAUNCHING
    world.seconds += place.launch_ttl_s
    job = submit(place)
    assert [one.outcome for one in record_of(world).history] == ["launch_lost"]
    assert job.state is State.QUEUED


def test_a_ctrl_c_while_nothing_is_asked_for_says_that_nothing_was_made(world, submit):
    place = Place("compute", world)
    place.upload = lambda _: stop()
    with pytest.raises(KeyboardInterrupt, match="nothing was made"):
        submit(place)
    assert (record_of(world), place.asked) == (None, [])


def stop():
    raise STOP


def test_who_ends_the_wait_for_room_frees_the_key(world, submit):
    place = Place("compute", world)
    place.answers, world.meanwhile = [FULL, FULL], [stop]
    with pytest.raises(KeyboardInterrupt):
        submit(place, max_wait_duration="1h")
    assert record_of(world).result == "withdrawn"
    assert submit(place).place == "east-a"


def test_waiting_for_room_goes_round_until_its_time_is_up(world, submit):
    place = Place("compute", world, ["east-a"])
    place.answers = [FULL] * 99
    with pytest.raises(NoPlacementError):
        submit(place, max_wait_duration="1h")
    assert 3600 - 600 <= sum(world.slept) <= 3600 + 60
    assert record_of(world).result == "wait_limit"


def test_a_launch_that_slept_and_was_superseded_takes_up_the_others_job(world, submit):
    slow, other = Place("compute", world), Place("compute", world)

    def meanwhile():
        world.seconds += other.launch_ttl_s
        submit(other)
        raise TransientError("no answer came")

    slow.answers, other.made = [meanwhile], slow.made
    job = submit(slow)
    record = record_of(world)
    assert (slow.asked, other.asked) == (["east-a"], ["east-a"])
    assert list(slow.made) == [record.attempt.id]
    assert job.attempts[-1].outcome is Outcome.ACCEPTED
    assert ASK_AGAIN_S < FRESH_S < other.launch_ttl_s


@each(
    ("max_restarts", "cause", "goes_on"),
    [(1, causes.PREEMPTED, True), (0, causes.PREEMPTED, False), (1, causes.EXCEPTION, False)],
)
def test_a_job_is_launched_again_where_its_end_and_its_spec_allow_it(
    world, submit, max_restarts, cause, goes_on
):
    place = Place("compute", world, price_usd_h=3.6)
    job = submit(place, max_restarts=max_restarts, idempotency_key=f"{max_restarts} {cause.kind}")
    world.seconds += 700
    place.seen = preempted(cause=cause, state=State.INTERRUPTED if goes_on else cause.state)
    assert looked_after(job) is goes_on
    assert len(place.asked) == 1 + goes_on
    assert (job.attempt, job.state) == ((1, State.QUEUED) if goes_on else (0, State.FAILED))
    assert len(job.attempts) == (3 if goes_on else 1)
    assert job.cost_usd == pytest.approx(0.6)


@each(("used_s", "goes_on"), [(3539.0, True), (3541.0, False)])
def test_a_restart_that_has_no_minute_left_is_none(world, submit, used_s, goes_on):
    place = Place("compute", world)
    job = submit(place, max_restarts=1, idempotency_key=f"{used_s}")
    place.seen = preempted(ran_s=used_s)
    assert looked_after(job) is goes_on


def test_a_restart_that_finds_no_room_waits_for_its_rounds(world, submit):
    place = Place("compute", world)
    job = submit(place, max_restarts=1, max_wait_duration="6h")
    place.seen, place.answers = preempted(), [FULL] * 4
    assert not looked_after(job)
    assert (len(place.asked), job.refresh().state) == (3, State.INTERRUPTED)
    for passes_s, count in ((29, 3), (1, 5)):  # many wait: it costs no call before
        world.seconds += passes_s
        assert not looked_after(job)
        assert len(place.asked) == count
    world.seconds += 60
    assert looked_after(job)
    assert job.attempt == 1


@each(
    ("seen", "state"),
    [
        (ended(causes.EXCEPTION, has_run=True), State.FAILED),
        (ended(causes.TIME_LIMIT, causes.TIME_LIMIT.state, has_run=True), State.EXPIRED),
        (Status(state=State.SUCCEEDED, has_run=True), State.SUCCEEDED),
    ],
)
def test_an_end_that_is_one_stays_so(world, submit, seen, state):
    place = Place("compute", world)
    job = submit(place, max_restarts=3, idempotency_key=state.value)
    place.seen = seen
    assert not looked_after(job)
    assert (job.state, len(place.asked), place.made) == (state, 1, {})
    assert world.trainer(place).attach(job.uri).state is state


def test_a_stranger_launches_the_code_that_was_submitted_or_says_that_it_has_none(world, submit, caplog):
    place = Place("compute", world)
    job = submit(place)
    place.seen, place.find_code = NO_ROOM, lambda *_: None
    assert not looked_after(world.trainer(place).attach(job.uri))
    assert "its code is not kept" in caplog.text
    del place.find_code
    place.upload = None  # what is kept is not sent again
    assert looked_after(world.trainer(place).attach(job.uri))
    assert record_of(world).code == "0" * 64


def test_code_that_has_changed_since_it_was_submitted_runs_nowhere(world):
    place, record = Place("compute", world), JobRecord(job_id="bert", spec={}, code="1" * 64)
    with pytest.raises(RequestError, match="has changed"):
        Code({"compute": place}, TrainingSpec(script="train.py"))(record, "compute")


def test_what_is_cancelled_goes_on_nowhere(world, submit):
    place = Place("compute", world)
    job = submit(place)
    job.cancel()
    assert job.state is State.STOPPING
    place.seen = NO_ROOM
    assert not looked_after(job)
    assert (job.state, len(place.asked)) == (State.CANCELLED, 1)


def test_fewer_and_fewer_nodes_are_asked_for(world, submit):
    place = Place("compute", world, ["east-a"])
    job = submit(place, num_nodes=8, min_nodes=3, max_restarts=1)
    place.seen, place.answers = preempted(), [FULL] * 4
    assert looked_after(job)
    assert [one.candidate.num_nodes for one in job.attempts] == [8, 8, 8, 7, 6, 4, 3]
    assert job.candidate.num_nodes == 3
    assert job.candidate.max_run_duration == timedelta(seconds=3000)
