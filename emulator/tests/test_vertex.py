"""Vertex AI custom jobs through the official client: their life, their lists, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import TooManyRequests
from google.cloud.aiplatform_v1.types import JobState

from emulator.tests.vertex_jobs import REGION, a_job, a_pool, create, parent
from gputrain_emulator import Cloud
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Fate, Settings, State, Vertex, states
from tests.each import each

L4 = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"


def test_a_job_goes_its_way_and_keeps_what_was_asked(cloud: Cloud, client: Any) -> None:
    made = create(cloud, client, a_job(labels={"team": "vision"}, scheduling={"timeout": "3600s"}))
    number = cloud.world.projects[cloud.project].number
    assert made.name.startswith(f"projects/{number}/locations/{REGION}/customJobs/")
    assert made.state is JobState.JOB_STATE_PENDING
    pool = made.job_spec.worker_pool_specs[0]
    assert (pool.disk_spec.boot_disk_type, pool.disk_spec.boot_disk_size_gb) == ("pd-ssd", 100)
    assert made.job_spec.scheduling.timeout.total_seconds() == 3600
    cloud.clock.advance(100)
    running = client.get_custom_job(name=made.name)
    assert running.state is JobState.JOB_STATE_RUNNING
    assert running.start_time > made.create_time
    cloud.clock.advance(1000)
    done = client.get_custom_job(name=made.name)
    assert done.state is JobState.JOB_STATE_SUCCEEDED
    assert done.end_time > running.start_time
    assert dict(done.labels) == {"team": "vision"}
    assert not done.error.code


def test_a_user_error_arrives_a_minute_after_the_job_failed(
    cloud: Cloud, client: Any, vertex: Vertex
) -> None:
    vertex.set_fate(Fate(exits=(1,)))
    made = create(cloud, client)
    cloud.clock.advance(400)
    failed = client.get_custom_job(name=made.name)
    assert failed.state is JobState.JOB_STATE_FAILED
    assert not failed.error.message
    cloud.clock.advance(60)
    message = client.get_custom_job(name=made.name).error.message
    ident = made.name.rpartition("/")[2]
    assert message.startswith(
        "The replica workerpool0-0 exited with a non-zero status of 1. To find out more"
    )
    assert f"resource=ml_job%2Fjob_id%2F{ident}&advancedFilter=" in message


def test_cancel_is_best_effort_and_may_be_repeated(cloud: Cloud, client: Any) -> None:
    made = create(cloud, client)
    cloud.clock.advance(100)
    client.cancel_custom_job(name=made.name)
    client.cancel_custom_job(name=made.name)
    assert client.get_custom_job(name=made.name).state is JobState.JOB_STATE_CANCELLING
    cloud.clock.advance(100)
    ended = client.get_custom_job(name=made.name)
    assert (ended.state, ended.error.code) == (JobState.JOB_STATE_CANCELLED, 1)
    client.cancel_custom_job(name=made.name)


def test_lists_are_newest_first_in_pages_and_per_region(cloud: Cloud, client: Any) -> None:
    names = [create(cloud, client, a_job(name=f"j{number}")).name for number in range(5)]
    create(cloud, client, region="europe-west4")
    pages = list(client.list_custom_jobs(request={"parent": parent(cloud), "page_size": 2}).pages)
    assert [len(page.custom_jobs) for page in pages] == [2, 2, 1]
    assert [job.name for page in pages for job in page.custom_jobs] == names[::-1]


@pytest.fixture
def three_jobs(cloud: Cloud, client: Any) -> None:
    create(cloud, client, a_job(name="one", labels={"run": "a"}))
    create(cloud, client, a_job(name="two", labels={"run": "b"}))
    create(cloud, client, a_job(name="three"))


@each(
    ("wanted", "found"),
    [
        ('labels.run="a"', ["one"]),
        ("labels.run=a", ["one"]),
        ("labels.run:*", ["two", "one"]),
        ('labels.run="a" OR labels.run="b"', ["two", "one"]),
        ('NOT labels.run="a"', ["three", "two"]),
        ('display_name="two"', ["two"]),
        ('display_name:"t*"', ["three", "two"]),
        ('state="JOB_STATE_PENDING" AND labels.run:*', ["two", "one"]),
        ('state!="JOB_STATE_PENDING"', []),
        ('create_time>"2000-01-01T00:00:00Z"', ["three", "two", "one"]),
        ('create_time<"2000-01-01T00:00:00Z"', []),
    ],
)
def test_list_filters_are_understood(
    cloud: Cloud, client: Any, three_jobs: None, wanted: str, found: list[str]
) -> None:
    jobs = client.list_custom_jobs(request={"parent": parent(cloud), "filter": wanted})
    assert [job.display_name for job in jobs] == found


def test_the_high_level_sdk_runs_a_job_to_its_end(cloud: Cloud) -> None:
    from google.cloud import aiplatform

    cloud.world.part(Storage).add_bucket("staging-bucket", location=REGION)
    cloud.world.part(Vertex).settings = Settings(provision_s=0, start_s=0, run_s=0)
    aiplatform.init(
        project=cloud.project,
        location=REGION,
        credentials=cloud.credentials,
        api_endpoint=cloud.endpoints.aiplatform,
        api_transport="rest",
        staging_bucket="gs://staging-bucket",
    )
    pool = a_pool("n1-standard-4", "")
    job = aiplatform.CustomJob(display_name="high", worker_pool_specs=[pool])
    job.submit()
    cloud.clock.advance(1)
    job.wait()
    assert job.state is JobState.JOB_STATE_SUCCEEDED
    told = [row.event for row in cloud.ledger if "customJobs" in row.resource]
    assert told == ["create", "pending", "running", "succeeded"]
    job.delete()


def test_v01_more_than_the_limit_is_a_429_that_names_the_metric(
    cloud: Cloud, client: Any, vertex: Vertex
) -> None:
    vertex.set_limit("custom_model_training_nvidia_l4_gpus", 3, region=REGION)
    create(cloud, client)
    with pytest.raises(TooManyRequests) as refused:
        create(cloud, client, a_job(a_pool(), a_pool(replicas=1)))
    assert refused.value.message.endswith(f"The following quota metrics exceed quota limits: {L4}")


@pytest.mark.parametrize("strategy", ["SPOT", "FLEX_START"])
def test_spot_and_flex_start_charge_the_preemptible_metric(
    cloud: Cloud, client: Any, vertex: Vertex, strategy: str
) -> None:
    vertex.set_limit("custom_model_training_nvidia_l4_gpus", 0, region=REGION)
    create(cloud, client, a_job(scheduling={"strategy": strategy}))
    vertex.set_limit("custom_model_training_preemptible_nvidia_l4_gpus", 1, region=REGION)
    with pytest.raises(TooManyRequests, match="custom_model_training_preemptible_nvidia_l4_gpus"):
        create(cloud, client, a_job(scheduling={"strategy": strategy}))


def test_v02_what_fits_the_limit_but_not_the_rest_waits_in_line(
    cloud: Cloud, client: Any, vertex: Vertex
) -> None:
    vertex.set_limit("custom_model_training_nvidia_l4_gpus", 2, region=REGION)
    create(cloud, client)
    second = create(cloud, client)
    assert second.state is JobState.JOB_STATE_QUEUED
    cloud.clock.advance(395)  # the first one has just ended
    assert client.get_custom_job(name=second.name).state is JobState.JOB_STATE_PENDING
    cloud.clock.advance(1000)
    assert client.get_custom_job(name=second.name).state is JobState.JOB_STATE_SUCCEEDED


def test_v12_v15_v16_memory_internal_and_image_errors_say_what_google_says(
    cloud: Cloud, client: Any, vertex: Vertex
) -> None:
    fates = {"memory": Fate(exits=(137,)), "internal": Fate(run_s=float("inf")), "image": Fate()}
    names = {}
    for name, fate in fates.items():
        vertex.set_fate(fate)
        names[name] = create(cloud, client, a_job(name=name)).name
    vertex.put(names["image"], State.FAILED, states.image_denied("projects/p/repo"))
    for _ in range(3):
        cloud.clock.advance(100)
        vertex.fail_internally(names["internal"])
    cloud.clock.advance(1000)
    said = {name: client.get_custom_job(name=full).error for name, full in names.items()}
    assert said["memory"].message.startswith("Replicas low on memory: workerpool0")
    assert said["internal"].message == "Internal error occurred for the current attempt"
    assert said["internal"].code == 13
    assert said["image"].message.startswith('denied: Permission "artifactregistry.repositories.downloadArtif')


def test_machines_cost_from_their_start_to_their_end(cloud: Cloud, client: Any, vertex: Vertex) -> None:
    vertex.set_fate(Fate(run_s=float("inf")))
    made = create(cloud, client)
    cloud.clock.advance(90)
    assert cloud.cost_usd == 0
    cloud.clock.advance(3600)
    hour = cloud.cost_usd
    assert 2.2 < hour < 2.4  # g2-standard-24 in us-central1: 2.001 USD an hour, and 15 % of it
    client.cancel_custom_job(name=made.name)
    cloud.clock.advance(100 * 3600)
    assert cloud.cost_usd < hour * 1.01
