"""What Compute Engine refuses to make, and in which words."""

# ruff: noqa: E501 - one row a line

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from emulator.tests.compute import DEBIAN, ZONE, Clients, boot_disk, cpu_vm, flex, spot, vm
from gputrain_emulator import Cloud
from tests.each import each

GPU = compute_v1.AcceleratorConfig


def n1(machine: str, kind: str, count: int, **more: Any) -> compute_v1.Instance:
    config = GPU(accelerator_type=f"zones/{ZONE}/acceleratorTypes/{kind}", accelerator_count=count)
    return vm(machine=machine, guest_accelerators=[config], **more)


REFUSED = {
    "a GPU that is to migrate live": (vm(scheduling=compute_v1.Scheduling()), "Instances with guest accelerators do not support live migration"),
    "two H100 on demand": (vm(machine="a3-highgpu-2g"), r"Invalid value for field 'resource.scheduling.provisioningModel': 'STANDARD'"),
    "H200 on demand": (vm(machine="a3-ultragpu-8g", zone="us-central1-b"), "a3-ultragpu-8g can be created only with the provisioning model: SPOT, FLEX_START, RESERVATION_BOUND"),
    "GB200 on Spot": (vm(machine="a4x-highgpu-4g", scheduling=spot()), "a4x-highgpu-4g can be created only with the provisioning model: RESERVATION_BOUND"),
    "a Spot VM that restarts": (vm(scheduling=spot(automatic_restart=True)), "Scheduling must have preemptible be false when AutomaticRestart is true"),
    "a machine the zone has not": (vm(machine="a4-highgpu-8g", scheduling=spot()), f"'zones/{ZONE}/machineTypes/a4-highgpu-8g'. Machine type with name 'a4-highgpu-8g' does not exist in zone '{ZONE}'."),
    "eight T4": (n1("n1-standard-96", "nvidia-tesla-t4", 8), r"\[nvidia-tesla-t4, n1-standard-96\] features are not compatible for creating instance."),
    "one V100 on a big N1": (n1("n1-standard-32", "nvidia-tesla-v100", 1), r"\[nvidia-tesla-v100, n1-standard-32\] features are not compatible"),
    "an A100 on N1": (n1("n1-highmem-8", "nvidia-tesla-a100", 1), r"\[nvidia-tesla-a100, n1-highmem-8\] features are not compatible"),
    "no boot disk": (vm(disks=[]), "At least one boot disk"),
    "a boot disk smaller than its image": (vm(disks=[boot_disk(disk_size_gb=20)]), r"Requested disk size cannot be smaller than the image size \(50 GB\)"),
    "pd-standard under an H100": (vm(disks=[boot_disk(disk_type=f"zones/{ZONE}/diskTypes/pd-standard")]), "Disk type pd-standard is not supported for machine type a3-highgpu-8g"),
    "pd-ssd under a B200": (vm(machine="a4-highgpu-8g", zone="us-central1-b", scheduling=spot(), disks=[boot_disk(disk_type="zones/us-central1-b/diskTypes/pd-ssd")]), "Disk type pd-ssd is not supported for machine type a4-highgpu-8g"),
    "an x86 image on Grace": (vm(machine="a4x-highgpu-4g", scheduling=compute_v1.Scheduling(provisioning_model="RESERVATION_BOUND", on_host_maintenance="TERMINATE"), reservation_affinity=compute_v1.ReservationAffinity(consume_reservation_type="SPECIFIC_RESERVATION", key="compute.googleapis.com/reservation-name", values=["r"])), "image architecture X86_64"),
    "a subnetwork that is not there": (vm(network_interfaces=[compute_v1.NetworkInterface(subnetwork="regions/us-central1/subnetworks/none")]), r"Invalid value for field 'resource.networkInterfaces\[0\].subnetwork': '.*none'. The referenced subnetwork resource cannot be found."),
    "a name in capitals": (cpu_vm("Big"), "Invalid value for field 'resource.name': 'Big'. Must be a match of regex"),
    "a name of 64 letters": (cpu_vm("a" * 64), "Invalid value for field 'resource.name'"),
    "a label in capitals": (cpu_vm(labels={"Team": "a"}), "Label key 'Team' violates format constraints"),
    "a label value with a dot": (cpu_vm(labels={"team": "a.b"}), "Label value 'a.b' violates format constraints"),
    "65 labels": (cpu_vm(labels={f"l{number}": "" for number in range(65)}), "exceeds the limit of 64"),
    "a metadata value over 256 KiB": (cpu_vm(metadata=compute_v1.Metadata(items=[compute_v1.Items(key="k", value="x" * 262_145)])), "maximum size 262144 character"),
    "metadata over 512 KiB in all": (cpu_vm(metadata=compute_v1.Metadata(items=[compute_v1.Items(key=f"k{n}", value="x" * 262_000) for n in range(3)])), "Value for field 'resource.metadata' is too large"),
    "a termination action without a limit": (vm(scheduling=compute_v1.Scheduling(on_host_maintenance="TERMINATE", instance_termination_action="DELETE")), "Instance termination action can be set only"),
    "a limit without an action": (vm(scheduling=compute_v1.Scheduling(on_host_maintenance="TERMINATE", max_run_duration=compute_v1.Duration(seconds=60))), "must specify an instance termination action"),
    "a run of ten seconds": (vm(scheduling=spot(max_run_duration=compute_v1.Duration(seconds=10))), "Must be between 30 and"),
    "flex-start without a run time": (vm(**flex(max_run_duration=None)), "Flex-start VMs must have a maxRunDuration"),
    "flex-start for eight days": (vm(**flex(max_run_duration=compute_v1.Duration(seconds=8 * 86400))), "Must be between 30 and 604800 seconds"),
    "flex-start that may use a reservation": (vm(scheduling=flex()["scheduling"]), "Flex-start VMs must have NO_RESERVATION"),
    "flex-start that waits three hours": (vm(**flex(), params=compute_v1.InstanceParams(request_valid_for_duration=compute_v1.Duration(seconds=3 * 3600))), "Must be at most 7200 seconds"),
}  # fmt: skip


@each("what", REFUSED)
def test_google_refuses(clients: Clients, what: str) -> None:
    instance, words = REFUSED[what]
    zone = instance.machine_type.split("/")[1]
    with pytest.raises(exceptions.BadRequest, match=words):
        clients.insert(instance, zone=zone)
    assert clients.names(zone) == []


def test_a_service_account_needs_act_as(cloud: Cloud) -> None:
    words = "instances.create instances.setServiceAccount disks.create subnetworks.use"
    permissions = [f"compute.{word}" for word in words.split()]
    clients = Clients(cloud, cloud.credentials_of(cloud.caller("sub@example.com", permissions)))
    account = compute_v1.ServiceAccount(email="trainer@my-project.iam.gserviceaccount.com")
    why = "The user does not have access to service account 'trainer@.*'.  User: 'sub@example.com'"
    with pytest.raises(exceptions.BadRequest, match=why):
        clients.insert(cpu_vm(service_accounts=[account]))
    assert clients.insert(cpu_vm(disks=[boot_disk(DEBIAN)]))
