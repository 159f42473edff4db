"""Unmodified compute_v1 clients pointed at an emulator, and the requests that the tests send."""

from __future__ import annotations

import functools
from typing import Any

from google.cloud import compute_v1

from gputrain_emulator import Cloud

P = "my-project"
ZONE = "us-central1-a"
IMAGE = "projects/deeplearning-platform-release/global/images/family/common-cu128-ubuntu-2204-nvidia-570"
DEBIAN = "projects/debian-cloud/global/images/family/debian-12"
OUTSIDE = compute_v1.NetworkInterface(access_configs=[compute_v1.AccessConfig()])
"""An interface with an external address."""


class Clients:
    """One client of each kind, made when first used."""

    def __init__(self, cloud: Cloud, credentials: Any = None) -> None:
        self._options = {
            "credentials": credentials or cloud.credentials,
            "client_options": cloud.client_options,
        }

    @functools.cached_property
    def instances(self) -> compute_v1.InstancesClient:
        return compute_v1.InstancesClient(**self._options)

    @functools.cached_property
    def zone_operations(self) -> compute_v1.ZoneOperationsClient:
        return compute_v1.ZoneOperationsClient(**self._options)

    def of(self, name: str) -> Any:
        """``clients.of("Regions")``."""
        return getattr(compute_v1, f"{name}Client")(**self._options)

    def insert(self, instance: compute_v1.Instance, zone: str = ZONE, **more: Any) -> compute_v1.Operation:
        request = compute_v1.InsertInstanceRequest(project=P, zone=zone, instance_resource=instance, **more)
        return self.instances.insert_unary(request, retry=None, timeout=30)

    def wait(self, operation: compute_v1.Operation, zone: str = ZONE) -> compute_v1.Operation:
        return self.zone_operations.wait(
            project=P, zone=zone, operation=operation.name, retry=None, timeout=30
        )

    def run(self, instance: compute_v1.Instance, zone: str = ZONE, **more: Any) -> compute_v1.Operation:
        return self.wait(self.insert(instance, zone, **more), zone)

    def get(self, name: str = "vm-1", zone: str = ZONE) -> Any:
        return self.instances.get(project=P, zone=zone, instance=name)

    def status(self, name: str, zone: str = ZONE) -> str:
        return str(self.get(name, zone).status)

    def names(self, zone: str = ZONE, **query: Any) -> list[str]:
        request = compute_v1.ListInstancesRequest(project=P, zone=zone, **query)
        return [vm.name for vm in self.instances.list(request)]

    def bulk(
        self, resource: compute_v1.BulkInsertInstanceResource, zone: str = ZONE, **more: Any
    ) -> compute_v1.Operation:
        request = compute_v1.BulkInsertInstanceRequest(
            project=P, zone=zone, bulk_insert_instance_resource_resource=resource, **more
        )
        return self.instances.bulk_insert_unary(request, retry=None, timeout=30)

    def system_operations(self) -> list[compute_v1.Operation]:
        """Those that nobody has asked for."""
        every = self.zone_operations.list(project=P, zone=ZONE)
        return [one for one in every if one.name.startswith("systemevent-")]


def boot_disk(image: str = IMAGE, **params: Any) -> compute_v1.AttachedDisk:
    initialize = compute_v1.AttachedDiskInitializeParams(source_image=image, **params)
    return compute_v1.AttachedDisk(boot=True, auto_delete=True, initialize_params=initialize)


def vm(
    name: str = "vm-1", machine: str = "a3-highgpu-8g", zone: str = ZONE, **more: Any
) -> compute_v1.Instance:
    """A GPU VM as a careful client asks for it; ``scheduling`` and the like replace the defaults."""
    defaults: dict[str, Any] = {
        "scheduling": compute_v1.Scheduling(on_host_maintenance="TERMINATE"),
        "disks": [boot_disk()],
        "network_interfaces": [compute_v1.NetworkInterface(network="global/networks/default")],
    }
    return compute_v1.Instance(
        name=name, machine_type=f"zones/{zone}/machineTypes/{machine}", **{**defaults, **more}
    )


def cpu_vm(name: str = "vm-1", **more: Any) -> compute_v1.Instance:
    return vm(
        name, "e2-standard-4", **{"scheduling": compute_v1.Scheduling(), "disks": [boot_disk(DEBIAN)], **more}
    )


def spot(action: str = "DELETE", **more: Any) -> compute_v1.Scheduling:
    return compute_v1.Scheduling(
        provisioning_model="SPOT", instance_termination_action=action, on_host_maintenance="TERMINATE", **more
    )


def flex(**more: Any) -> dict[str, Any]:
    """What makes a VM one of flex-start; ``more`` changes its scheduling."""
    scheduling = {
        "provisioning_model": "FLEX_START", "instance_termination_action": "DELETE",
        "on_host_maintenance": "TERMINATE", "max_run_duration": compute_v1.Duration(seconds=3600), **more,
    }  # fmt: skip
    affinity = compute_v1.ReservationAffinity(consume_reservation_type="NO_RESERVATION")
    return {"scheduling": compute_v1.Scheduling(**scheduling), "reservation_affinity": affinity}


def gang(
    count: int, machine: str = "a3-highgpu-8g", prefix: str = "g", **more: Any
) -> compute_v1.BulkInsertInstanceResource:
    """A Spot gang with names of our choice."""
    properties = compute_v1.InstanceProperties(
        machine_type=machine,
        scheduling=more.pop("scheduling", spot()),
        disks=[boot_disk()],
        network_interfaces=[compute_v1.NetworkInterface(network="global/networks/default")],
        labels=more.pop("labels", {}),
    )
    names = {
        f"{prefix}-{number}": compute_v1.BulkInsertInstanceResourcePerInstanceProperties()
        for number in range(count)
    }
    return compute_v1.BulkInsertInstanceResource(
        count=count, instance_properties=properties, per_instance_properties=names, **more
    )
