"""Looks at a job: its states, its end, the reason that comes later, and the rank's own traceback."""

import json
from dataclasses import replace

import pytest

from gputrain.backends.base import JobRef
from gputrain.errors import JobFailedError, JobLostError, TransientError
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from gputrain_emulator import faults
from gputrain_emulator.vertex.endings import EndState
from gputrain_emulator.vertex.states import Fate, State as Theirs

GET = "aiplatform.customJobs.get"
CAUSE = {
    "kind": "exception", "rank": 3, "local_rank": 1, "node_rank": 1, "host": "h", "exception": "ValueError",
    "message": "loss is nan", "traceback": "Traceback (most recent call last):\nValueError: loss is nan",
    "exit_code": 1, "signal": None, "last_lines": ["epoch 3", "loss nan"],
}  # fmt: skip


@pytest.fixture
def submit(backend, code):
    def make(**fields):
        spec = TrainingSpec(**{"script": "train.py", "source_dir": code, "gpu": "L4:2", **fields})
        return Trainer(backend).submit(spec, idempotency_key="k")

    return make


def only(vertex):
    (job,) = vertex.jobs.values()
    return job


def say_result(vertex, job, **fields):
    document = {"schema": 1, "node_rank": 0, "state": "failed", "exit_code": 1, "cause": CAUSE, **fields}
    vertex.write_log(
        job, "workerpool0-0", "", payload={"message": "GPUTRAIN_RESULT " + json.dumps(document), "node": 0}
    )


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


def test_a_job_over_quota_is_queued(backend, vertex, code):
    vertex.set_limit("custom_model_training_nvidia_l4_gpus", 3, region="us-central1")
    trainer = Trainer(backend)
    first, second = (trainer.submit("train.py", source_dir=code, gpu="L4:2") for _ in range(2))
    assert first.refresh().state is State.PROVISIONING
    assert second.refresh().state is State.QUEUED


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


def test_another_process_that_comes_late_is_told_at_its_first_look(make, cloud, vertex, code):
    vertex.set_limit("custom_model_training_nvidia_l4_gpus", 2, region="us-central1")
    _, second = (Trainer(make()).submit("train.py", source_dir=code, gpu="L4:2") for _ in range(2))
    cloud.clock.advance(90)
    late = Trainer(make()).attach(second.uri).refresh()
    assert late.detail == "queued: Job is queued until quota is available."
    watcher = cloud.caller("watcher@example.com", permissions={GET, "aiplatform.customJobs.list"})
    mute = Trainer(make(credentials=cloud.credentials_of(watcher))).attach(second.uri).refresh()
    assert (mute.state, mute.detail) == (State.QUEUED, "queued")


def test_the_ranks_own_traceback_is_read_at_once(submit, cloud, vertex):
    vertex.set_fate(Fate(exits=(1,), replica="workerpool1-0", run_s=60))
    job = submit(num_nodes=2)
    cloud.clock.advance(120)
    say_result(vertex, only(vertex))
    cloud.clock.advance(60)
    with pytest.raises(JobFailedError) as caught:
        job.result(timeout=0)
    error = caught.value
    assert (error.kind, error.rank, error.node_rank, error.exit_code) == ("exception", 3, 1, 1)
    assert "ValueError: loss is nan" in str(error)


def test_without_a_document_the_reason_that_comes_later_is_waited_for(submit, cloud, vertex):
    vertex.set_fate(Fate(exits=(7,), run_s=60))
    job = submit()
    cloud.clock.advance(120)
    vertex.write_log(only(vertex), "workerpool0-0", "hello")
    cloud.clock.advance(40)
    assert only(vertex).life.state.value == "JOB_STATE_FAILED"
    seen = job.refresh()
    assert seen.state is None
    assert not job.state.is_terminal
    cloud.clock.advance(60)
    seen = job.refresh()
    assert seen.state is State.FAILED
    assert (seen.failure.kind, seen.failure.exit_code, seen.failure.node_rank) == ("exit", 7, 0)


def test_a_reason_that_never_comes_is_not_waited_for_for_ever(submit, cloud, vertex):
    vertex.settings = replace(vertex.settings, error_delay_s=1e9)
    vertex.set_fate(Fate(exits=(7,), run_s=60))
    job = submit()
    cloud.clock.advance(160)
    assert job.refresh().state is None
    cloud.clock.advance(120)
    assert job.refresh().state is State.FAILED


def test_no_logs_at_all_say_what_the_account_may_lack(make, cloud, vertex, code):
    vertex.deaf_accounts.add("train@my-project.iam.gserviceaccount.com")
    vertex.set_fate(Fate(exits=(1,), run_s=60))
    job = Trainer(make()).submit("train.py", source_dir=code, gpu="L4:2")
    cloud.clock.advance(300)
    assert "roles/logging.logWriter" in job.refresh().failure.message


def test_out_of_memory_is_called_by_its_name(submit, cloud, vertex):
    vertex.set_fate(Fate(exits=(137,), run_s=60))
    job = submit()
    cloud.clock.advance(300)
    assert job.refresh().failure.kind == "out_of_memory"


def test_a_region_without_machines_is_a_lack_of_capacity(submit, cloud, vertex):
    vertex.set_stock("g2-standard-24", 0, region="us-central1")
    job = submit()
    cloud.clock.advance(1000)
    seen = job.refresh()
    assert (seen.state, seen.failure.kind) == (State.FAILED, "stockout_region")


def test_a_job_at_its_time_limit_has_expired(submit, cloud, vertex):
    vertex.set_fate(Fate(run_s=float("inf")))
    job = submit(max_run_duration="10m")
    cloud.clock.advance(1000)
    assert job.refresh().state is State.EXPIRED


@pytest.mark.parametrize(
    ("word", "ours"),
    [("JOB_STATE_EXPIRED", State.EXPIRED), ("JOB_STATE_PARTIALLY_SUCCEEDED", State.FAILED)],
)
def test_what_googles_own_client_waits_for_in_vain_ends_the_job(submit, cloud, vertex, word, ours):
    job = submit()
    cloud.clock.advance(200)
    vertex.put(only(vertex), Theirs(word))
    cloud.clock.advance(200)
    assert job.refresh().state is ours


@pytest.mark.parametrize("word", ["JOB_STATE_PAUSED", "JOB_STATE_UPDATING"])
def test_a_pause_is_no_end(submit, cloud, vertex, word):
    job = submit()
    cloud.clock.advance(200)
    vertex.put(only(vertex), Theirs(word))
    job.refresh()
    assert not job.state.is_terminal


def test_a_state_of_tomorrow_moves_nothing(make, cloud, code):
    job = Trainer(make()).submit("train.py", source_dir=code, gpu="L4:2")
    cloud.clock.advance(200)
    job.refresh()
    cloud.fail(GET, faults.set_field("state", "JOB_STATE_TELEPORTED"), times=None)
    cloud.clock.advance(5)
    assert job.refresh().state is None
    assert job.state is State.RUNNING


@pytest.mark.parametrize(("restarts", "reads"), [(0, False), (3, True)])
def test_only_of_a_job_that_may_start_again_is_it_read_how_often_it_did(submit, cloud, restarts, reads):
    job = submit(provisioning_model="spot", max_restarts=restarts)
    cloud.clock.advance(200)
    start = len(cloud.requests)
    assert job.refresh().state is State.RUNNING
    assert any("lock" in one.path for one in cloud.requests[start:]) is reads


def test_a_spot_job_that_is_taken_back_is_interrupted_and_runs_again(submit, cloud, vertex):
    vertex.set_fate(Fate(run_s=400))
    job = submit(provisioning_model="spot", max_restarts=3)
    cloud.clock.advance(200)
    job.refresh()
    assert job.state is State.RUNNING
    vertex.preempt(only(vertex))
    cloud.clock.advance(2)
    job.refresh()
    assert job.state is State.INTERRUPTED
    cloud.clock.advance(200)
    job.refresh()
    assert job.state is State.RUNNING
    cloud.clock.advance(1000)
    assert job.refresh().state is State.SUCCEEDED


def test_a_cancelled_job_stops_and_a_second_cancel_changes_nothing(submit, cloud, vertex):
    job = submit()
    cloud.clock.advance(200)
    job.cancel()
    job.cancel()
    assert job.state is State.STOPPING
    cloud.clock.advance(60)
    job.refresh()
    assert job.state is State.CANCELLED
    job.cancel()
    assert job.state is State.CANCELLED
    assert sum(one.method == "aiplatform.customJobs.cancel" for one in cloud.requests) <= 2


@pytest.mark.parametrize("refuses", [False, True])
def test_a_cancel_that_comes_too_late_is_no_error(submit, cloud, vertex, refuses):
    vertex.settings = replace(vertex.settings, refuse_cancel_of_ended=refuses)
    job = submit()
    cloud.clock.advance(200)
    job.refresh()
    vertex.put(only(vertex), Theirs.SUCCEEDED)
    job.cancel()
    cloud.clock.advance(5)
    assert job.refresh().state is State.SUCCEEDED


def test_a_cancel_in_the_console_is_seen(submit, cloud, vertex):
    job = submit()
    cloud.clock.advance(200)
    vertex.cancel(only(vertex))
    cloud.clock.advance(60)
    assert job.refresh().state is State.CANCELLED


def test_a_job_deleted_while_watched_is_lost(submit, cloud, vertex):
    job = submit()
    job.refresh()
    vertex.jobs.clear()
    cloud.clock.advance(5)
    with pytest.raises(JobLostError, match="is not in us-central1"):
        job.refresh()


def test_a_name_of_no_job_is_lost(backend):
    ref = JobRef(backend="vertex", project="my-project", place="us-central1", name="nobody-1")
    with pytest.raises(JobLostError, match="label gputrain-job=nobody-1"):
        backend.observe(ref)


def test_any_process_attaches_by_the_name(submit, make, cloud):
    job = submit()
    cloud.clock.advance(1000)
    assert Trainer(make()).attach(job.uri).state is State.SUCCEEDED


def test_a_look_that_fails_for_long_is_transient_and_moves_nothing(submit, cloud):
    job = submit()
    cloud.clock.advance(200)
    job.refresh()
    cloud.fail(GET, faults.server_error(503), times=None)
    cloud.clock.advance(5)
    with pytest.raises(TransientError):
        job.refresh()
    assert job.state is State.RUNNING


def test_a_short_failure_is_not_noticed(submit, cloud):
    job = submit()
    cloud.fail(GET, faults.server_error(503), times=2)
    cloud.clock.advance(5)
    assert job.refresh().state is State.PROVISIONING


def test_an_end_is_worked_out_once(submit, cloud):
    job = submit()
    cloud.clock.advance(1000)
    job.refresh()
    before = len(cloud.requests)
    cloud.clock.advance(100)
    job.refresh()
    assert len(cloud.requests) == before


def test_jobs_are_found_newest_first_by_their_name(backend, cloud, code):
    for name in ("bert", "bert-large", "gpt"):
        Trainer(backend).submit("train.py", source_dir=code, gpu="L4:1", name=name)
        cloud.clock.advance(10)
    assert [ref.name.rpartition("-")[0] for ref in backend.find()] == ["gpt", "bert-large", "bert"]
    assert [ref.name.rpartition("-")[0] for ref in backend.find(name="bert")] == ["bert-large", "bert"]


def test_ends_of_all_kinds_have_a_state_of_ours():
    assert {end.value for end in EndState} <= {state.value for state in Theirs}


@pytest.mark.parametrize("skew_s", [-3600, 3600])
def test_a_wrong_clock_of_ours_neither_hides_an_end_nor_waits_for_ever(make, cloud, vertex, code, skew_s):
    vertex.set_fate(Fate(exits=(7,), run_s=60))
    job = Trainer(make(now=lambda: cloud.clock.now() + skew_s)).submit(
        "train.py", source_dir=code, gpu="L4:2"
    )
    cloud.clock.advance(160)
    job.refresh()
    cloud.clock.advance(120)
    assert job.refresh().state is State.FAILED


def test_a_token_that_expires_while_we_watch_is_renewed(make, cloud, code):
    job = Trainer(make()).submit("train.py", source_dir=code, gpu="L4:2")
    cloud.clock.advance(200)
    cloud.fail(GET, faults.unauthorized())
    assert job.refresh().state is State.RUNNING


def test_looks_that_come_too_fast_for_the_service_wait_for_their_turn(make, cloud, code):
    job = Trainer(make()).submit("train.py", source_dir=code, gpu="L4:2")
    cloud.fail(
        GET, faults.server_error(429, "Quota exceeded for quota metric 'x' and limit 'y per minute'"), times=2
    )
    cloud.clock.advance(5)
    assert job.refresh().state is State.PROVISIONING


def test_somebody_who_may_only_watch_sees_the_end(make, cloud, code):
    job = Trainer(make()).submit("train.py", source_dir=code, gpu="L4:2")
    watcher = cloud.caller("watcher@example.com", permissions={GET, "aiplatform.customJobs.list"})
    cloud.clock.advance(1000)
    assert Trainer(make(credentials=cloud.credentials_of(watcher))).attach(job.uri).state is State.SUCCEEDED


def test_somebody_who_may_not_read_logs_is_told_so_beside_the_reason(make, cloud, vertex, code):
    vertex.set_fate(Fate(exits=(7,), run_s=60))
    job = Trainer(make()).submit("train.py", source_dir=code, gpu="L4:2")
    watcher = cloud.caller("watcher@example.com", permissions={GET, "aiplatform.customJobs.list"})
    cloud.clock.advance(1000)
    seen = Trainer(make(credentials=cloud.credentials_of(watcher))).attach(job.uri).refresh()
    assert (seen.failure.kind, seen.failure.exit_code) == ("exit", 7)
    assert "its logs could not be read" in seen.failure.message
