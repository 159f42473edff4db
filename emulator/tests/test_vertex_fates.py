"""Quota, machines, and what becomes of jobs (failures V01 to V03 and V11 to V18), on REST and on gRPC."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import (
    TooManyRequests,
)
from google.cloud.aiplatform_v1.types import JobState

from emulator.tests.vertex_jobs import REGION, a_job, a_pool, create
from gputrain_emulator import Cloud
from gputrain_emulator.vertex import Fate, State, Vertex, states

L4 = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"


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
