"""A cancelled job ends, whatever it was doing; nothing of it bills, and its key is that of an ended job."""

import pytest

from gputrain import JobError, State
from tests.patience import PATIENCE_S, until

WAIT = """
import signal, sys, time
def save(*_):
    print("saves", flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("waiting", flush=True)
while True:
    time.sleep(0.1)
"""
KEY = "one-of-a-kind"


@pytest.fixture
def submit(road, script):
    file = script(WAIT)
    return lambda **more: road.submit(file, key=KEY, **more)


@pytest.fixture
def is_over(road, submit):
    """It ended so, nothing runs, and its key makes no second one."""

    def check(job, state):
        assert road.end(job) is state
        road.until_idle()
        begun = road.begun()
        again = submit(trainer=road.fresh())
        assert (again.uri, road.end(again)) == (job.uri, state)
        assert (road.begun(), road.living()) == (begun, [])

    return check


def test_before_its_machines_come(road, submit, is_over):
    if road.WAITS_FOR_MACHINES:
        pytest.skip("they are there: a cancel from elsewhere, below, comes before them")
    road.delay()
    job = submit()
    job.cancel()
    is_over(job, State.CANCELLED)
    assert "waiting" not in road.text(job)


def test_at_once(submit, is_over):
    job = submit()
    job.cancel()
    is_over(job, State.CANCELLED)


def test_while_it_runs_so_that_its_ranks_may_save(road, submit, is_over):
    job = submit()
    road.until_said(job, "waiting")
    job.cancel()
    job.cancel()
    is_over(job, State.CANCELLED)
    assert job.failure.kind == "cancelled"
    assert road.text(job).count("saves") == 1
    with pytest.raises(JobError) as caught:
        job.result()
    assert str(caught.value).lower().count("cancel") == 1  # once is enough


def test_by_another_client_while_one_waits(road, submit, is_over):
    job = submit()
    road.until_said(job, "waiting")
    road.fresh().attach(job.uri).cancel()
    is_over(job, State.CANCELLED)


def test_after_its_end(road, script):
    path = script("print('hello')")
    job = road.submit(path, key=KEY)
    road.end(job)
    job.cancel()
    assert job.state is State.SUCCEEDED
    again = road.submit(path, key=KEY, trainer=road.fresh())
    assert (again.uri, road.end(again), road.begun()) == (job.uri, State.SUCCEEDED, 1)


def test_from_elsewhere_while_its_submitter_still_asks_for_machines(road, script):
    road.delay()
    submitter = road.submitter(script(WAIT), KEY)
    until(lambda: submitter.poll() is not None or road.trainer.jobs())
    assert submitter.poll() is None, submitter.communicate()
    (job,) = road.trainer.jobs()
    job.cancel()
    submitter.communicate(timeout=PATIENCE_S)
    assert road.end(job) is State.CANCELLED
    road.until_idle()
    assert road.end(road.submit(script(WAIT), key=KEY)) is State.CANCELLED
    assert "waiting" not in road.text(job)
    assert road.living() == []
