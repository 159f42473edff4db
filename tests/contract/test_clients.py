"""Clients that share a key, die, come later or know nothing of each other."""

import pytest

from gputrain import State
from tests.patience import until
from tests.road import said_by

RUNS = """
import time
print("trains", flush=True)
time.sleep(1)
"""
FAILS = """
import os, time
print("step", os.environ["RANK"], flush=True)
time.sleep(2)
print("later", os.environ["RANK"], flush=True)
if os.environ["RANK"] == "1":
    raise ValueError("shard 1 is torn")
time.sleep(600)
"""
KEY = "one-of-a-kind"
FOLLOWS = """
job = trainer.attach({uri!r})
for line in job.logs(follow=True):
    print(line.rank, line.message)
try:
    job.result()
except Exception as error:
    print(type(error).__name__, error.kind, error.rank, error.traceback)
"""


def is_the_only_one(road, job):
    assert road.end(job) is State.SUCCEEDED
    assert road.text(job).count("trains") == 1
    assert (road.trainer.jobs(), road.begun()) == ([job], 1)
    road.until_idle()


def test_two_processes_with_one_key_have_one_job(road, script):
    both = [road.submitter(script(RUNS), KEY) for _ in range(2)]
    one, two = (said_by(process).strip() for process in both)
    assert one == two
    is_the_only_one(road, road.trainer.attach(one))


def test_a_key_that_is_submitted_again_by_a_trainer_that_remembers_nothing_gives_the_job(road, script):
    job = road.submit(script(RUNS), key=KEY)
    assert road.submit(script(RUNS), key=KEY, trainer=road.fresh()) == job
    road.end(job)
    assert road.submit(script(RUNS), key=KEY, trainer=road.fresh()) == job
    is_the_only_one(road, job)


def test_a_client_that_is_killed_while_it_submits_leaves_one_job_to_the_next(road, script):
    first = road.submitter(script(RUNS), KEY)
    until(lambda: road.begun() or first.poll() is not None)
    first.kill()
    first.communicate()
    is_the_only_one(road, road.submit(script(RUNS), key=KEY))


def test_a_process_that_knows_the_uri_alone_follows_the_log_and_gets_the_first_cause(road, script):
    job = road.submit(script(FAILS), nproc_per_node=2)
    said = said_by(road.process(FOLLOWS.format(uri=job.uri)))
    assert {"0 step 0", "1 step 1", "1 later 1"} <= set(said.splitlines())
    raised = said.rpartition("JobFailedError")[2]
    assert raised.startswith(" exception 1 Traceback")
    assert raised.count("ValueError: shard 1 is torn") == 1
    assert road.end(job) is State.FAILED


def test_tenants_of_one_project_keep_apart_under_one_key(road, script):
    """Neither sees, cancels or cleans up what is the other's."""
    ours, theirs = road.fresh("alice"), road.fresh("bob")
    mine = road.submit(script(RUNS), key=KEY, trainer=ours)
    yours = road.submit(script(RUNS), key=KEY, trainer=theirs)
    assert ([job.uri for job in ours.jobs()], [job.uri for job in theirs.jobs()]) == ([mine.uri], [yours.uri])
    yours.cancel()
    theirs.clean_up()
    assert road.end(yours) is State.CANCELLED
    assert road.end(mine) is State.SUCCEEDED
    assert road.text(mine).count("trains") == 1
    assert ours.jobs() == [mine]
    road.until_idle()


def test_a_clean_up_removes_machines_without_a_job_and_none_of_a_running_one(road, script):
    if not hasattr(road, "abandon"):
        pytest.skip("no job can be left here with nothing that knows of it")
    left = road.submit(script("import time\nprint('trains', flush=True)\ntime.sleep(600)"))
    road.until_said(left, "trains")
    job = road.submit(script("import time\nprint('trains', flush=True)\ntime.sleep(8)", "other.py"))
    road.until_said(job, "trains")
    road.abandon(left)
    trainer = road.fresh()
    found = trainer.orphans()
    assert {one.job_id for one in found} == {left.id}
    assert trainer.clean_up(only=found) == found
    assert road.end(job) is State.SUCCEEDED
    road.until_idle()
    assert trainer.orphans() == ()
