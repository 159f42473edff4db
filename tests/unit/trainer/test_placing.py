"""A submit on places in memory: what is asked in which order, what is waited for, what a Ctrl-C leaves."""

import attrs
import pytest

from gputrain import RequestError, StoppedError, TransientError
from gputrain.backends.base import JobRef
from gputrain.gcp import UnclearError
from gputrain.records import CANCELLED, WITHDRAWN
from gputrain.retry import QUEUE
from gputrain.trainer.claim import TURN_S
from gputrain.trainer.context import REPEATABLE_S
from gputrain.trainer.placing import LOOK_EVERY_S
from gputrain.trainer.undo import LATE_EVERY_S, LATE_S, TRIED_S
from tests.unit.trainer.places import FULL, JOB, Place

STOP = KeyboardInterrupt()


def stop():
    raise STOP


def told(board):
    """The record of the job of that key; None where none is kept."""
    return board.read(JOB)


@pytest.mark.parametrize(
    ("places", "where"),
    [(("east-a",), "at the 1 place tried so far"), (("east-a", "west-b"), "at the 2 places tried so far")],
)
def test_who_ends_the_wait_for_room_is_told_how_many_places_said_no(world, board, submit, places, where):
    full = Place("compute", board, places)
    full.answers = [FULL] * len(places)
    world.meanwhile = [stop]
    with pytest.raises(KeyboardInterrupt) as caught:
        submit(full, max_wait_duration="1h")
    assert str(caught.value) == f"submit was interrupted while it waited; nothing was made {where}"
    assert told(board) is None


@pytest.mark.parametrize(("waits", "unclear"), [(3, []), (4, [5])])
def test_a_limit_that_refills_is_waited_for_within_the_patience_of_a_queue(
    world, board, submit, waits, unclear
):
    later, place = TransientError("too fast", refills_in_s=QUEUE.budget_s / 3), Place("compute", board)
    place.answers = [later] * waits
    assert submit(place).ref.place == "east-a"
    assert world.slept == pytest.approx([later.refills_in_s] * 3 + unclear, abs=1)
    assert told(board).age_s == 0  # whoever waits says that it is at it


def test_a_failure_that_refills_nothing_is_not_waited_for_in_the_midst_of_a_create(world, board, submit):
    place = Place("compute", board)
    place.answers = [TransientError("it broke")] * 9
    with pytest.raises(TransientError, match="it broke"):
        submit(place)
    assert {one for _, one in place.asked} == {"east-a"}


@pytest.mark.parametrize(
    ("settles_s", "clears", "slept", "is_gone"),
    [
        (0.0, [True], [], True),
        (0.0, [False], [], False),
        (4.0, [False, True], [LATE_EVERY_S] * 2, True),
        (3.0, [True, False, False], [LATE_EVERY_S] * 2, True),
        (4.0, [False] * 3, [LATE_EVERY_S] * 2, False),
    ],
)
def test_a_ctrl_c_in_a_create_looks_for_what_may_come_late_as_long_as_it_may(
    world, board, submit, settles_s, clears, slept, is_gone
):
    place = Place("compute", board)
    place.settles_s, place.clears, place.answers = settles_s, clears, [STOP]
    with pytest.raises(KeyboardInterrupt) as caught:
        submit(place)
    told_so = "submit was interrupted while compute was asked for east-a; "
    uri = f"gputrain://compute/p/east-a/{place.cleared[0]}"
    told_so += (
        "what was made there was withdrawn"
        if is_gone
        else f"it may be there: end it with gputrain.attach({uri!r}).cancel()"
    )
    assert (str(caught.value), world.slept) == (told_so, slept)
    assert len(place.cleared) == len(slept) + 1
    there = told(board)
    assert (there and there.over) == (None if is_gone else WITHDRAWN)


@pytest.mark.parametrize(("takes_s", "count"), [(TRIED_S - 3, 2), (TRIED_S + 1, 1)])
def test_what_was_tried_for_long_after_a_ctrl_c_is_left_to_whoever_comes_next(
    world, board, submit, takes_s, count
):
    place = Place("compute", board)
    clear = place.clear

    def slowly(record):
        world.sleep(takes_s)
        return clear(record)

    place.clear, place.settles_s, place.clears, place.answers = slowly, 2.0, [False] * 9, [STOP]
    with pytest.raises(KeyboardInterrupt, match="it may be there"):
        submit(place)
    assert len(place.cleared) == count


def test_a_ctrl_c_after_a_refusal_says_what_came_of_both(board, submit):
    place = Place("compute", board)
    place.answers = [FULL, STOP]
    with pytest.raises(KeyboardInterrupt) as caught:
        submit(place)
    assert str(caught.value) == (
        "submit was interrupted while compute was asked for west-b; "
        "what was made there was withdrawn, and nothing was made at the 1 place tried so far"
    )


@pytest.mark.parametrize("comes_after_s", [None, LATE_EVERY_S])
def test_a_ctrl_c_where_no_records_are_kept_cancels_what_comes_for_a_while(world, submit, comes_after_s):
    place = Place("compute")
    place.answers = [STOP]
    if comes_after_s:
        late = JobRef(backend="compute", project="p", place="east-a", name=JOB)
        world.meanwhile = [lambda: place.made.update(late=late)]
    with pytest.raises(KeyboardInterrupt, match="what was made there was withdrawn"):
        submit(place)
    assert sum(world.slept) == (comes_after_s or LATE_S)
    assert not place.made


def test_a_stop_in_the_midst_of_staging_asks_nobody(board, submit):
    class Slow(Place):
        def stage(self, _spec, _job_id):
            raise STOP

    place = Slow("compute", board)
    with pytest.raises(KeyboardInterrupt) as caught:
        submit(place)
    assert str(caught.value) == "submit was interrupted while compute was asked for east-a; nothing was made"
    assert (place.asked, place.cleared) == ([], [])


@pytest.mark.parametrize("places", [("east-a",), ("east-a", "west-b")])
def test_where_no_records_are_kept_the_job_of_a_key_is_the_one_whose_name_it_is(submit, places):
    place = Place("compute", places=places)
    first = submit(place)
    longer = attrs.evolve(first.ref, name=f"{first.id}0")
    place.made = {longer.name: longer, **place.made}
    again = submit(place)
    assert (again.uri, len(place.asked)) == (first.uri, 1)
    if len(places) == 1:  # else nobody knows at which of them it is
        assert again.candidate == first.candidate
        assert [one.answer for one in again.attempts] == ["found there: an earlier submit made it"]
    else:
        assert (again.candidate, len(again.attempts)) == (None, 0)


def test_the_job_of_a_key_is_found_on_a_backend_without_records_beside_one_that_keeps_them(board, submit):
    keeps, lists = Place("compute", board), Place("vertex")
    first = submit(lists)
    again = submit(keeps, lists)
    assert (again.uri, keeps.asked) == (first.uri, [])
    assert again.candidate is None


def test_an_ask_without_an_answer_where_no_records_are_kept_came_to_what_is_listed(world, board, submit):
    keeps, lists = Place("compute", board), Place("vertex")
    lists.answers, keeps.answers = [SystemExit()], [FULL, FULL]
    with pytest.raises(SystemExit):
        submit(keeps, lists)
    assert told(board).latest.way.backend == "vertex"
    job = submit(keeps, lists)
    assert (job.ref.backend, world.slept, len(lists.asked)) == ("vertex", [], 2)


def died(place, submit):
    """Somebody asked, and died before there was an answer."""
    place.answers = [SystemExit()]
    with pytest.raises(SystemExit):
        submit(place)


def test_who_finds_an_ask_whose_asker_died_waits_for_its_turn_and_asks_the_next_place(world, board, submit):
    place = Place("compute", board)
    died(place, submit)
    job = submit(place)
    assert (world.slept[0], world.seconds) == (LOOK_EVERY_S, pytest.approx(world.seconds))
    assert TURN_S <= sum(world.slept) < TURN_S + 2 * LOOK_EVERY_S
    assert place.cleared == [job.id]
    assert job.ref.place == "east-a"


def test_an_ask_that_is_no_second_one_is_repeated_as_it_was_once_its_turn_is_over(world, board, submit):
    place = Place("compute", board)
    place.repeats = True
    died(place, submit)
    nonce = told(board).latest.nonce
    job = submit(place)
    assert place.turn_s <= sum(world.slept) < place.turn_s + 2 * LOOK_EVERY_S
    assert (told(board).latest.nonce, place.cleared, job.ref.place) == (nonce, [], "east-a")


@pytest.mark.parametrize("is_known", [True, False])
def test_an_ask_is_repeated_as_long_as_its_service_knows_it_for_the_same(world, board, submit, is_known):
    place = Place("compute", board)
    place.repeats = True
    died(place, submit)
    nonce = told(board).latest.nonce
    world.seconds += REPEATABLE_S - (10 if is_known else -10)
    submit(place)
    assert (told(board).latest.nonce == nonce, place.cleared) == (is_known, [] if is_known else [JOB])


@pytest.mark.parametrize("names", [("aa-0",), ("zz-0",)])
def test_an_ask_that_would_make_something_else_now_is_not_repeated(world, board, submit, names):
    place = Place("compute", board)
    place.repeats = True
    died(place, submit)
    record = told(board)
    board.write(attrs.evolve(record, asks=(attrs.evolve(record.latest, names=names),)))
    submit(place)
    assert sum(world.slept) >= TURN_S
    assert place.cleared == [JOB]


def test_an_ask_that_came_to_a_job_is_taken_up_at_once(world, board, submit):
    place = Place("compute", board)
    first = submit(place)
    again = submit(place)
    assert (again.uri, world.slept, len(place.asked)) == (first.uri, [], 1)
    assert [one.answer for one in again.attempts] == ["found there: an earlier submit made it"]


def test_an_ask_that_was_taken_and_found_no_machines_sends_the_next_submit_elsewhere(world, board, submit):
    place = Place("compute", board)
    died(place, submit)
    place.absent = FULL
    job = submit(place)
    assert (job.ref.place, world.slept) == ("west-b", [])
    assert [one.answer for one in told(board).asks] == ["no room", ""]


def test_a_job_that_was_cancelled_is_taken_up_as_it_is(board, submit):
    place = Place("compute", board)
    job = submit(place)
    place.made.clear()
    board.write(attrs.evolve(told(board).answered("no room"), over=CANCELLED))
    assert submit(place).uri == job.uri
    assert len(place.asked) == 1


@pytest.mark.parametrize("is_restart", [False, True])
@pytest.mark.parametrize(
    ("clears", "waited_s"), [([True], 0), ([False, False, True], 2 * LOOK_EVERY_S), ([False] * 9, 20)]
)
def test_what_a_ctrl_c_was_taking_back_is_gone_or_old_before_it_is_asked_again(
    world, board, submit, clears, waited_s, is_restart
):
    place = Place("compute", board)
    died(place, submit)
    record = told(board)
    board.write(record.answered(WITHDRAWN) if is_restart else attrs.evolve(record, over=WITHDRAWN))
    place.clears = list(clears)
    job = submit(place)
    assert (job.ref.place, sum(world.slept)) == ("east-a", waited_s)
    assert told(board).over == ""


def test_who_may_not_wait_for_another_process_is_told_which_job_it_is(world, board, submit, script):
    place = Place("compute", board)
    died(place, submit)
    experiment = world.trainer(place)
    spec = {"gpu": "L4:1", "max_run_duration": "1h"}
    plan = experiment.plan(script, **spec)
    with pytest.raises(StoppedError) as caught:
        experiment._asked(plan.spec, "k", None, waits=False)
    assert caught.value.uri == f"gputrain://compute/p/east-a/{told(board).job_id}"
    assert world.slept == []


def test_what_was_made_so_slowly_that_another_has_asked_meanwhile_goes(world, board, submit):
    slow, other = Place("compute", board), Place("compute", board)
    made = []

    def meanwhile():
        world.seconds += TURN_S + 1
        made.append(submit(other))

    slow.answers = [meanwhile]
    slow.made = other.made  # of one cloud
    job = submit(slow)
    assert job.uri == made[0].uri
    assert slow.cleared == other.cleared == [job.id]
    assert list(slow.made) == [told(board).latest.nonce]


def test_a_record_that_cannot_be_read_after_a_create_is_told_and_nothing_else_is_asked(world, board, submit):
    place = Place("compute", board)

    def lose():
        world.seconds += 60
        board.read = board.write = refuse

    def refuse(_asked):
        raise RequestError("the bucket is gone", fix="look")

    place.answers = [lose]
    with pytest.raises(UnclearError, match="nobody can tell whether it is the only one of its key") as caught:
        submit(place)
    assert caught.value.why.startswith("the bucket is gone")
    assert caught.value.fix.startswith(
        "look; then take it up with gputrain.attach('gputrain://compute/p/east-a/"
    )
    assert caught.value.fix.endswith(", or submit it again with the same key")
    assert len(place.asked) == 1


@pytest.mark.parametrize(("repeats", "age_s"), [(False, 0.0), (True, 120.0)])
def test_what_may_have_been_made_late_is_as_young_as_its_record_where_lists_alone_tell_of_it(
    world, board, submit, repeats, age_s
):
    def lose():
        world.seconds += 120
        raise UnclearError("lost")

    place = Place("compute", board)
    place.repeats, place.answers = repeats, [lose] * 9
    with pytest.raises(TransientError):
        submit(place)
    assert told(board).age_s == age_s


@pytest.mark.parametrize("kind", [UnclearError, TransientError])
def test_a_place_whose_answer_was_lost_is_asked_again_before_any_other(world, board, submit, kind):
    place = Place("compute", board)
    place.answers = [kind("lost"), kind("lost")]
    job = submit(place)
    assert {name for name, _ in place.asked} == {f"{job.id}-0"}
    assert [one for _, one in place.asked] == ["east-a"] * 3
    assert world.slept == pytest.approx([5.0, 5.0], abs=1)
