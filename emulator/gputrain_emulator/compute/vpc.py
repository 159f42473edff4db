"""Networks of one's own: with their profile, their subnetworks and firewall rules.

Source: compute v1 reference, "Create an A3 Ultra or A4 instance" and "Cloud NGFW for RoCE VPC networks", read
2026-11-22. Sentences are Google's where public threads show them.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.call import Call
from gputrain_emulator.compute import addresses, documents, networks, refusals
from gputrain_emulator.compute.links import in_project, last, link
from gputrain_emulator.compute.operations import mutation
from gputrain_emulator.compute.state import Compute, Operation

Json = dict[str, Any]

MTU = 1300, 8896
WITH_RDMA = {"a3-ultragpu-8g": "-vpc-roce", "a4-highgpu-8g": "-vpc-roce", "a4x-highgpu-4g": "-vpc-roce",
             "a4x-maxgpu-4g-metal": "-vpc-roce-metal"}  # fmt: skip
"""Machines whose zones have network profiles, and how those end."""


def profiles() -> dict[str, str]:
    """The zone of every network profile by its name."""
    return {
        f"{zone}{end}": zone
        for machine, end in WITH_RDMA.items()
        for zone in facts.zones()
        if facts.offered(machine, zone)
    }


def _profile(call: Call, name: str) -> Json:
    path = f"projects/{call.owner.id}/global/networkProfiles/{name}"
    if name not in profiles():
        raise refusals.not_found(path)
    location = {"name": profiles()[name], "scope": "ZONE"}
    features = {
        "interfaceTypes": ["MRDMA"],
        "allowMultiNicInSameNetwork": "MULTI_NIC_IN_SAME_NETWORK_ALLOWED",
        "allowAutoModeSubnet": "AUTO_MODE_SUBNET_BLOCKED",
    }
    return {
        "kind": "compute#networkProfile",
        "name": name,
        "location": location,
        "features": features,
        "selfLink": link(path),
    }


documents.register(
    "networkProfiles",
    "networkProfile",
    "network_profile",
    deletes=False,
    usual=lambda call: [_profile(call, name) for name in sorted(profiles())],
)


@mutation("compute.networks.insert", permission="compute.networks.create")
def insert_network(call: Call) -> Operation:
    """A network: in auto mode with a subnetwork in each region, in custom mode with none."""
    body, compute = call.body, call.world.part(Compute)
    mtu, is_auto = int(body.get("mtu", 0)), bool(body.get("autoCreateSubnetworks"))
    if mtu and not MTU[0] <= mtu <= MTU[1]:
        raise refusals.invalid("resource.mtu", mtu, f"Must be between {MTU[0]} and {MTU[1]}.")
    if body.get("name") == "default":
        raise refusals.already_exists(f"projects/{call.owner.id}/global/networks/default")
    more: Json = {"autoCreateSubnetworks": is_auto, "mtu": mtu or 1460}
    if body.get("networkProfile"):
        more["networkProfile"] = _profile(call, last(body["networkProfile"]))["selfLink"]
        if is_auto:
            sentence = "A network with a network profile cannot be in auto subnet mode."
            raise refusals.invalid("resource.autoCreateSubnetworks", "true", sentence)
    operation = documents.create(call, "networks", "network", **more)
    if is_auto:
        for region, second in addresses.AUTO_RANGES.items():
            if region in facts.regions():
                networks.add_subnetwork(
                    compute, call.owner.id, region, body["name"], body["name"], f"10.{second}.0.0/20"
                )
    return operation


@mutation("compute.subnetworks.insert", permission="compute.subnetworks.create")
def insert_subnetwork(call: Call) -> Operation:
    """A subnetwork of a network in custom mode, in a range that no other has."""
    body, compute = call.body, call.world.part(Compute)
    path = in_project(body.get("network", ""), call.owner.id)
    network = networks.find(compute, path)
    if network is None:
        raise refusals.invalid(
            "resource.network", body.get("network", ""), "The referenced network resource cannot be found."
        )
    zone = profiles().get(last(network.get("networkProfile", "")))
    if zone and zone.rpartition("-")[0] != call.params["region"]:
        sentence = "Network profile only allows resource creation in location"
        raise refusals.invalid("resource.region", call.params["region"], f"{sentence} {zone}.")
    _check_range(compute, path, body.get("ipCidrRange", ""))
    more = {"network": link(path), "privateIpGoogleAccess": bool(body.get("privateIpGoogleAccess"))}
    return documents.create(call, "subnetworks", "subnetwork", **more)


def _check_range(compute: Compute, network: str, wanted: str) -> None:
    field = "resource.ipCidrRange"
    try:
        asked = ipaddress.ip_network(wanted)
    except ValueError:
        raise refusals.invalid(field, wanted, "Must be a CIDR address range.") from None
    if asked.version != 4 or asked.prefixlen > 29 or not asked.is_private:
        raise refusals.invalid(field, wanted, "Must be a private IPv4 range of at least 8 addresses.")
    for other in compute.resources["subnetworks"].values():
        is_beside = other["network"] == link(network)
        if is_beside and asked.overlaps(ipaddress.ip_network(other["ipCidrRange"])):
            where = last(other["region"])
            sentence = f"Invalid IPCidrRange: {wanted} conflicts with existing subnetwork '{other['name']}' in region '{where}'."  # noqa: E501
            raise refusals.invalid(field, wanted, sentence)


@mutation("compute.firewalls.insert", permission="compute.firewalls.create")
def insert_firewall(call: Call) -> Operation:
    """A rule of a network; a RoCE network takes none."""
    body, compute = call.body, call.world.part(Compute)
    path = in_project(body.get("network") or "global/networks/default", call.owner.id)
    network = networks.find(compute, path)
    if network is None:
        raise refusals.invalid(
            "resource.network", body.get("network", ""), "The referenced network resource cannot be found."
        )
    if network.get("networkProfile"):
        sentence = "Firewall rules are not allowed by the network profile of the network."
        raise refusals.invalid("resource.network", body["network"], sentence)
    if bool(body.get("allowed")) is bool(body.get("denied")):
        sentence = "Either allowed or denied must be specified, and not both."
        raise refusals.invalid("resource.allowed", "", sentence)
    for source in body.get("sourceRanges", ()):
        if not _is_range(source):
            raise refusals.invalid("resource.sourceRanges", source, "Must be a CIDR range.")
    more = {"direction": "INGRESS", "priority": 1000, "disabled": False}
    usual = {name: body.get(name, value) for name, value in more.items()}
    return documents.create(call, "firewalls", "firewall", network=link(path), **usual)


def _is_range(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def _usual_rules(call: Call) -> list[Json]:
    """What Google makes for ``default``: its VMs reach each other, and SSH reaches them."""
    scope = f"projects/{call.owner.id}/global"
    every = [{"IPProtocol": "tcp", "ports": ["0-65535"]}, {"IPProtocol": "udp", "ports": ["0-65535"]}]
    rows = (
        ("internal", "10.128.0.0/9", [*every, {"IPProtocol": "icmp"}]),
        ("ssh", "0.0.0.0/0", [{"IPProtocol": "tcp", "ports": ["22"]}]),
    )
    return [
        {
            "kind": "compute#firewall", "name": f"default-allow-{name}", "direction": "INGRESS",
            "network": link(f"{scope}/networks/default"), "sourceRanges": [source], "allowed": allowed,
            "disabled": False, "priority": 65534, "selfLink": link(f"{scope}/firewalls/default-allow-{name}"),
        }
        for name, source, allowed in rows
    ]  # fmt: skip


documents.register("firewalls", "firewall", "firewall", deletes=False, usual=_usual_rules)
