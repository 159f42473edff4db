"""What a cancel asks for and writes down, by what is found of the job: jobs and records put there by hand."""

import pytest

from gputrain.gcp import Objects
from gputrain.records import CANCELLED, WITHDRAWN
from gputrain_emulator.vertex.states import State as Theirs
from tests.unit.records.values import record
from tests.unit.vertex.test_vertex_alone import ASKS, CANCEL, FULL, REF, TWO, refusal

RUNS, WAITS = {"state": Theirs.RUNNING, "has_begun": True}, {"state": Theirs.PENDING}
DONE = {"state": Theirs.SUCCEEDED, "has_begun": True}
FAILED = {"state": Theirs.FAILED, "error": "The replica exited with 1", "has_begun": True}
STOPPED = {"state": Theirs.CANCELLED}
NO_ROOM = {"state": Theirs.FAILED, "error": FULL}


@pytest.fixture
def board(make):
    return make().recorder().board


@pytest.fixture
def cancelled(make, there, board, cloud):
    """Cancels what is there; how the record ends, how many are asked to stop, whether the lock is taken."""

    def cancel(jobs, over, **settings):
        for job, region in zip(jobs, TWO):
            there(**job, region=region, regions=TWO[: len(jobs)])
        board.write(record(home=board.name, asks=ASKS, over=over))
        before = len(cloud.requests)
        make(**settings).cancel(REF)
        stops = [one.method for one in cloud.requests[before:]].count(CANCEL)
        lock = Objects(make()._access, "my-bucket").read("jobs/bert-1/lock")
        return board.read("bert-1").over, stops, lock is not None

    return cancel


@pytest.mark.parametrize(
    ("jobs", "over", "then", "stops", "is_locked"),
    [
        ([RUNS], "", CANCELLED, 1, True),
        ([WAITS], "", CANCELLED, 1, True),
        ([WAITS], WITHDRAWN, CANCELLED, 1, True),
        ([NO_ROOM], "", CANCELLED, 0, True),
        ([STOPPED], "", CANCELLED, 0, True),
        ([DONE], "", "", 0, False),
        ([FAILED], "", "", 0, False),
        ([DONE], CANCELLED, CANCELLED, 0, False),
        ([DONE], WITHDRAWN, CANCELLED, 0, False),
        ([FAILED], WITHDRAWN, CANCELLED, 0, False),
        ([NO_ROOM, RUNS], "", CANCELLED, 1, True),
        ([RUNS, WAITS], "", CANCELLED, 2, True),
        ([NO_ROOM, STOPPED], "", CANCELLED, 0, True),
        ([NO_ROOM, DONE], "", "", 0, False),
    ],
)
def test_what_lives_is_asked_to_stop_and_what_could_be_made_anew_never_is(
    cancelled, jobs, over, then, stops, is_locked
):
    assert cancelled(jobs, over, regions=TWO) == (then, stops, is_locked)


@pytest.mark.parametrize(
    ("job", "then", "stops", "is_locked"),
    [(RUNS, "", 1, False), (DONE, "", 0, False), (STOPPED, "", 0, False), (NO_ROOM, CANCELLED, 0, True)],
)
def test_a_process_without_a_bucket_writes_only_that_a_job_without_machines_is_over(
    cancelled, job, then, stops, is_locked
):
    assert cancelled([job], "", bucket=None) == (then, stops, is_locked)


@pytest.mark.parametrize(("job", "stops"), [(STOPPED, 0), (RUNS, 1)])
def test_a_cancel_of_what_was_withdrawn_with_its_record_keeps_nothing_from_training(
    make, there, cloud, job, stops
):
    there(**job)
    backend = make()
    backend.cancel(REF)
    assert [one.method for one in cloud.requests].count(CANCEL) == stops
    assert Objects(backend._access, "my-bucket").list("jobs/bert-1/").seen == ()


@pytest.mark.parametrize("status", [400, 403])
def test_the_cancel_of_a_job_that_has_ended_needs_no_record(make, there, cloud, status):
    there(**DONE)
    backend = make()
    cloud.fail("storage.objects.get", refusal(status), times=None)
    backend.cancel(REF)
    assert not [one for one in cloud.requests if one.method == CANCEL]
