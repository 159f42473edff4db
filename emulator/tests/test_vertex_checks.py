"""What Vertex AI asks of a custom job, in Google's words (failures V04 to V10), on REST and on gRPC."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import Forbidden

from emulator.tests.vertex_jobs import REGION, a_job, a_pool, client_of, create, parent, refusal
from gputrain_emulator import Cloud
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex
from tests.each import each


def test_v04_a_machine_that_the_region_lacks(cloud: Cloud, client: Any) -> None:
    job = a_job(a_pool("a2-highgpu-1g", "NVIDIA_TESLA_A100", 1))
    assert refusal(cloud, client, job, "us-east4").endswith('Machine type "a2-highgpu-1g" is not supported.')
    create(cloud, client, job, "us-central1")


def test_v07_a_service_account_one_may_not_act_as_is_a_400(cloud: Cloud, client: Any, vertex: Vertex) -> None:
    account = "other@my-project.iam.gserviceaccount.com"
    vertex.forbidden_accounts.add(account)
    said = refusal(cloud, client, a_job(service_account=account))
    assert said.endswith(
        f"You do not have permission to act as service_account: {account}. (or it may not exist)."
    )


def test_v08_a_caller_without_the_permission(cloud: Cloud) -> None:
    reader = cloud.caller("reader@example.com", ["aiplatform.customJobs.list"])
    client = client_of(cloud, reader)
    with pytest.raises(Forbidden) as refused:
        create(cloud, client)
    assert refused.value.message.endswith(
        "Permission 'aiplatform.customJobs.create' denied on resource '//aiplatform.googleapis.com/"
        f"{parent(cloud)}' (or it may not exist)."
    )
    assert refused.value.reason == "IAM_PERMISSION_DENIED"
    assert list(client.list_custom_jobs(parent=parent(cloud))) == []


def test_v09_the_api_is_off(cloud: Cloud, client: Any) -> None:
    cloud.enable_api("aiplatform", enabled=False)
    with pytest.raises(Forbidden, match="has not been used in project") as refused:
        create(cloud, client)
    assert refused.value.reason == "SERVICE_DISABLED"


def test_v10_a_bucket_elsewhere_is_a_failed_precondition(cloud: Cloud, client: Any) -> None:
    cloud.world.part(Storage).add_bucket("the-bucket", location="us")
    job = a_job(base_output_directory={"output_uri_prefix": "gs://the-bucket/out"})
    assert refusal(cloud, client, job).endswith(
        "The Cloud Storage bucket of gs://the-bucket is in location us. It must be in the same regional "
        f"location as the service location {REGION}."
    )
    cloud.world.part(Storage).add_bucket("near-bucket", location=REGION)
    create(cloud, client, a_job(base_output_directory={"output_uri_prefix": "gs://near-bucket/out"}))


def _changed(path: str, value: Any) -> dict[str, Any]:
    job = a_job()
    *parents, last = path.split(".")
    at: Any = job
    for key in parents:
        at = at[int(key)] if key.isdigit() else at.setdefault(key, {})
    at[last] = value
    return job


_POOL = "job_spec.worker_pool_specs.0"


MUST = [
    ("display_name", "", "1.Field: display_name; Message: Required field is not set."),
    ("display_name", "x" * 129, "display_name; Message: Length must be less than or equal to 128."),
    ("labels", {"Team": "a"}, "can only contain lowercase letters"),
    ("labels", {"team": "A B"}, "can only contain lowercase letters"),
    ("labels", {"k" * 65: "v"}, "must be no longer than 64 characters"),
    ("labels", {f"k{n}": "v" for n in range(65)}, "must be less than or equal to 64"),
    ("job_spec.worker_pool_specs", [], "job_spec.worker_pool_specs; Message: Required field is not set."),
    ("job_spec.worker_pool_specs", [a_pool()] * 5, "At most 4 worker pools"),
    (f"{_POOL}.replica_count", 2, "worker_pool_specs[0].replica_count; Message: The replica count of the"),
    (f"{_POOL}.replica_count", 0, "worker_pool_specs[0].replica_count"),
    (f"{_POOL}.container_spec.image_uri", "", "[0].container_spec.image_uri; Message: Required field"),
    (f"{_POOL}.container_spec.env", [{"name": f"E{n}"} for n in range(101)], "At most 100 environment"),
    (f"{_POOL}.container_spec.env", [{"name": "A-B"}], "must be valid C identifiers"),
    (f"{_POOL}.machine_spec.machine_type", "", "machine_spec.machine_type; Message: Required field"),
    (f"{_POOL}.machine_spec.machine_type", "a3-edgegpu-8g", 'type "a3-edgegpu-8g" is not supported.'),
    (f"{_POOL}.machine_spec.accelerator_type", 0, 'The accelerator count "2" is not allowed'),
    (f"{_POOL}.disk_spec", {"boot_disk_type": "floppy"}, 'Boot disk type "floppy" is not supported.'),
    (f"{_POOL}.disk_spec", {"boot_disk_size_gb": 10}, "between 100 and 64000 GB"),
    ("job_spec.service_account", "nobody", "Invalid service account."),
    ("job_spec.network", "default", "Invalid network."),
    ("job_spec.tensorboard", "board", "job_spec.tensorboard; Message: Invalid resource name."),
    ("job_spec.base_output_directory.output_uri_prefix", "/tmp/x", "Invalid Cloud Storage URI."),
    ("job_spec.base_output_directory.output_uri_prefix", "gs://missing", "gs://missing does not exist"),
    ("job_spec.persistent_resource_id", "none", "Persistent resource none is not found."),
    ("job_spec.scheduling", {"max_wait_duration": "60s"}, "only be set when the scheduling strategy is FLEX"),
    ("job_spec.scheduling", {"strategy": 6, "timeout": "604801s"}, "at most 7 days"),
    ("encryption_spec.kms_key_name", "key", "encryption_spec.kms_key_name; Message: Invalid"),
]  # fmt: skip


@each(("path", "value", "said"), MUST)
def test_what_a_job_must_satisfy(cloud: Cloud, client: Any, path: str, value: Any, said: str) -> None:
    assert said in refusal(cloud, client, _changed(path, value))


def _reserved(kind: str, **affinity: Any) -> dict[str, Any]:
    pool = a_pool("a4x-highgpu-4g", "NVIDIA_GB200", 4)
    pool["machine_spec"]["reservation_affinity"] = {"reservation_affinity_type": kind, **affinity}
    return pool


_KEY = "compute.googleapis.com/reservation-name"
_COUNT = (
    'The accelerator count "8" is not allowed. The allowed numbers of accelerator "NVIDIA_L4" to use with '
    'machine type "g2-standard-8" are: [1].'
)
_NO_GPU = 'Accelerator "{}" is not supported for machine type "{}".'
_NO_FLEX = 'Scheduling strategy FLEX_START is not supported for machine type "{}".'
POOLS = [
    (a_pool("g2-standard-8", "NVIDIA_L4", 8), "STANDARD", _COUNT),
    (a_pool("n1-standard-4", "NVIDIA_L4", 1), "STANDARD", _NO_GPU.format("NVIDIA_L4", "n1-standard-4")),
    (a_pool("g2-standard-8", "NVIDIA_TESLA_T4", 1), "STANDARD", "is not supported for machine type"),
    (a_pool("n1-standard-4", "NVIDIA_TESLA_P100", 1), "STANDARD", "is not supported"),  # shut down 2026-09-15
    (a_pool("e2-standard-4", "NVIDIA_TESLA_T4", 1), "STANDARD", "is not supported for machine type"),
    (a_pool("a3-megagpu-8g", "NVIDIA_H100_MEGA_80GB", 8), "FLEX_START", _NO_FLEX.format("a3-megagpu-8g")),
    (a_pool("n1-standard-8", "NVIDIA_TESLA_T4", 1), "FLEX_START", _NO_FLEX.format("n1-standard-8")),
    (a_pool("g4-standard-48", "NVIDIA_RTX_PRO_6000", 1), "FLEX_START", _NO_FLEX.format("g4-standard-48")),
    (a_pool("a4x-highgpu-4g", "NVIDIA_GB200", 4), "STANDARD", "requires a specific reservation"),
    (_reserved("SPECIFIC_RESERVATION"), "STANDARD", f"needs key {_KEY}"),
    (_reserved("SPECIFIC_RESERVATION", key=_KEY, values=["mine"]), "STANDARD", "must have the form"),
    (_reserved("SPECIFIC_RESERVATION", key=_KEY, values=["projects/p/zones/z/reservations/r"]), "SPOT",
     "cannot be used with scheduling strategy SPOT"),
]  # fmt: skip


@each(("pool", "strategy", "said"), POOLS)
def test_v05_v06_a_pool_that_vertex_does_not_place(
    cloud: Cloud, client: Any, pool: Any, strategy: str, said: str
) -> None:
    assert said in refusal(cloud, client, a_job(pool, scheduling={"strategy": strategy}))


def test_flex_start_and_a_reservation_named_in_full_are_taken(cloud: Cloud, client: Any) -> None:
    create(cloud, client, a_job(scheduling={"strategy": "FLEX_START"}))
    whole = ["projects/p/zones/us-central1-a/reservations/r"]
    create(cloud, client, a_job(_reserved("SPECIFIC_RESERVATION", key=_KEY, values=whole)))
