"""Cloud Quotas through Google's own client."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from google.api_core.exceptions import BadRequest, Conflict, NotFound
from google.cloud import cloudquotas_v1

import gputrain_emulator
from gputrain_emulator import Cloud
from gputrain_emulator.quotas import FAMILY_METRIC, Key, Quotas

FAMILY = "GPUS-PER-GPU-FAMILY-per-project-region"
L4 = "NVIDIA-L4-GPUS-per-project-region"


@pytest.fixture
def client(cloud: Cloud) -> Any:
    return cloudquotas_v1.CloudQuotasClient(
        credentials=cloud.credentials, transport="rest", client_options=cloud.client_options
    )


def service(cloud: Cloud, host: str = "compute.googleapis.com") -> str:
    return f"projects/{cloud.project}/locations/global/services/{host}"


def rows(cloud: Cloud, client: Any, quota: str, host: str = "compute.googleapis.com") -> dict[Any, int]:
    info = client.get_quota_info(name=f"{service(cloud, host)}/quotaInfos/{quota}")
    return {frozenset(row.dimensions.items()): row.details.value for row in info.dimensions_infos}


def a_wish(value: int, quota: str = L4, **more: Any) -> dict[str, Any]:
    return {
        "service": "compute.googleapis.com",
        "quota_id": quota,
        "quota_config": {"preferred_value": value},
        "dimensions": {"region": "us-central1"},
        "contact_email": "me@example.com",
        **more,
    }


def wish(cloud: Cloud, client: Any, name: str, value: int, **more: Any) -> Any:
    return client.create_quota_preference(
        request={
            "parent": f"projects/{cloud.project}/locations/global",
            "quota_preference_id": name,
            "quota_preference": a_wish(value, **more),
        }
    )


def test_lists_hold_computes_and_vertex_quotas_apart(cloud: Cloud, client: Any) -> None:
    compute = {info.quota_id for info in client.list_quota_infos(parent=service(cloud))}
    vertex = list(client.list_quota_infos(parent=service(cloud, "aiplatform.googleapis.com")))
    assert {
        "GPUS-ALL-REGIONS-per-project",
        FAMILY,
        L4,
        "PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region",
    } <= compute
    assert "NVIDIA-H100-GPUS-per-project-region" not in compute
    assert "CustomModelTrainingH100GPUsPerProjectPerRegion" in {info.quota_id for info in vertex}
    pages = client.list_quota_infos(request={"parent": service(cloud), "page_size": 3}).pages
    assert {info.quota_id for page in pages for info in page.quota_infos} == compute


def test_the_default_is_a_row_without_dimensions(cloud: Cloud, client: Any) -> None:
    cloud.world.part(Quotas).set_limit(
        Key(project=cloud.project, metric="NVIDIA_L4_GPUS", region="us-central1"), 8
    )
    cloud.world.part(Quotas).set_limit(Key(project=cloud.project, metric="NVIDIA_L4_GPUS", region="*"), 2)
    assert rows(cloud, client, L4) == {frozenset({("region", "us-central1")}): 8, frozenset(): 2}
    info = client.get_quota_info(name=f"{service(cloud)}/quotaInfos/{L4}")
    first, rest = info.dimensions_infos
    assert list(first.applicable_locations) == ["us-central1"]
    assert "us-central1" not in rest.applicable_locations
    assert "europe-west4" in rest.applicable_locations


def test_what_the_rows_say_is_what_is_enforced(cloud: Cloud, client: Any) -> None:
    book = cloud.world.part(Quotas)
    places = [("us-central1", "NVIDIA_H100", 16), ("*", "NVIDIA_H100", 4), ("us-east4", "", 1), ("*", "", 3)]
    for region, family, limit in places:
        book.set_limit(Key(project=cloud.project, metric=FAMILY_METRIC, region=region, family=family), limit)
    info = client.get_quota_info(name=f"{service(cloud)}/quotaInfos/{FAMILY}")
    for region in ("us-central1", "us-east4", "europe-west4"):
        for family in ("NVIDIA_H100", "NVIDIA_H200"):
            wanted = {"region": region, "gpu_family": family}
            first = next(
                row
                for row in info.dimensions_infos
                if dict(row.dimensions).items() <= wanted.items() and region in row.applicable_locations
            )
            key = Key(project=cloud.project, metric=FAMILY_METRIC, region=region, family=family)
            assert book.limit(key) == first.details.value


def test_a_wish_is_reviewed_and_then_in_force(cloud: Cloud, client: Any) -> None:
    asked = wish(cloud, client, "l4-us-central1", 100)
    assert asked.reconciling
    assert asked.quota_config.trace_id
    assert not asked.contact_email
    cloud.clock.advance(60)
    done = client.get_quota_preference(name=asked.name)
    assert not done.reconciling
    assert done.quota_config.granted_value == 100
    assert rows(cloud, client, L4)[frozenset({("region", "us-central1")})] == 100


def test_a_wish_is_changed_by_patch_but_not_its_dimensions(cloud: Cloud, client: Any) -> None:
    asked = wish(cloud, client, "l4", 100)
    changed = client.update_quota_preference(
        quota_preference=a_wish(120, name=asked.name), update_mask="quotaConfig"
    )
    assert changed.quota_config.preferred_value == 120
    elsewhere = a_wish(130, name=asked.name) | {"dimensions": {"region": "us-east4"}}
    with pytest.raises(BadRequest, match="cannot be changed"):
        client.update_quota_preference(quota_preference=elsewhere)
    with pytest.raises(Conflict, match="etag"):
        client.update_quota_preference(quota_preference=a_wish(130, name=asked.name, etag="old"))
    with pytest.raises(NotFound):
        client.update_quota_preference(quota_preference=a_wish(130, name=f"{asked.name}-other"))


def test_gclouds_beta_path_and_a_place_that_is_not_global() -> None:
    with gputrain_emulator.start() as cloud:  # neither is in the document that other exchanges are judged by
        url = f"{cloud.endpoints.cloudquotas}/v1beta/{service(cloud)}/quotaInfos"
        assert requests.get(url, timeout=10).status_code == 200
        assert requests.get(url.replace("global", "us-central1"), timeout=10).status_code == 400
