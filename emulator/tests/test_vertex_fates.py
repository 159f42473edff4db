"""Quota, machines, and what becomes of jobs (failures V01 to V03 and V11 to V18), on REST and on gRPC."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import (
    TooManyRequests,
)
from google.cloud.aiplatform_v1.types import JobState

from emulator.tests.vertex_jobs import REGION, TRANSPORTS, a_job, a_pool, client_of, create
from gputrain_emulator import Cloud
from gputrain_emulator.vertex import EndState, Fate, OverQuota, Settings, State, Vertex
from tests.each import each

L4 = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"


@pytest.fixture(params=TRANSPORTS)
def client(request: pytest.FixtureRequest, cloud: Cloud) -> Any:
    """The official client, once on REST and once on gRPC."""
    return client_of(cloud, request.param)


@pytest.fixture
def vertex(cloud: Cloud) -> Vertex:
    return cloud.world.part(Vertex)


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


def test_or_is_refused_where_the_world_is_set_so(cloud: Cloud, client: Any, vertex: Vertex) -> None:
    vertex.settings = Settings(over_quota=OverQuota.REFUSE)
    vertex.set_limit(L4, 2, region=REGION)
    create(cloud, client)
    with pytest.raises(TooManyRequests, match=L4):
        create(cloud, client)


def test_v03_sixty_creates_a_minute_and_region(cloud: Cloud, client: Any) -> None:
    vertex = cloud.world.part(Vertex)
    vertex.set_limit("custom_model_training_nvidia_l4_gpus", 10_000, region="*")
    cloud.rate_limit("aiplatform.job_writes", 6)
    cloud.clock.advance(60 - cloud.clock.ticking() % 60)  # at the start of a minute
    for _ in range(6):
        create(cloud, client)
    with pytest.raises(TooManyRequests, match="Quota exceeded for quota metric"):
        create(cloud, client)
    create(cloud, client, region="europe-west4")
    cloud.clock.advance(60)
    create(cloud, client)


def test_googles_own_rates_are_the_default(cloud: Cloud) -> None:
    assert cloud.world.rates.per_minute["aiplatform.requests"] == 600
    assert cloud.world.rates.per_minute["aiplatform.job_writes"] == 60


def test_v13_a_region_without_machines_fails_the_job(cloud: Cloud, client: Any, vertex: Vertex) -> None:
    vertex.set_stock("g2-standard-24", 0, region=REGION)
    made = create(cloud, client)
    cloud.clock.advance(600)
    failed = client.get_custom_job(name=made.name)
    assert failed.state is JobState.JOB_STATE_FAILED
    assert failed.error.message == (
        f"Resources are insufficient in region: {REGION}. Please try a different region or use a different "
        "accelerator."
    )


def test_stock_is_taken_and_given_back(cloud: Cloud, client: Any, vertex: Vertex) -> None:
    vertex.set_stock("g2-standard-24", 1, region=REGION)
    create(cloud, client)
    assert vertex.shares.stock[REGION, "g2-standard-24"] == 0
    cloud.clock.advance(1000)
    assert vertex.shares.stock[REGION, "g2-standard-24"] == 1


def test_v14_a_preempted_spot_job_comes_back(cloud: Cloud, client: Any, vertex: Vertex) -> None:
    made = create(cloud, client, a_job(scheduling={"strategy": "SPOT"}))
    cloud.clock.advance(100)
    vertex.preempt(made.name)
    assert client.get_custom_job(name=made.name).state is JobState.JOB_STATE_PENDING
    cloud.clock.advance(100)
    assert client.get_custom_job(name=made.name).state is JobState.JOB_STATE_RUNNING


def test_v12_v15_v16_memory_internal_and_image_errors_say_what_google_says(
    cloud: Cloud, client: Any, vertex: Vertex
) -> None:
    vertex.set_fate(Fate(exits=(137,)), display_name="memory")
    vertex.set_fate(Fate(run_s=float("inf")), display_name="internal")
    names = {name: create(cloud, client, a_job(name=name)).name for name in ("memory", "internal", "image")}
    denied = vertex.jobs[names["image"].rpartition("/")[2]].life.endings.image_denied("projects/p/repo")
    vertex.put(names["image"], State.FAILED, denied)
    for _ in range(3):
        cloud.clock.advance(100)
        vertex.fail_internally(names["internal"])
    cloud.clock.advance(1000)
    said = {name: client.get_custom_job(name=full).error for name, full in names.items()}
    assert said["memory"].message.startswith("Replicas low on memory: workerpool0")
    assert said["internal"].message == "Internal error occurred for the current attempt"
    assert said["internal"].code == 13
    assert said["image"].message.startswith('denied: Permission "artifactregistry.repositories.downloadArtif')


def test_v18_a_timeout_ends_the_job_as_the_settings_say(cloud: Cloud, client: Any, vertex: Vertex) -> None:
    vertex.settings = Settings(timeout_ends_in=EndState.FAILED)
    vertex.set_fate(Fate(run_s=float("inf")))
    made = create(cloud, client, a_job(scheduling={"timeout": "600s"}))
    cloud.clock.advance(95 + 599)
    assert client.get_custom_job(name=made.name).state is JobState.JOB_STATE_RUNNING
    cloud.clock.advance(1)
    assert client.get_custom_job(name=made.name).state is JobState.JOB_STATE_FAILED


@each("state", list(State))
def test_every_state_of_the_enum_can_be_seen(cloud: Cloud, client: Any, vertex: Vertex, state: State) -> None:
    made = create(cloud, client)
    vertex.put(made.name, state)
    assert client.get_custom_job(name=made.name).state.name == state.value


def test_machines_cost_from_their_start_to_their_end(cloud: Cloud, client: Any, vertex: Vertex) -> None:
    vertex.set_fate(Fate(run_s=float("inf")))
    made = create(cloud, client)
    cloud.clock.advance(90)
    assert cloud.cost_usd == 0
    cloud.clock.advance(3600)
    hour = cloud.cost_usd
    assert 1.9 < hour < 2.1  # g2-standard-24 in us-central1: 2.001 USD an hour
    client.cancel_custom_job(name=made.name)
    cloud.clock.advance(100 * 3600)
    assert cloud.cost_usd < hour * 1.01
