"""Cloud Quotas through Google's own client."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import BadRequest, Conflict, MethodNotImplemented, NotFound
from google.cloud import cloudquotas_v1
from google.cloud.aiplatform_v1.types import JobState

from emulator.tests.vertex_jobs import client_of, create
from gputrain_emulator import Cloud
from gputrain_emulator.quotas import FAMILY_METRIC, Key, Quotas

FAMILY = "GPUS-PER-GPU-FAMILY-per-project-region"
L4 = "NVIDIA-L4-GPUS-per-project-region"
GLOBAL = "projects/my-project/locations/global"
SERVICE = f"{GLOBAL}/services/compute.googleapis.com"
VERTEX = f"{GLOBAL}/services/aiplatform.googleapis.com"


@pytest.fixture
def client(cloud: Cloud) -> Any:
    return cloudquotas_v1.CloudQuotasClient(
        credentials=cloud.credentials, transport="rest", client_options=cloud.client_options
    )


def rows(client: Any, quota: str) -> dict[Any, int]:
    info = client.get_quota_info(name=f"{SERVICE}/quotaInfos/{quota}")
    return {frozenset(row.dimensions.items()): row.details.value for row in info.dimensions_infos}


def wish(client: Any, value: int, region: str = "us-central1", *, name: str = "l4", **more: Any) -> Any:
    preference = {
        "name": f"{GLOBAL}/quotaPreferences/{name}", "service": "compute.googleapis.com", "quota_id": L4,
        "quota_config": {"preferred_value": value}, "dimensions": {"region": region},
        "contact_email": "me@example.com", **more,
    }  # fmt: skip
    return client.update_quota_preference(
        request={"quota_preference": preference, "allow_missing": name == "l4"}
    )


def test_lists_hold_computes_and_vertex_quotas_apart(client: Any) -> None:
    compute = {info.quota_id for info in client.list_quota_infos(parent=SERVICE)}
    assert {"GPUS-ALL-REGIONS-per-project", FAMILY, L4} <= compute
    assert "PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region" in compute
    assert "NVIDIA-H100-GPUS-per-project-region" not in compute
    vertex = {info.quota_id for info in client.list_quota_infos(parent=VERTEX)}
    assert "CustomModelTrainingH100GPUsPerProjectPerRegion" in vertex
    pages = client.list_quota_infos(request={"parent": SERVICE, "page_size": 3}).pages
    assert {info.quota_id for page in pages for info in page.quota_infos} == compute


def test_the_default_is_a_row_without_dimensions(cloud: Cloud, client: Any) -> None:
    for region, limit in (("us-central1", 8), ("*", 2)):
        cloud.quota("NVIDIA_L4_GPUS", limit, region=region)
    assert rows(client, L4) == {frozenset({("region", "us-central1")}): 8, frozenset(): 2}
    first, rest = client.get_quota_info(name=f"{SERVICE}/quotaInfos/{L4}").dimensions_infos
    assert list(first.applicable_locations) == ["us-central1"]
    assert "us-central1" not in rest.applicable_locations
    assert "europe-west4" in rest.applicable_locations


def test_what_the_rows_say_is_what_is_enforced(cloud: Cloud, client: Any) -> None:
    book = cloud.world.part(Quotas)
    places = [("us-central1", "NVIDIA_H100", 16), ("*", "NVIDIA_H100", 4), ("us-east4", "", 1), ("*", "", 3)]
    for region, family, limit in places:
        cloud.quota(FAMILY_METRIC, limit, region=region, family=family)
    found = client.get_quota_info(name=f"{SERVICE}/quotaInfos/{FAMILY}").dimensions_infos
    for region in ("us-central1", "us-east4", "europe-west4"):
        for family in ("NVIDIA_H100", "NVIDIA_H200"):
            wanted = {"region": region, "gpu_family": family}.items()
            fits = (one for one in found if region in one.applicable_locations)
            first = next(one for one in fits if dict(one.dimensions).items() <= wanted)
            key = Key(project=cloud.project, metric=FAMILY_METRIC, region=region, family=family)
            assert book.limit(key) == first.details.value


def test_a_wish_is_reviewed_and_then_in_force(cloud: Cloud, client: Any) -> None:
    asked = wish(client, 100)
    assert (asked.reconciling, asked.contact_email) == (True, "")
    cloud.clock.advance(60)
    (done,) = client.list_quota_preferences(parent=GLOBAL)
    assert (done.name, done.reconciling, done.quota_config.granted_value) == (asked.name, False, 100)
    assert rows(client, L4)[frozenset({("region", "us-central1")})] == 100


def test_a_job_that_waits_for_quota_starts_once_more_is_granted(cloud: Cloud, client: Any) -> None:
    cloud.quota("aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus", 2, region="us-central1")
    jobs = client_of(cloud)
    _, waiting = create(cloud, jobs), create(cloud, jobs)
    assert waiting.state is JobState.JOB_STATE_QUEUED
    quota = "CustomModelTrainingL4GPUsPerProjectPerRegion"
    wish(client, 4, service="aiplatform.googleapis.com", quota_id=quota)
    cloud.clock.advance(60)
    assert jobs.get_custom_job(name=waiting.name).state is JobState.JOB_STATE_PENDING


def test_a_wish_is_changed_but_not_its_dimensions(client: Any) -> None:
    wish(client, 100)
    assert wish(client, 120).quota_config.preferred_value == 120
    with pytest.raises(BadRequest, match="cannot be changed"):
        wish(client, 130, "us-east4")
    with pytest.raises(Conflict, match="etag"):
        wish(client, 130, etag="old")
    with pytest.raises(NotFound):
        wish(client, 130, name="other")
    with pytest.raises(MethodNotImplemented, match="lower value"):
        wish(client, 1)
