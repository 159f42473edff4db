"""Vertex AI custom jobs through the official client, the same on REST and on gRPC."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import requests
from google.api_core.exceptions import (
    BadRequest,
    GoogleAPICallError,
    NotFound,
    ServerError,
)
from google.cloud.aiplatform_v1.types import JobState

from emulator.tests.vertex_jobs import REGION, TRANSPORTS, a_job, a_pool, client_of, create, parent
from gputrain_emulator import Cloud
from gputrain_emulator.faults import DropAfterCommit, Stale, server_error
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Fate, Settings, Vertex
from tests.each import each


@pytest.fixture(params=TRANSPORTS)
def client(request: pytest.FixtureRequest, cloud: Cloud) -> Any:
    """The official client, once on REST and once on gRPC."""
    return client_of(cloud, request.param)


@pytest.fixture
def vertex(cloud: Cloud) -> Vertex:
    return cloud.world.part(Vertex)


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


def test_the_project_id_in_a_name_is_as_good_as_its_number(cloud: Cloud, client: Any) -> None:
    made = create(cloud, client)
    ident = made.name.rpartition("/")[2]
    assert client.get_custom_job(name=f"{parent(cloud)}/customJobs/{ident}").name == made.name
    with pytest.raises(NotFound):
        client.get_custom_job(name=f"{parent(cloud, 'us-east4')}/customJobs/{ident}")


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


def test_only_an_ended_job_can_be_deleted(cloud: Cloud, client: Any) -> None:
    made = create(cloud, client)
    with pytest.raises(BadRequest):
        client.delete_custom_job(name=made.name)
    cloud.clock.advance(2000)
    client.delete_custom_job(name=made.name).result(timeout=10)
    with pytest.raises(NotFound):
        client.get_custom_job(name=made.name)


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


@each("wanted", ["colour=red", "state>1", "labels.a=", "(", "create_time=yesterday", "state"])
def test_an_unsupported_filter_is_refused(cloud: Cloud, client: Any, wanted: str) -> None:
    with pytest.raises(BadRequest, match="filter"):
        client.list_custom_jobs(request={"parent": parent(cloud), "filter": wanted})


def test_a_lost_reply_leaves_a_job_that_a_label_finds(cloud: Cloud, client: Any) -> None:
    cloud.fail("aiplatform.customJobs.create", DropAfterCommit())
    with pytest.raises((requests.ConnectionError, ServerError)):
        create(cloud, client, a_job(labels={"attempt": "01j"}))
    found = client.list_custom_jobs(request={"parent": parent(cloud), "filter": 'labels.attempt="01j"'})
    assert len(list(found)) == 1


def test_a_list_may_lag_behind_the_create(cloud: Cloud, client: Any) -> None:
    create(cloud, client)
    cloud.fail("aiplatform.customJobs.list", Stale(seconds=5))
    assert len(list(client.list_custom_jobs(parent=parent(cloud)))) == 0
    assert len(list(client.list_custom_jobs(parent=parent(cloud)))) == 1


def test_a_503_is_a_503_on_both_transports(cloud: Cloud, client: Any) -> None:
    cloud.fail("aiplatform.customJobs.create", server_error(503))
    with pytest.raises(ServerError):
        create(cloud, client)
    create(cloud, client)


def test_an_unknown_region_project_or_name_is_refused(cloud: Cloud, client: Any) -> None:
    with pytest.raises(NotFound):
        create(cloud, client, region="mars-1")
    with pytest.raises(GoogleAPICallError):
        client.list_custom_jobs(parent="projects/nobody/locations/us-central1")
    with pytest.raises((BadRequest, NotFound)):
        client.get_custom_job(name=f"{parent(cloud)}/customJobs/12")


def test_sixteen_threads_create_and_watch_without_a_fault(cloud: Cloud, client: Any) -> None:
    cloud.world.rates.enforced = False
    cloud.world.part(Vertex).set_limit("custom_model_training_cpus", 10**6, region="*")
    names: list[str] = []

    def work() -> None:
        for _ in range(5):
            made = create(cloud, client, a_job(a_pool("n1-standard-4", "")))
            names.append(client.get_custom_job(name=made.name).name)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 80
    assert len(list(client.list_custom_jobs(parent=parent(cloud)))) == 80


def test_rest_takes_snake_case_and_refuses_what_it_does_not_know(cloud: Cloud) -> None:
    url = f"{cloud.endpoints.aiplatform}/v1/{parent(cloud)}/customJobs"
    assert requests.post(url, json=a_job(), timeout=10).status_code == 200
    wrong = a_job()
    wrong["job_spec"]["worker_pools"] = []
    reply = requests.post(url, json=wrong, timeout=10)
    assert reply.status_code == 400
    assert 'Unknown name "worker_pools"' in reply.json()["error"]["message"]
    assert requests.get(f"{url}?colour=red", timeout=10).status_code == 400
    assert requests.get(f"{url}?pageSize=-1", timeout=10).status_code == 400
    assert requests.get(f"{url}?pageToken=!", timeout=10).status_code == 400


def test_the_host_of_another_region_is_refused(cloud: Cloud) -> None:
    url = f"{cloud.endpoints.aiplatform}/v1/{parent(cloud)}/customJobs"
    there = {"Host": "europe-west4-aiplatform.googleapis.com"}
    here = {"Host": f"{REGION}-aiplatform.googleapis.com"}
    assert requests.get(url, headers=there, timeout=10).status_code == 400
    assert requests.get(url, headers=here, timeout=10).status_code == 200


def test_a_read_mask_leaves_only_what_it_names(cloud: Cloud) -> None:
    client = client_of(cloud, "rest")
    create(cloud, client)
    (job,) = client.list_custom_jobs(request={"parent": parent(cloud), "read_mask": "name,state"})
    assert job.name
    assert job.state is JobState.JOB_STATE_PENDING
    assert not job.display_name


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


def test_tensorboards_and_persistent_resources_are_names(cloud: Cloud) -> None:
    vertex = cloud.world.part(Vertex)
    vertex.add_persistent_resource("mine", region=REGION)
    board = f"{parent(cloud)}/tensorboards/1"
    vertex.tensorboards[board] = "Losses"
    root = f"{cloud.endpoints.aiplatform}/v1"
    found = requests.get(f"{root}/{parent(cloud)}/persistentResources/mine", timeout=10)
    assert found.json()["state"] == "RUNNING"
    assert requests.get(f"{root}/{board}", timeout=10).json()["displayName"] == "Losses"
    assert requests.get(f"{root}/{parent(cloud)}/persistentResources/yours", timeout=10).status_code == 404


def test_what_is_valid_but_not_built_answers_501(cloud: Cloud) -> None:
    reply = requests.get(f"{cloud.endpoints.aiplatform}/v1/{parent(cloud)}/datasets", timeout=10)
    assert reply.status_code == 501
