"""Looks at a job: its states, its end, the reason that comes later, and the rank's own traceback."""

import pytest

from gputrain.errors import JobFailedError
from gputrain.lifecycle import State
from gputrain_emulator.vertex.states import Fate
from tests.unit.vertex.runs import tell

CAUSE = {
    "kind": "exception", "rank": 3, "local_rank": 1, "node_rank": 1, "host": "h", "exception": "ValueError",
    "message": "loss is nan", "traceback": "Traceback (most recent call last):\nValueError: loss is nan",
    "exit_code": 1, "signal": None, "last_lines": ["epoch 3", "loss nan"],
}  # fmt: skip


def say_result(backend, job, **fields):
    document = {"schema": 1, "node_rank": 0, "state": "failed", "exit_code": 1, "cause": CAUSE, **fields}
    tell(backend, job, document)


def test_a_job_goes_from_its_queue_to_its_success(submit, cloud):
    job = submit()
    seen = []
    for _ in range(40):
        state = job.refresh().state
        if not seen or seen[-1] is not state:
            seen.append(state)
        cloud.clock.advance(20)
    assert seen == [State.PROVISIONING, State.RUNNING, State.SUCCEEDED]
    assert job.result().duration.total_seconds() == pytest.approx(300)


def test_an_image_as_it_is_ends_by_the_job_and_cloud_logging(trainer, cloud, vertex, made):
    cloud.add_image("us-docker.pkg.dev/my-project/train/image:1")
    fields = {"image": "us-docker.pkg.dev/my-project/train/image:1", "gpu": "L4:2"}
    job = trainer().submit(**fields)
    vertex.write_log(made()[0], "workerpool0-0", "epoch 1")
    assert job.wait() is State.SUCCEEDED
    assert "epoch 1" in [line.message for line in job.logs()]
    vertex.set_fate(Fate(exits=(7,), run_s=60))
    with pytest.raises(JobFailedError, match="status of 7"):
        trainer().submit(**fields).result()


def test_a_job_that_waits_tells_what_only_the_service_log_explains(submit, cloud, vertex):
    vertex.set_stock("g2-standard-24", 0, region="us-central1")
    job = submit(provisioning_model="flex-start", max_wait_duration="5h")
    assert job.refresh().detail == "pending"  # no call is spent on what mostly passes
    cloud.clock.advance(61)
    assert job.refresh().detail == "pending: Resources are insufficient in region: us-central1"
    assert {job.refresh().detail for _ in range(5)} == {job.detail}
    assert sum(one.method == "logging.entries.list" for one in cloud.requests) == 1
    vertex.set_stock("g2-standard-24", 9, region="us-central1")
    cloud.clock.advance(1000)
    assert job.refresh().detail == "succeeded"


def test_the_ranks_own_traceback_is_read_at_once(submit, make, cloud, vertex, made):
    vertex.set_fate(Fate(exits=(1,), replica="workerpool1-0", run_s=60))
    job = submit(num_nodes=2)
    cloud.clock.advance(120)
    say_result(make(), made()[0])
    cloud.clock.advance(60)
    with pytest.raises(JobFailedError) as caught:
        job.result(timeout=0)
    error = caught.value
    assert (error.kind, error.rank, error.node_rank, error.exit_code) == ("exception", 3, 1, 1)
    assert "ValueError: loss is nan" in str(error)


def test_empty_logs_name_the_role_that_the_account_lacks(submit, cloud, vertex):
    vertex.deaf_accounts.add("train@my-project.iam.gserviceaccount.com")
    vertex.set_fate(Fate(exits=(1,), run_s=60))
    job = submit()
    cloud.clock.advance(1000)
    with pytest.raises(JobFailedError, match=r"roles/logging\.logWriter"):
        job.result(timeout=0)
