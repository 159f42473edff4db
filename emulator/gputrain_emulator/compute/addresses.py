"""The addresses of virtual machines: inside from their subnetwork, outside while they are on."""

from __future__ import annotations

import ipaddress
from typing import Any

from gputrain_emulator.compute import refusals
from gputrain_emulator.compute.state import Compute

Json = dict[str, Any]

_FIRST_HOST = 2
"""Google keeps the first two addresses of a range, and the last two."""
_OUTSIDE = ipaddress.ip_network("198.18.0.0/15")
"""Addresses that the internet does not route (RFC 2544), for external ones."""

AUTO_RANGES = {
    "us-central1": 128, "europe-west1": 132, "us-west1": 138, "asia-east1": 140, "us-east1": 142,
    "asia-northeast1": 146, "asia-southeast1": 148, "us-east4": 150, "australia-southeast1": 152,
    "europe-west2": 154, "europe-west3": 156, "southamerica-east1": 158, "asia-south1": 160,
    "northamerica-northeast1": 162, "europe-west4": 164, "europe-north1": 166, "us-west2": 168,
    "asia-east2": 170, "europe-west6": 172, "asia-northeast2": 174, "asia-northeast3": 178, "us-west3": 180,
    "us-west4": 182, "asia-southeast2": 184, "europe-central2": 186, "northamerica-northeast2": 188,
    "asia-south2": 190, "australia-southeast2": 192, "southamerica-west1": 194, "us-east5": 202,
    "europe-west9": 200, "us-south1": 206, "me-west1": 208, "me-central2": 216,
}  # fmt: skip
"""Second byte of 10.x.0.0/20, the range of a region's subnetwork in a network of auto mode.

us-central1 was seen in public threads; the others are Google's as remembered, unverified. No two are one.
"""


def inside(compute: Compute, subnetwork: Json, wanted: str, field: str) -> str:
    """A free address of a subnetwork; ``wanted`` if it is one.

    Raises ApiError 400 for an address of elsewhere, or one that is taken.
    """
    network = ipaddress.ip_network(subnetwork["ipCidrRange"])
    link = subnetwork["selfLink"]
    if wanted:
        if not _is_in(wanted, network):
            sentence = f"IP address must be in the range {network} of the subnetwork."
            raise refusals.invalid(f"{field}.networkIP", wanted, sentence)
        if wanted in _taken(compute, link):
            raise refusals.invalid(f"{field}.networkIP", wanted, "IP address is in use.")
        return wanted
    hosts = network.num_addresses - _FIRST_HOST - 2
    for _ in range(hosts):
        serial = compute.addresses[link]
        compute.addresses[link] += 1
        address = str(network[_FIRST_HOST + serial % hosts])
        if serial < hosts or address not in _taken(compute, link):
            return address
    sentence = f"The subnetwork {subnetwork['name']} has no free addresses left."
    raise refusals.invalid(f"{field}.subnetwork", link, sentence)


def _is_in(address: str, network: Any) -> bool:
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:
        return False


def _taken(compute: Compute, subnetwork: str) -> set[str]:
    return {
        str(nic["networkIP"])
        for vm in compute.vms.values()
        for nic in vm.resource.get("networkInterfaces", ())
        if nic["subnetwork"] == subnetwork
    }


def give_outside(compute: Compute, resource: Json) -> None:
    """An external address for every interface that asks for one and has none."""
    for nic in resource.get("networkInterfaces", ()):
        for config in nic.get("accessConfigs", ()):
            if "natIP" not in config:
                serial = compute.addresses[""]
                compute.addresses[""] += 1
                config["natIP"] = str(_OUTSIDE[1 + serial % (_OUTSIDE.num_addresses - 2)])


def take_outside(resource: Json) -> None:
    """External addresses go back when their machine is off; those inside stay."""
    for nic in resource.get("networkInterfaces", ()):
        for config in nic.get("accessConfigs", ()):
            config.pop("natIP", None)
