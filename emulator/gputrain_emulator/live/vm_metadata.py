"""An instance's JSON as its metadata server shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain_emulator.live.network import mac


def tree(
    resource: Mapping[str, Any], *, project: str, number: str, seen: Mapping[str, Any]
) -> dict[str, Any]:
    """The tree below `computeMetadata/v1` for an instance resource of Compute Engine.

    seen: what only the machine itself is told: `preempted`, `maintenanceEvent` and, when announced,
    `upcomingMaintenance`.
    """
    zone = str(resource["zone"]).rpartition("/")[2]
    scheduling = resource.get("scheduling", {})
    instance = {
        "attributes": items(resource),
        "cpuPlatform": resource.get("cpuPlatform", "Unknown CPU Platform"),
        "description": resource.get("description", ""),
        "disks": [_disk(index, disk) for index, disk in enumerate(resource.get("disks", ()))],
        "hostname": hostname(resource, project),
        "id": int(resource["id"]),
        "image": "",
        "machineType": f"projects/{number}/machineTypes/{str(resource['machineType']).rpartition('/')[2]}",
        "maintenanceEvent": "NONE",
        "name": resource["name"],
        "networkInterfaces": [_interface(each, number) for each in resource.get("networkInterfaces", ())],
        "preempted": "FALSE",
        "remainingCpuTime": -1,
        "scheduling": {
            "automaticRestart": _flag(scheduling.get("automaticRestart", True)),
            "onHostMaintenance": scheduling.get("onHostMaintenance", "MIGRATE"),
            "preemptible": _flag(scheduling.get("preemptible", False)),
        },
        "tags": list(resource.get("tags", {}).get("items", ())),
        "virtualClock": {"driftToken": "0"},
        "zone": f"projects/{number}/zones/{zone}",
        **seen,
    }
    about = {"attributes": {}, "numericProjectId": int(number), "projectId": project}
    return {"instance": instance, "project": about, "universe": {"universeDomain": "googleapis.com"}}


def items(resource: Mapping[str, Any]) -> dict[str, str]:
    """The instance's own metadata, as a mapping."""
    return {item["key"]: item.get("value", "") for item in resource.get("metadata", {}).get("items", ())}


def hostname(resource: Mapping[str, Any], project: str) -> str:
    """The zonal internal DNS name."""
    zone = str(resource["zone"]).rpartition("/")[2]
    return str(resource.get("hostname") or f"{resource['name']}.{zone}.c.{project}.internal")


def _disk(index: int, disk: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "deviceName": disk.get("deviceName", f"persistent-disk-{index}"),
        "index": index,
        "interface": disk.get("interface", "SCSI"),
        "mode": disk.get("mode", "READ_WRITE"),
        "type": "PERSISTENT" if disk.get("type", "PERSISTENT") == "PERSISTENT" else "LOCAL-SSD",
    }


def _interface(interface: Mapping[str, Any], number: str) -> dict[str, Any]:
    network = str(interface.get("network", "default")).rpartition("/")[2]
    outside = [
        {"externalIp": each.get("natIP", ""), "type": "ONE_TO_ONE_NAT"}
        for each in interface.get("accessConfigs", ())
    ]
    return {
        "accessConfigs": outside,
        "dnsServers": ["169.254.169.254"],
        "forwardedIps": [],
        "gateway": "10.128.0.1",
        "ip": interface.get("networkIP", ""),
        "ipAliases": [],
        "mac": mac(interface.get("networkIP") or "10.128.0.2"),
        "mtu": 1460,
        "network": f"projects/{number}/networks/{network}",
        "subnetmask": "255.255.240.0",
        "targetInstanceIps": [],
    }


def _flag(value: object) -> str:
    return "TRUE" if value else "FALSE"
