"""A client that is killed once the create was sent: whoever comes with its key finds the job."""

import os
import signal
import time
from datetime import datetime, timezone

import pytest

import gputrain
from gputrain.errors import PermissionDeniedError, ProviderError
from gputrain.gcp import Objects
from gputrain.lifecycle import State
from gputrain.trainer import Trainer
from gputrain.trainer.claim import TURN_S
from gputrain_emulator import faults

CREATE = "aiplatform.customJobs.create"
LIST = "aiplatform.customJobs.list"
CANCEL = "aiplatform.customJobs.cancel"


@pytest.fixture
def submit(make, cloud, code):
    """Submits under one key, with the cloud's clock; whoever is given another sleep dies or lives by it."""

    def now():
        return datetime.fromtimestamp(cloud.clock.now(), timezone.utc)

    def build(sleep=cloud.clock.advance, **settings):
        trainer = Trainer(make(sleep=sleep, **settings), sleep=sleep, now=now)
        return trainer.submit("train.py", source_dir=code, gpu="L4:2", idempotency_key="k")

    return build


@pytest.fixture
def killed(submit, cloud):
    """A submit whose client dies in its first wait."""

    def die(_seconds):
        raise SystemExit

    def build(fault, **settings):
        cloud.fail(CREATE, fault)
        with pytest.raises(SystemExit):
            submit(sleep=die, **settings)

    return build


@pytest.mark.parametrize("transport", ["rest", "grpc"])
@pytest.mark.parametrize("since_s", [0, 100, TURN_S + 1])
@pytest.mark.parametrize("stale_s", [30, 150])
def test_the_job_that_it_made_is_found_however_late_lists_show_it(
    killed, submit, cloud, vertex, transport, since_s, stale_s
):
    cloud.fail(LIST, faults.Stale(seconds=stale_s), times=None)
    killed(faults.DropAfterCommit(), transport=transport)
    assert len(vertex.jobs) == 1
    cloud.clock.advance(since_s)
    job = submit(transport=transport)
    (number,) = vertex.jobs
    cloud.clock.advance(stale_s)
    assert job.refresh().raw["name"].endswith(f"/{number}")


def test_in_whichever_region_it_was_made_it_is_found(killed, submit, cloud, vertex):
    cloud.fail(LIST, faults.Stale(seconds=30), times=None)
    killed(faults.DropAfterCommit(), regions=["us-central1", "europe-west4"])
    assert submit(regions=["europe-west4", "us-central1"]).ref.place == "us-central1"
    assert len(vertex.jobs) == 1


def test_where_nothing_was_made_the_job_is_made_once_its_turn_is_over(killed, submit, cloud, vertex):
    killed(faults.DropBeforeCommit())
    assert vertex.jobs == {}
    begun = cloud.clock.now()
    submit()
    assert len(vertex.jobs) == 1
    assert TURN_S <= cloud.clock.now() - begun < TURN_S + 60


def interrupted(submit, cloud, *methods):
    """A submit whose create is done, and that is interrupted before it has understood the answer."""

    def press(document):
        os.kill(os.getpid(), signal.SIGINT)
        return document

    for method in (CREATE, *methods):
        cloud.fail(method, faults.Reshape(change=press))
    with pytest.raises(KeyboardInterrupt) as caught:
        submit()
    return str(caught.value)


GOING = ("JOB_STATE_CANCELLING", "JOB_STATE_CANCELLED")


def test_a_job_that_no_list_shows_yet_is_not_said_to_be_withdrawn_and_ends_once_one_does(
    submit, cloud, vertex
):
    cloud.fail(LIST, faults.Stale(seconds=60), times=None)
    assert "it may be there: end it with" in interrupted(submit, cloud)
    (number,) = vertex.jobs
    job = submit()
    (fresh,) = set(vertex.jobs) - {number}
    assert vertex.jobs[number].life.state.value in GOING
    assert job.refresh().raw["name"].endswith(f"/{fresh}")


def test_a_job_whose_withdrawal_is_cut_short_is_none_for_the_next_submit(submit, cloud, vertex):
    assert "it may be there: end it with" in interrupted(submit, cloud, CANCEL)
    (number,) = vertex.jobs
    submit()
    (fresh,) = set(vertex.jobs) - {number}
    assert [vertex.jobs[one].life.state.value in GOING for one in (number, fresh)] == [True, False]


@pytest.mark.parametrize("begins_in", [("JOB_STATE_PENDING", "JOB_STATE_RUNNING"), GOING])
def test_a_withdrawn_job_that_has_begun_leaves_the_next_one_no_lock(submit, make, cloud, vertex, begins_in):
    cloud.fail(LIST, faults.Stale(seconds=60), times=None)
    interrupted(submit, cloud)
    (number,) = vertex.jobs
    backend = make(sleep=cloud.clock.advance)
    name = f"jobs/{vertex.jobs[number].document['displayName']}/lock"
    bucket, taken = Objects(backend._access, "my-bucket"), []
    bucket.remove(name, if_generation=bucket.read(name).generation)  # as if it could not be barred

    def begin(seconds):
        cloud.clock.advance(seconds)
        if not taken and vertex.jobs[number].life.state.value in begins_in:
            taken.append(bucket.write(name, f"{number} 1".encode(), if_generation=0))

    submit(sleep=begin)
    assert taken
    (fresh,) = set(vertex.jobs) - {number}
    assert vertex.jobs[number].life.ended <= vertex.jobs[fresh].life.created
    assert bucket.read(name) is None


def test_a_job_that_a_list_shows_is_withdrawn_and_its_key_is_free(submit, cloud, vertex):
    assert "was withdrawn" in interrupted(submit, cloud)
    (job,) = vertex.jobs.values()
    assert job.life.state.value in GOING
    submit()
    assert len(vertex.jobs) == 2


def test_a_job_that_no_list_shows_is_cancelled_all_the_same_it_finds_its_lock_taken(
    submit, make, cloud, vertex, killed
):
    cloud.fail(LIST, faults.Stale(seconds=600), times=None)
    killed(faults.DropAfterCommit())
    ref = next(iter(make(sleep=cloud.clock.advance).recorder().board.entries())).job_id
    backend = make(sleep=cloud.clock.advance)
    backend.cancel(backend._ref("us-central1", ref))
    lock = Objects(backend._access, "my-bucket").read(f"jobs/{ref}/lock")
    assert lock.content == b"cancelled"
    assert backend.recorder().board.read(ref).over == "cancelled"
    cloud.clock.advance(600)  # the container has found the lock taken, and ended with 0
    assert make().observe(backend._ref("us-central1", ref)).state is State.CANCELLED


def test_a_cancel_that_may_not_be_written_down_ends_the_job_and_says_so(submit, make, cloud, vertex):
    job = submit()
    person = cloud.caller(
        "you@example.com",
        {"aiplatform.customJobs.list", "aiplatform.customJobs.get", "aiplatform.customJobs.cancel",
         "storage.objects.get", "storage.buckets.list"},
    )  # fmt: skip
    backend = make(credentials=cloud.credentials_of(person))
    with pytest.raises(PermissionDeniedError, match="a watcher may start it again"):
        backend.cancel(job.ref)
    cloud.clock.advance(60)
    assert job.refresh().state is State.CANCELLED


def test_a_cancel_without_a_readable_record_ends_the_job_and_says_so(submit, make, cloud):
    job = submit()
    Objects(make()._access, "my-bucket").write(f"records/{job.id}.json", b"[]", if_generation=None)
    with pytest.raises(ProviderError, match="no record"):
        job.cancel()
    cloud.clock.advance(60)
    assert job.refresh().state is State.CANCELLED


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_points_go_on_past_one_whose_driver_was_killed_and_come_back_to_it(make, cloud, code, vertex):
    """Nobody knows for minutes whether there is a job; the others have theirs meanwhile."""

    def mapped(points, sleep):
        trainer = Trainer(
            make(sleep=sleep),
            sleep=sleep,
            now=lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc),
        )
        return trainer.map(
            "train.py",
            points,
            name="scan",
            source_dir=code,
            gpu="L4:2",
            max_parallel=9,
            arguments=lambda _: (),
        )

    def die(_seconds):
        raise SystemExit  # ends the thread that submits

    cloud.fail(CREATE, faults.DropBeforeCommit())
    killed = mapped([{"n": 0}], die)
    killed._driver.join()
    assert vertex.jobs == {}
    scan = mapped(gputrain.grid(n=range(4)), cloud.clock.advance)
    until(lambda: len(scan.jobs) == 3)
    assert scan.rows[0] == ({"n": 0}, None)
    assert scan.errors == ()
    cloud.clock.advance(TURN_S + 1)
    until(lambda: len(scan.jobs) == 4)
    assert len(vertex.jobs) == 4
    scan.cancel()


def until(is_so):
    while not is_so():  # the test's own time limit ends it
        time.sleep(0.05)
