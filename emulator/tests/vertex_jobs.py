"""Custom jobs for the tests, and the official client."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import BadRequest
from google.cloud import aiplatform_v1

from gputrain_emulator import Cloud
from gputrain_emulator.world import Caller

REGION = "us-central1"


def client_of(cloud: Cloud, caller: Caller | None = None) -> Any:
    """A JobServiceClient, unmodified, pointed at the emulator."""
    return aiplatform_v1.JobServiceClient(
        credentials=cloud.credentials_of(caller or cloud.owner),
        transport="rest",
        client_options=cloud.client_options,
    )


def parent(cloud: Cloud, region: str = REGION) -> str:
    return f"projects/{cloud.project}/locations/{region}"


def a_pool(
    machine: str = "g2-standard-24", accelerator: str = "NVIDIA_L4", count: int = 2, replicas: int = 1
) -> dict[str, Any]:
    """A worker pool that needs nothing outside of itself."""
    spec: dict[str, Any] = {"machine_type": machine}
    if accelerator:
        spec |= {"accelerator_type": accelerator, "accelerator_count": count}
    return {
        "machine_spec": spec,
        "replica_count": replicas,
        "container_spec": {"image_uri": "us-docker.pkg.dev/p/r/train:1", "args": ["--lr", "3e-4"]},
    }


def a_job(*pools: dict[str, Any], name: str = "train", labels: Any = None, **spec: Any) -> dict[str, Any]:
    """A custom job of these pools, or of one with two L4."""
    job: dict[str, Any] = {
        "display_name": name,
        "job_spec": {"worker_pool_specs": list(pools or (a_pool(),)), **spec},
    }
    return job if labels is None else {**job, "labels": labels}


def create(cloud: Cloud, client: Any, job: Any = None, region: str = REGION) -> Any:
    return client.create_custom_job(
        parent=parent(cloud, region), custom_job=job or a_job(), timeout=10, retry=None
    )


def refusal(cloud: Cloud, client: Any, job: Any, region: str = REGION) -> str:
    with pytest.raises(BadRequest) as refused:
        create(cloud, client, job, region)
    return str(refused.value.message)
