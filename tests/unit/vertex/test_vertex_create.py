"""Exactly one job: whatever is lost, repeated, or done twice at once."""

import threading
import time

import pytest

import gputrain_emulator
from gputrain.backends.base import Start
from gputrain.backends.vertex import VertexAI
from gputrain.errors import (
    ApiDisabledError,
    CapacityError,
    JobLostError,
    NoPlacementError,
    PermissionDeniedError,
    QuotaExceededError,
    RequestError,
    TransientError,
)
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from gputrain_emulator.sleepers import Sleepers
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex.endings import OverQuota

CREATE = "aiplatform.customJobs.create"
LIST = "aiplatform.customJobs.list"


def spec(code, **fields):
    return TrainingSpec(**{"script": "train.py", "source_dir": code, "gpu": "L4:2", **fields})


def submit(backend, code, key="k", sleep=time.sleep, **fields):
    return Trainer(backend, sleep=sleep).submit(spec(code, **fields), idempotency_key=key)


def made(vertex):
    return list(vertex.jobs.values())


def counted(cloud, start=0):
    methods = [one.method for one in cloud.requests[start:]]
    writes = [one for one in methods if one == CREATE]
    return len(writes), len(methods) - len(writes)


def test_a_job_is_made_with_the_code_that_was_uploaded(backend, cloud, vertex, code):
    job = submit(backend, code)
    assert job.state is State.QUEUED
    (only,) = made(vertex)
    assert only.document["labels"]["gputrain-job"] == job.ref.name
    assert only.document["displayName"] == job.ref.name


def test_planning_creates_and_uploads_nothing(backend, cloud, vertex, code):
    plan = Trainer(backend).plan(spec(code))
    assert plan.requests[0]["customJob"]["displayName"].startswith("train-")
    assert made(vertex) == []
    assert {one.verb for one in cloud.requests} <= {"GET", "HEAD"}


def test_unchanged_code_costs_one_write_and_few_reads_and_no_upload(backend, cloud, code):
    submit(backend, code, key="first")
    start = len(cloud.requests)
    submit(backend, code, key="second")
    writes, reads = counted(cloud, start)
    assert writes == 1
    assert reads <= 6
    inserted = [one for one in cloud.requests[start:] if one.method == "storage.objects.insert"]
    assert [b"records/" in one.body for one in inserted] == [True]


def test_the_same_key_gives_the_same_job(backend, vertex, code):
    assert submit(backend, code).uri == submit(backend, code).uri
    assert len(made(vertex)) == 1


def test_another_process_with_the_same_key_takes_the_job_up(make, vertex, code):
    first = submit(make(), code)
    assert submit(make(), code).uri == first.uri
    assert len(made(vertex)) == 1


def test_a_job_in_another_region_is_found_by_its_key(make, vertex, code):
    first = submit(make(regions=["us-central1", "europe-west4"]), code)
    second = submit(make(regions=["us-central1", "europe-west4"]), code)
    assert first.uri == second.uri
    assert len(made(vertex)) == 1


@pytest.mark.parametrize(
    "fault", [faults.DropAfterCommit(), faults.Truncate(), faults.bad_gateway(), faults.server_error(503)]
)
def test_a_lost_answer_makes_no_second_job(make, cloud, vertex, code, fault):
    cloud.fail(CREATE, fault)
    job = submit(make(), code)
    assert len(made(vertex)) == 1
    assert job.refresh().state is State.PROVISIONING


def test_a_lost_answer_over_grpc_makes_no_second_job(make, cloud, vertex, code):
    cloud.fail(CREATE, faults.server_error(503))
    submit(make(transport="grpc"), code)
    assert len(made(vertex)) == 1


def test_a_request_that_never_arrived_is_sent_again(make, cloud, vertex, code):
    cloud.fail(CREATE, faults.DropBeforeCommit())
    submit(make(), code)
    assert len(made(vertex)) == 1


def test_a_made_job_that_lists_show_late_is_waited_for(make, cloud, vertex, code):
    cloud.fail(CREATE, faults.DropAfterCommit())
    cloud.fail(LIST, faults.Stale(seconds=40), times=None)
    submit(make(), code)
    assert len(made(vertex)) == 1


def test_without_any_answer_the_error_says_that_nothing_is_known(make, cloud, vertex, code):
    cloud.fail(CREATE, faults.DropBeforeCommit(), times=None)
    with pytest.raises(TransientError, match="create the job in us-central1"):
        submit(make(), code, sleep=cloud.clock.advance)
    assert made(vertex) == []


def test_two_processes_at_once_are_told_apart_by_the_lock(make, cloud, vertex, code):
    one, other = make(), make()
    first = submit(one, code)
    cloud.clock.advance(1)
    forget(cloud, first)
    second = submit(other, code)
    assert len(made(vertex)) == 2
    numbers = sorted(vertex.jobs)
    storage = cloud.world.part(Storage)
    lock = f"jobs/{first.ref.name}/lock"
    put_object(cloud, "my-bucket", lock, numbers[1].encode())
    assert storage.location("my-bucket")
    job = Trainer(make()).attach(second.uri)
    assert job.refresh().raw["name"].endswith(numbers[1])
    assert vertex.jobs[numbers[0]].life.state.value == "JOB_STATE_PENDING", "a look changes nothing"
    job.supervise()
    assert vertex.jobs[numbers[0]].life.state.value == "JOB_STATE_CANCELLING"


def forget(cloud, job):
    """Somebody empties the bucket: nothing but the lock keeps two jobs of one key apart."""
    cloud.world.part(Storage).objects.delete("my-bucket", f"records/{job.ref.name}.json")


def put_object(cloud, bucket, name, data):
    from gputrain.gcp import Access
    from gputrain.gcp.buckets import BucketPrefix
    from gputrain.gcp.uploads import upload

    access = Access(project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints)
    upload(access, BucketPrefix(name=bucket), name, data)


def test_a_job_that_did_nothing_leads_to_the_one_that_ran(make, cloud, vertex, code):
    one, other = make(), make()
    first = submit(one, code)
    forget(cloud, first)
    submit(other, code)
    numbers = sorted(vertex.jobs)
    winner = next(n for n in numbers if not first.refresh().raw["name"].endswith(n))
    put_object(cloud, "my-bucket", f"jobs/{first.ref.name}/lock", winner.encode())
    cloud.clock.advance(1000)
    assert first.refresh().raw["name"].endswith(winner)


def test_a_job_that_did_nothing_leads_to_the_one_that_ran_in_another_region(make, cloud, vertex, code):
    regions = ["us-central1", "europe-west4"]
    first = submit(make(regions=regions), code)
    forget(cloud, first)
    cloud.fail(CREATE, faults.Refuse(error=ApiError(400, 'Machine type "g2-standard-24" is not supported.')))
    second = submit(make(regions=regions), code)
    ran, idle = sorted(vertex.jobs, key=lambda number: vertex.jobs[number].region, reverse=True)
    assert (vertex.jobs[ran].region, vertex.jobs[idle].region) == tuple(regions)
    second.refresh()
    put_object(cloud, "my-bucket", f"jobs/{first.ref.name}/lock", ran.encode())
    cloud.clock.advance(1000)
    assert second.refresh().raw["name"].endswith(f"{regions[0]}/customJobs/{ran}")


@pytest.mark.parametrize("written", ["{}", "{} 7", "../customJobs/{}", "no number", "{}" + "0" * 5000])
def test_a_lock_that_names_somebody_elses_job_leads_nobody_to_it(make, cloud, vertex, code, written):
    mine = submit(make(), code)
    cloud.clock.advance(1000)
    other = Trainer(make()).submit("train.py", source_dir=code, gpu="L4:2", name="other")
    (theirs,) = (number for number, one in vertex.jobs.items() if one.life.state.value == "JOB_STATE_PENDING")
    put_object(cloud, "my-bucket", f"jobs/{mine.ref.name}/lock", written.format(theirs).encode())
    job = Trainer(make()).attach(mine.uri)
    assert job.state is State.SUCCEEDED
    assert not job.refresh().raw["name"].endswith(theirs)
    job.cancel()
    assert vertex.jobs[theirs].life.state.value == "JOB_STATE_PENDING"
    assert other.refresh().state is State.PROVISIONING


def test_a_job_that_was_deleted_by_hand_keeps_no_other_of_its_key_from_its_end(make, cloud, vertex, code):
    first, other = submit(make(), code), make()
    forget(cloud, first)
    second = submit(other, code)
    gone, left = sorted(vertex.jobs, key=lambda number: first.refresh().raw["name"].endswith(number))[::-1]
    vertex.jobs.pop(gone)
    first.cancel()
    assert vertex.jobs[left].life.state.value == "JOB_STATE_CANCELLING"
    assert second.refresh().state is State.STOPPING


def test_a_job_that_no_list_shows_yet_is_queued_for_whoever_takes_it_up(make, cloud, vertex, code):
    cloud.fail(LIST, faults.Stale(seconds=50), times=None)
    uri = submit(make(), code).uri
    job = Trainer(make()).attach(uri)
    assert (job.state, list(job.logs())) == (State.QUEUED, [])
    cloud.clock.advance(55)
    (number,) = vertex.jobs
    assert job.refresh().raw["name"].endswith(f"/{number}")
    with pytest.raises(JobLostError):
        Trainer(make()).attach(uri.replace("/k-", "/other-"))


def test_a_job_that_no_list_shows_yet_is_not_lost_when_it_is_cancelled(make, cloud, vertex, code):
    cloud.fail(LIST, faults.Stale(seconds=3600), times=None)
    job = submit(make(), code)
    job.cancel()
    cloud.clock.advance(60)
    assert job.refresh().state is State.CANCELLED


def test_a_cancel_that_is_refused_because_the_job_is_ending_is_none(make, cloud, vertex, code):
    job = submit(make(), code)
    cloud.clock.advance(300)
    job.cancel()
    assert job.refresh().state is State.STOPPING
    cloud.fail("aiplatform.customJobs.cancel", faults.Refuse(error=ApiError(400, "it is being cancelled")))
    job.cancel()


@pytest.mark.parametrize("status", [403, 418])
def test_a_look_that_is_refused_after_a_lost_answer_asks_no_other_region(make, cloud, vertex, code, status):
    cloud.fail(CREATE, faults.DropAfterCommit())
    cloud.fail(LIST, faults.Refuse(error=ApiError(status, "drawn")), times=None)
    with pytest.raises(TransientError, match="nobody can tell"):
        submit(make(regions=["us-central1", "europe-west4"]), code, sleep=cloud.clock.advance)
    assert [job.region for job in made(vertex)] == ["us-central1"]


def test_32_threads_get_their_jobs_through_a_limit_of_creates(make, cloud, vertex, code):
    crew = Sleepers(cloud.clock, threads=32)
    trainer = Trainer(make(sleep=crew.sleep), sleep=crew.sleep)
    vertex.set_limit("custom_model_training_nvidia_l4_gpus", 10_000, region="us-central1")
    keys, names, began = iter(range(80)), [], cloud.clock.now()

    def work():
        with crew:
            names.extend(trainer.submit(spec(code), idempotency_key=f"k{key}").ref.name for key in keys)

    threads = [threading.Thread(target=work) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == len(names) == 80
    assert sorted(job.document["displayName"] for job in made(vertex)) == sorted(names)
    assert cloud.clock.now() - began < 4 * 60, "60 a minute are let through, and hardly any is missed"


def test_a_full_region_sends_us_to_the_next(make, cloud, vertex, code):
    cloud.fail(CREATE, faults.Refuse(error=ApiError(400, 'Machine type "g2-standard-24" is not supported.')))
    job = submit(make(regions=["us-central1", "europe-west4"]), code)
    assert job.ref.place == "europe-west4"
    assert [attempt.candidate.place for attempt in job.attempts] == ["us-central1", "europe-west4"]


def test_when_every_region_refuses_the_ledger_tells(make, cloud, code):
    refusal = faults.Refuse(error=ApiError(400, 'Machine type "g2-standard-24" is not supported.'))
    cloud.fail(CREATE, refusal, times=None)
    with pytest.raises(NoPlacementError) as caught:
        submit(make(regions=["us-central1", "europe-west4"]), code)
    assert [one.candidate.place for one in caught.value.attempts] == ["us-central1", "europe-west4"]


def test_a_region_that_proved_full_is_passed_over_when_the_same_key_comes_again(make, cloud, vertex, code):
    vertex.set_stock("g2-standard-24", 0, region="us-central1")
    regions = ["us-central1", "europe-west4"]
    first = submit(make(regions=regions), code)
    cloud.clock.advance(1000)
    assert first.refresh().state is State.INTERRUPTED
    second = submit(make(regions=regions), code)
    assert second.ref.place == "europe-west4"
    assert [one.candidate.place for one in second.attempts] == regions
    assert submit(make(regions=regions), code).uri == second.uri


def test_a_region_that_was_full_long_ago_is_tried_again(make, cloud, vertex, code):
    vertex.set_stock("g2-standard-24", 0, region="us-central1")
    submit(make(), code)
    cloud.clock.advance(5000)
    vertex.set_stock("g2-standard-24", 10, region="us-central1")
    assert submit(make(), code).refresh().state is State.PROVISIONING
    assert len(made(vertex)) == 2


def test_a_quota_of_zero_names_the_metric(backend, vertex, code):
    vertex.set_limit("custom_model_training_nvidia_l4_gpus", 0, region="us-central1")
    vertex.settings = type(vertex.settings)(over_quota=OverQuota.REFUSE)
    with pytest.raises(QuotaExceededError) as caught:
        submit(backend, code)
    assert caught.value.metric == "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
    assert "quotas" in caught.value.fix


def test_an_api_that_is_off_is_told_with_the_command_that_turns_it_on(backend, cloud, code):
    cloud.enable_api("aiplatform", enabled=False)
    with pytest.raises(ApiDisabledError) as caught:
        submit(backend, code)
    assert caught.value.api == "aiplatform.googleapis.com"
    assert "gcloud services enable aiplatform.googleapis.com" in caught.value.fix


def test_an_account_that_may_not_be_acted_as_is_named(backend, vertex, code):
    vertex.forbidden_accounts.add("train@my-project.iam.gserviceaccount.com")
    with pytest.raises(PermissionDeniedError) as caught:
        submit(backend, code)
    assert caught.value.permission == "iam.serviceAccounts.actAs"
    assert "train@my-project.iam.gserviceaccount.com" in caught.value.fix


def test_a_missing_permission_is_named(make, cloud, code):
    poor = cloud.caller(
        "poor@example.com",
        permissions={"storage.buckets.list", "storage.objects.get", "storage.objects.create",
                     "aiplatform.customJobs.list", "aiplatform.customJobs.get"},
    )  # fmt: skip
    with pytest.raises(PermissionDeniedError) as caught:
        submit(make(credentials=cloud.credentials_of(poor)), code)
    assert caught.value.permission == CREATE


def test_a_wrong_project_is_refused_before_anything_is_made(make, cloud, vertex, code):
    with pytest.raises((RequestError, PermissionDeniedError)):
        submit(make(project="no-such-project"), code)
    assert made(vertex) == []


def test_an_expired_token_is_renewed(make, cloud, code, vertex):
    cloud.fail(CREATE, faults.unauthorized())
    submit(make(), code)
    assert len(made(vertex)) == 1


def test_no_bucket_says_how_to_name_one(make, code):
    with pytest.raises(RequestError, match="bucket='gs://my-bucket'"):
        submit(make(bucket=None), code)


def test_a_capacity_error_is_one_that_the_ladder_understands(make, cloud, code):
    cloud.fail(
        CREATE, faults.Refuse(error=ApiError(429, "Resources are insufficient in region: us-central1."))
    )
    backend = make()
    plan = Trainer(backend).plan(spec(code))
    bundle = backend.stage(spec(code), "a-1")
    start = Start(spec=spec(code), candidate=plan.candidates[0], job_id="a-1", bundle=bundle)
    with pytest.raises(CapacityError):
        backend.create(backend.render(start))


def test_a_cancel_ends_every_job_of_the_id(make, cloud, vertex, code):
    first = submit(make(), code)
    forget(cloud, first)
    submit(make(), code)
    assert len(made(vertex)) == 2
    Trainer(make()).attach(first.uri).cancel()
    cloud.clock.advance(120)
    assert {job.life.state.value for job in made(vertex)} == {"JOB_STATE_CANCELLED"}


def test_three_processes_with_one_key_make_one_job(code):
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.add_bucket("my-bucket", location="us-central1")
        reach = {"bucket": "gs://my-bucket", "endpoints": cloud.endpoints, "credentials": cloud.credentials}
        uris = []

        def work():
            trainer = Trainer(
                VertexAI("my-project", "us-central1", **reach), sleep=lambda s: time.sleep(min(s, 0.1))
            )
            uris.append(trainer.submit(spec(code), idempotency_key="k").uri)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(uris) == 3
        assert len(set(uris)) == len(cloud.vertex.jobs) == 1


def test_a_field_that_the_library_does_not_know_is_refused_before_anything_is_sent(cloud, make):
    before = len(cloud.requests)
    with pytest.raises(RequestError, match="takes no such request") as caught:
        make()._jobs.create("us-central1", {"displayName": "a", "gpuTurbo": True})
    assert "gpuTurbo" in caught.value.why
    assert len(cloud.requests) == before
