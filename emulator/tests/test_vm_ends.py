"""How a VM ends when nobody asked for it: reclaimed, broken, expired, out of capacity."""

from __future__ import annotations

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from emulator.tests.compute import DEBIAN, OUTSIDE, ZONE, Clients, P, boot_disk, cpu_vm, flex, spot, vm
from gputrain_emulator import Cloud


def test_a_preempted_vm_is_gone_and_the_operation_says_why(cloud: Cloud, clients: Clients) -> None:
    clients.run(vm(scheduling=spot()))
    identity = clients.get().id
    cloud.preempt("vm-1")
    assert clients.status("vm-1") == "STOPPING"
    cloud.clock.advance(60)
    with pytest.raises(exceptions.NotFound):
        clients.status("vm-1")
    (why,) = clients.system_operations()
    assert why.operation_type == "compute.instances.preempted"
    assert why.status_message == "Instance was preempted."
    assert (why.user, why.target_id) == ("system@google.com", identity)


def test_a_host_error_restarts_a_standard_vm_and_not_a_spot_one(cloud: Cloud, clients: Clients) -> None:
    clients.run(vm())
    clients.run(vm("vm-2", scheduling=spot()))
    cloud.host_error("vm-1")
    cloud.host_error("vm-2")
    cloud.clock.advance(60)
    assert (clients.status("vm-1"), clients.status("vm-2")) == ("RUNNING", "TERMINATED")
    kinds = sorted(one.operation_type for one in clients.system_operations())
    assert kinds == [f"compute.instances.{kind}" for kind in ("automaticRestart", "hostError", "hostError")]


def test_a_guest_that_powers_off_leaves_a_terminated_vm_and_its_disk(cloud: Cloud, clients: Clients) -> None:
    clients.run(vm())
    cloud.power_off("vm-1")
    assert clients.status("vm-1") == "TERMINATED"
    (why,) = clients.system_operations()
    assert why.operation_type == "compute.instances.guestTerminate"
    assert [disk.name for disk in clients.of("Disks").list(project=P, zone=ZONE)] == ["vm-1"]


@pytest.mark.parametrize(("action", "kind"), [("DELETE", "deferredDelete"), ("STOP", "deferredStop")])
def test_the_run_time_limit_is_kept_by_the_clock(
    cloud: Cloud, clients: Clients, action: str, kind: str
) -> None:
    clients.run(vm(scheduling=spot(action, max_run_duration=compute_v1.Duration(seconds=3600))))
    cloud.clock.advance(3599)
    assert clients.status("vm-1") == "RUNNING"
    cloud.clock.advance(200)
    (why,) = clients.system_operations()
    assert why.operation_type == f"compute.instances.{kind}"
    assert (clients.names() == []) is (action == "DELETE")
    assert cloud.cost_usd == pytest.approx(50.609541 * 3620 / 3600, rel=0.01)


def test_a_stockout_names_the_zones_that_have_capacity(cloud: Cloud, clients: Clients) -> None:
    cloud.stock(ZONE, "a3-highgpu-8g", 0)
    insert = clients.insert(vm())
    assert clients.status("vm-1") == "PROVISIONING"
    done = clients.wait(insert)
    assert (done.http_error_status_code, done.http_error_message) == (503, "SERVICE UNAVAILABLE")
    info = done.error.errors[0].error_details[2].error_info
    assert info.reason == "resource_availability"
    assert info.metadatas["zonesAvailable"] == "us-central1-b,us-central1-c"
    assert info.metadatas["attachment"] == "nvidia-h100-80gb:8"


LOCAL = compute_v1.AttachedDisk(
    type_="SCRATCH", auto_delete=True,
    initialize_params=compute_v1.AttachedDiskInitializeParams(disk_type=f"zones/{ZONE}/diskTypes/local-ssd"),
)  # fmt: skip
IN_REGION = "in region us-central1"
QUOTAS = {
    "of all GPUs": ("GPUS_ALL_REGIONS", 7, "", vm(), "globally"),
    "of a GPU family": ("GPUS_PER_GPU_FAMILY", 0, "NVIDIA_H100", vm(), IN_REGION),
    "of a GPU in a region": ("NVIDIA_L4_GPUS", 1, "", vm(machine="g2-standard-24"), IN_REGION),
    "of Spot GPUs": (
        "PREEMPTIBLE_NVIDIA_L4_GPUS", 1, "", vm(machine="g2-standard-24", scheduling=spot()), IN_REGION,
    ),
    "of A2's CPUs": ("A2_CPUS", 11, "", vm(machine="a2-highgpu-1g"), IN_REGION),
    "of addresses": ("IN_USE_ADDRESSES", 0, "", cpu_vm(network_interfaces=[OUTSIDE]), IN_REGION),
    "of local SSDs": ("LOCAL_SSD_TOTAL_GB", 11, "", cpu_vm(disks=[boot_disk(DEBIAN), LOCAL]), IN_REGION),
    "of Spot's local SSDs": (
        "PREEMPTIBLE_LOCAL_SSD_GB", 11, "", cpu_vm(disks=[boot_disk(DEBIAN), LOCAL], scheduling=spot()),
        IN_REGION,
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", QUOTAS)
def test_a_quota_shows_in_the_operation(cloud: Cloud, clients: Clients, which: str) -> None:
    metric, limit, family, wanted, where = QUOTAS[which]
    cloud.quota(metric, limit, region="us-central1", family=family)
    done = clients.run(wanted)
    assert (done.http_error_status_code, done.http_error_message) == (403, "FORBIDDEN")
    error = done.error.errors[0]
    assert (error.code, error.message) == (
        "QUOTA_EXCEEDED",
        f"Quota '{metric}' exceeded.  Limit: {limit}.0 {where}.",
    )
    info = error.error_details[0].quota_info
    assert (info.metric_name, info.limit) == (f"compute.googleapis.com/{metric.lower()}", limit)
    assert info.dimensions.get("gpu_family", "") == family
    cloud.quota(metric, 1000, region="us-central1", family=family)
    cloud.clock.advance(60)
    assert not clients.run(wanted).error.errors
    clients.wait(clients.instances.delete_unary(project=P, zone=ZONE, instance="vm-1"))
    quotas = clients.of("Regions").get(project=P, region="us-central1").quotas
    assert [quota.metric for quota in quotas if quota.usage] == []


def test_a_flex_start_vm_waits_for_capacity_and_then_runs(cloud: Cloud, clients: Clients) -> None:
    cloud.stock(ZONE, "a3-highgpu-2g", 0)
    params = compute_v1.InstanceParams(request_valid_for_duration=compute_v1.Duration(seconds=7200))
    insert = clients.insert(vm(machine="a3-highgpu-2g", params=params, **flex()))
    assert clients.status("vm-1") == "PENDING"
    cloud.clock.advance(3600)
    assert clients.status("vm-1") == "PENDING"
    cloud.stock(ZONE, "a3-highgpu-2g", 1)
    cloud.clock.advance(120)
    assert clients.status("vm-1") == "RUNNING"
    assert not clients.wait(insert).error.errors
