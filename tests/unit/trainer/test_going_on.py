"""A job on places in memory that cannot stay: what is said of it, when it is asked for again, and where."""

from datetime import timedelta

import attrs
import pytest

from gputrain import JobLostError, State, causes
from gputrain.errors import PermissionDeniedError
from gputrain.lifecycle import Failure, Observation
from gputrain.planning import Outcome
from gputrain.planning.ladder import FIRST_REST
from gputrain.records import CANCELLED, MADE, WITHDRAWN, MemoryBoard
from gputrain.trainer.claim import TURN_S
from gputrain.trainer.ways import FULL_FOR_S
from tests.unit.trainer.places import FULL, JOB, Place, World


def of(cause, *, state=State.FAILED, **more):
    failure = None if cause is None else Failure(kind=cause.kind)
    return Observation(state=state, failure=failure, place="east-a", **more)


def interrupted(world, cause=causes.PREEMPTED, **more):
    more = {"started_at": world.now(), "ran_s": 600.7, **more}
    return of(cause, state=State.INTERRUPTED, **more)


def looked_after(job):
    job.refresh()
    return job.supervise()


NO_ROOM, NO_QUOTA = of(causes.STOCKOUT_REGION), of(causes.QUOTA_REGION)


@pytest.mark.parametrize(
    ("max_restarts", "cause", "goes_on"),
    [(1, causes.PREEMPTED, True), (0, causes.PREEMPTED, False), (1, causes.EXCEPTION, False)],
)
def test_an_interrupted_job_starts_again_where_its_end_and_its_spec_allow_it(
    world, board, submit, max_restarts, cause, goes_on
):
    place = Place("compute", board)
    job = submit(place, max_restarts=max_restarts)
    world.seconds += 700
    place.seen = interrupted(world, cause)
    assert looked_after(job) is goes_on
    record = board.read(JOB)
    assert [(one.attempt, one.answer) for one in record.asks] == (
        [(0, MADE), (1, "")] if goes_on else [(0, "")]
    )
    assert (record.used_s, record.waiting_since) == (600 * goes_on, 0.0)
    assert place.cleared == [JOB] * goes_on
    assert [one for one, _ in place.asked] == [f"{JOB}-0", f"{JOB}-1"][: 1 + goes_on]
    told = [one.answer for one in job.attempts]
    assert told == ["accepted", "interrupted there, and it starts again there", "accepted"][: 1 + 2 * goes_on]


@pytest.mark.parametrize("used_s", [3539, 3541])
def test_a_restart_that_has_no_minute_left_is_none(world, board, submit, used_s):
    place = Place("compute", board)
    job = submit(place, max_restarts=1)
    place.seen = interrupted(world, ran_s=float(used_s))
    assert looked_after(job) is (used_s < 3540)


@pytest.mark.parametrize("may_wait", [False, True])
def test_a_restart_that_finds_no_room_waits_for_its_rounds(world, board, submit, may_wait):
    place = Place("compute", board)
    job = submit(place, max_restarts=1, **({"max_wait_duration": "6h"} if may_wait else {}))
    place.seen, place.answers = interrupted(world), [FULL] * 4
    assert not looked_after(job)
    record = board.read(JOB)
    assert (record.over, record.waiting_since) == ("", world.seconds)
    assert len(place.asked) == 3
    for passes_s, count in (
        (FIRST_REST.total_seconds() - 1, 3),
        (1, 5),
    ):  # many wait: it costs no call before
        world.seconds += passes_s
        assert not looked_after(job)
        assert len(place.asked) == count
    world.seconds += 60
    assert looked_after(job)
    assert board.read(JOB).latest.attempt == 1


@pytest.mark.parametrize(
    ("seen", "said"), [(NO_ROOM, "no room after all"), (NO_QUOTA, "its quota is too small after all")]
)
def test_a_job_whose_place_has_no_machines_after_all_is_asked_of_the_next(world, board, submit, seen, said):
    place = Place("compute", board)
    job = submit(place)
    place.seen = seen
    assert job.refresh().detail == f"east-a: {said}; the next place of the plan is asked: west-b"
    assert (job.state, place.cleared) == (State.INTERRUPTED, [])
    assert job.supervise()
    assert [one for _, one in place.asked] == ["east-a", "west-b"]
    assert [one.answer for one in job.attempts] == ["accepted", said, "accepted"]
    record = board.read(JOB)
    assert (record.waiting_since, record.latest.attempt) == (record.asks[0].at, 0)


@pytest.mark.parametrize(
    "seen",
    [
        of(causes.EXCEPTION),
        attrs.evolve(NO_ROOM, started_at=World().now()),
        attrs.evolve(NO_ROOM, state=State.EXPIRED),
        of(None),
        of(causes.CANCELLED, state=State.CANCELLED),
    ],
    ids=["its script", "it ran", "it expired", "no cause", "cancelled"],
)
def test_an_end_that_is_one_stays_so(board, submit, seen):
    place = Place("compute", board)
    job = submit(place, max_restarts=3)
    place.seen = seen
    assert (job.refresh(), job.supervise(), len(place.asked)) == (seen, False, 1)


@pytest.mark.parametrize(
    ("wait", "detail", "state"),
    [(None, "", State.FAILED), ("6h", "east-a: no room after all; it waits for room", State.INTERRUPTED)],
)
def test_a_job_without_another_place_has_failed_or_waits(board, submit, wait, detail, state):
    place = Place("compute", board, ["east-a"])
    job = submit(place, max_wait_duration=wait)
    place.seen = NO_ROOM
    assert (job.refresh().detail, job.state) == (detail, state)


def test_a_job_that_goes_round_and_finds_no_room_has_failed_where_it_may_not_wait(world, board, submit):
    place = Place("compute", board)
    job = submit(place)
    place.seen, place.answers = NO_ROOM, [FULL]
    assert not looked_after(job)
    assert board.read(JOB).over == causes.STOCKOUT_REGION.kind
    assert job.refresh().state is State.FAILED


@pytest.mark.parametrize(("waited_s", "over"), [(3600, ""), (3601, causes.WAIT_LIMIT.kind)])
def test_waiting_for_room_after_all_ends_with_max_wait_duration(world, board, submit, waited_s, over):
    place = Place("compute", board)
    job = submit(place, max_wait_duration="1h")
    place.seen, place.answers = NO_ROOM, [FULL] * 9
    world.seconds += waited_s
    assert not looked_after(job)
    assert board.read(JOB).over == over
    assert job.refresh().detail == ("" if over else "east-a: it waits for room")


def test_a_job_of_which_nothing_came_is_asked_again_once_whoever_asked_must_have_died(world, board, submit):
    place = Place("compute", board)
    job = submit(place)
    place.seen = Observation(state=State.INTERRUPTED)
    world.seconds += TURN_S
    assert not looked_after(job)
    world.seconds += 1
    assert looked_after(job)
    assert place.cleared == [JOB]
    assert [one.answer for one in board.read(JOB).asks] == [Outcome.UNCLEAR.value, ""]
    assert len(place.asked) == 2


def test_an_ask_that_is_no_second_one_is_repeated_once_its_turn_is_over(world, board, submit):
    place = Place("compute", board)
    place.repeats = True
    job = submit(place)
    nonce = board.read(JOB).latest.nonce
    place.seen = Observation(state=State.INTERRUPTED)
    world.seconds += place.turn_s
    assert not looked_after(job)
    world.seconds += 1
    assert looked_after(job)
    assert (board.read(JOB).latest.nonce, place.cleared) == (nonce, [])


def test_ranks_that_ran_are_started_again_by_their_keeper_where_nothing_ended_them(world, board, submit):
    place = Place("compute", board)
    job = submit(place, max_restarts=1)
    place.seen = interrupted(world, None)
    world.seconds += 2 * TURN_S
    assert not looked_after(job)


def left(board, place):
    """What an older look tells, when others have asked again since: it is of an ask that is no more."""
    return attrs.evolve(NO_ROOM, ask="an older one")


def test_what_was_left_is_followed_to_the_place_that_is_asked_now(world, board, submit):
    place = Place("compute", board)
    job = submit(place)
    place.seen = left(board, place)
    assert job.refresh().detail == "east-a: east-a is asked"
    assert not job.supervise()
    place.made.clear()
    world.seconds += TURN_S
    assert not looked_after(job)
    world.seconds += 1
    assert looked_after(job)
    assert [one for _, one in place.asked] == ["east-a", "east-a"]


@pytest.mark.parametrize(("age_s", "detail"), [(FULL_FOR_S, "east-a: east-a is asked"), (FULL_FOR_S + 1, "")])
def test_what_no_list_shows_after_half_an_hour_may_have_run_and_been_deleted(
    world, board, submit, age_s, detail
):
    place = Place("compute", board)
    job = submit(place)
    place.seen = left(board, place)
    world.seconds += age_s
    assert job.refresh().detail == detail


def test_an_ask_that_was_found_to_be_full_is_not_asked_again_as_if_nothing_had_come(world, board, submit):
    place = Place("compute", board)
    job = submit(place)
    place.seen, place.absent = left(board, place), FULL
    place.made.clear()
    world.seconds += TURN_S + 1
    assert not looked_after(job)
    assert len(place.asked) == 1


def test_a_job_that_has_gone_on_to_a_backend_is_followed_and_nowhere_else(world, board, submit):
    first, second = Place("vertex", board), Place("compute", board)
    job = submit(first, second)
    told = job.uri
    first.answers, first.seen = [FULL], NO_ROOM
    assert looked_after(job)
    assert job.ref.backend == "compute"
    first.seen = attrs.evolve(NO_ROOM, ask="an older one")
    first.repeats = second.repeats = True  # whose jobs are seen at once, so that this one is no other
    assert world.trainer(first, second).attach(told).uri == job.uri
    with pytest.raises(JobLostError, match="not where it was any more") as caught:
        world.trainer(first).attach(told)
    assert caught.value.why == "it went on to compute in east-a"
    assert "its compute backend" in caught.value.fix


def test_code_that_no_stranger_finds_is_told_and_nothing_is_asked(world, board, submit):
    place = Place("compute", board)
    place.code = lambda _code: None
    job = submit(place)
    place.seen = NO_ROOM
    stranger = world.trainer(place).attach(job.uri)
    assert stranger.refresh().detail == (
        "east-a: no room after all; its code is not where compute could find it from here"
    )
    assert not stranger.supervise()
    assert (len(place.asked), board.read(JOB).over) == (1, "")


@pytest.mark.parametrize(
    ("here", "told"), [("b", "network='a' (here 'b')"), (None, "network='a' (here None)")]
)
def test_a_backend_that_is_set_otherwise_watches_and_says_so(world, board, submit, caplog, here, told):
    place = Place("compute", board)
    place.choices = {"network": "a", "zone": "z"}
    job = submit(place)
    place.seen = NO_ROOM
    place.choices = {"zone": "z", **({"network": here} if here else {})}
    assert not looked_after(job)
    assert not looked_after(job)
    said = f"{JOB} can be started again by a compute backend with {told}"
    assert [one.getMessage() for one in caplog.records].count(said) == 1
    place.choices = {"network": "a", "zone": "z"}
    assert looked_after(world.trainer(place).attach(job.uri))


@pytest.mark.parametrize("over", [CANCELLED, "anything"])
def test_what_somebody_has_ended_goes_on_nowhere(world, board, submit, over):
    place = Place("compute", board)
    job = submit(place)
    board.write(attrs.evolve(board.read(JOB), over=over))
    place.seen = NO_ROOM
    assert not looked_after(job)
    assert job.state is State.FAILED


def test_a_start_that_was_taken_back_is_gone_on_with_at_its_next_place(world, board, submit):
    place = Place("compute", board)
    job = submit(place, max_wait_duration="1h")
    record = board.read(JOB)
    board.write(attrs.evolve(record.answered(WITHDRAWN), waiting_since=world.seconds))
    place.seen = NO_ROOM
    world.seconds += FIRST_REST.total_seconds()
    assert job.refresh().detail == "east-a: it waits for room"
    assert job.supervise()
    assert len(place.asked) == 2


@pytest.mark.parametrize(("is_over", "over"), [(False, CANCELLED), (True, "")])
def test_a_cancel_is_written_where_the_job_is_kept_unless_it_has_ended(world, board, submit, is_over, over):
    other = world.board()
    first, second = Place("vertex", board), Place("compute", other)
    job = submit(first, second)
    first.seen, first.answers = NO_ROOM, [FULL]
    assert looked_after(job)
    assert (job.ref.backend, board.read(JOB).home) == ("compute", board.name)
    second.seen = Observation(state=State.SUCCEEDED if is_over else State.RUNNING)
    job.cancel()
    assert board.read(JOB).over == other.read(JOB).over == over
    assert second.cleared == [JOB]


def test_a_cancel_that_cannot_be_written_where_the_job_is_kept_ends_it_and_says_so(world, submit):
    board, other = ReadOnlyBoard(lambda: world.seconds), world.board()
    first, second = Place("vertex", board), Place("compute", other)
    job = submit(first, second)
    first.seen, first.answers = NO_ROOM, [FULL]
    assert looked_after(job)
    board.refusal = PermissionDeniedError("the bucket keeps what it has", permission="storage.objects.delete")
    with pytest.raises(PermissionDeniedError, match="keeps what it has"):
        job.cancel()
    assert second.cleared == [JOB]


class ReadOnlyBoard(MemoryBoard):
    """A board that takes nothing more from some moment on."""

    refusal = None

    def write(self, record):
        if self.refusal is not None:
            raise self.refusal
        return super().write(record)


def test_fewer_and_fewer_nodes_are_asked_for_and_told_of_in_the_ledger(world, board, submit):
    place = Place("compute", board, ["east-a"])
    job = submit(place, num_nodes=8, min_nodes=3, max_restarts=1)
    place.seen, place.answers = interrupted(world), [FULL] * 4
    assert looked_after(job)
    told = [(one.candidate.num_nodes, one.answer) for one in job.attempts]
    assert [nodes for nodes, _ in told] == [8, 8, 8, 7, 6, 4, 3]
    assert told[1][1] == "interrupted there, and it starts again there, with 3 of 8 nodes"
    assert job.candidate.num_nodes == 3
    assert job.candidate.max_run_duration == timedelta(seconds=3000)
