"""Networks, subnetworks, firewall rules and the addresses of VMs; every project has ``default``.

Source: compute v1 reference, "Create an A3 Ultra or A4 instance" and "Cloud NGFW for RoCE VPC networks", read
2026-11-22. Sentences are Google's where public threads show them.
"""

from __future__ import annotations

import ipaddress
import re
import zlib
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.call import Call
from gputrain_emulator.compute import documents, refusals
from gputrain_emulator.compute.links import fingerprint, in_project, last, link, relative
from gputrain_emulator.compute.operations import mutation
from gputrain_emulator.compute.state import Compute, Operation
from gputrain_emulator.errors import ApiError

Json = dict[str, Any]

_FIRST_HOST = 2
"""Google keeps the first two addresses of a range, and the last two."""
_OUTSIDE = ipaddress.ip_network("198.18.0.0/15")
"""Addresses that the internet does not route (RFC 2544), for external ones."""


def _free_address(compute: Compute, subnetwork: Json, field: str) -> str:
    """A free address of a subnetwork; raises ApiError 400 where there is none."""
    network, link = ipaddress.ip_network(subnetwork["ipCidrRange"]), subnetwork["selfLink"]
    nics = [nic for vm in compute.vms.values() for nic in vm.resource.get("networkInterfaces", ())]
    taken = {str(nic["networkIP"]) for nic in nics if nic["subnetwork"] == link}
    hosts = network.num_addresses - _FIRST_HOST - 2
    for _ in range(hosts):
        address = str(network[_FIRST_HOST + compute.addresses[link] % hosts])
        compute.addresses[link] += 1
        if address not in taken:
            return address
    sentence = f"The subnetwork {subnetwork['name']} has no free addresses left."
    raise refusals.invalid(f"{field}.subnetwork", link, sentence)


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


def interfaces(compute: Compute, project: str, zone: str, wanted: list[Json]) -> list[Json]:
    """The VM's network interfaces with addresses; raises ApiError 400 for a network that is not there."""
    if not wanted:
        raise refusals.invalid(
            "resource.networkInterfaces", "", "At least one network interface is required."
        )
    region = zone.rpartition("-")[0]
    found = [_interface(compute, project, region, nic, index) for index, nic in enumerate(wanted)]
    for index, nic in enumerate(found):
        _check_kind(find(compute, relative(nic["network"])) or {}, nic, zone, index)
    # the RDMA interfaces of a machine share one network, each in a subnetwork of its own
    apart = [nic["subnetwork" if nic.get("nicType") == "MRDMA" else "network"] for nic in found]
    if len(set(apart)) < len(found):
        sentence = "Networks must be distinct for NICs attached to a VM."
        raise refusals.invalid("resource.networkInterfaces", "", sentence)
    return found


def _check_kind(network: Json, nic: Json, zone: str, index: int) -> None:
    """A network with an RDMA profile takes RDMA interfaces of its zone, and no other network takes them."""
    kind, profile = nic.get("nicType", ""), last(network.get("networkProfile", ""))
    field = f"resource.networkInterfaces[{index}].nicType"
    if (kind == "MRDMA") is not bool(profile):
        sentence = (
            f"Network interface type {kind or 'VIRTIO_NET'} is not supported by network {network['name']}."
        )
        raise refusals.invalid(field, kind, sentence)
    if profile and profile.partition("-vpc-")[0] != zone:
        sentence = "Network profile only allows resource creation in location"
        raise refusals.invalid(field, kind, f"{sentence} {profile.partition('-vpc-')[0]}.")


def _interface(compute: Compute, project: str, region: str, nic: Json, index: int) -> Json:
    field = f"resource.networkInterfaces[{index}]"
    if nic.get("networkIP") or any(config.get("natIP") for config in nic.get("accessConfigs", ())):
        raise ApiError.unimplemented("compute.instances.insert with an address of one's choice")
    network = nic.get("network") or ""
    named = nic.get("subnetwork") or f"regions/{region}/subnetworks/{network.rpartition('/')[2] or 'default'}"
    subnetwork = in_project(named, project)
    below = _subnetwork(compute, subnetwork)
    # A subnetwork says by itself which network it is of.
    network = in_project(network or (below or {}).get("network", "global/networks/default"), project)
    _referenced(compute, network, f"{field}.network", nic.get("network", ""))
    if f"/regions/{region}/" not in subnetwork or below is None:
        sentence = "The referenced subnetwork resource cannot be found."
        raise refusals.invalid(f"{field}.subnetwork", nic.get("subnetwork", ""), sentence)
    document = {
        **nic,
        "kind": "compute#networkInterface",
        "name": f"nic{index}",
        "network": link(network),
        "subnetwork": link(subnetwork),
        "networkIP": _free_address(compute, below, field),
        "stackType": "IPV4_ONLY",
    }
    if nic.get("accessConfigs"):
        config = {
            "kind": "compute#accessConfig",
            "type": "ONE_TO_ONE_NAT",
            "name": "External NAT",
            "networkTier": "PREMIUM",
        }
        document["accessConfigs"] = [{**config, **nic["accessConfigs"][0]}]
    return {**document, "fingerprint": fingerprint(document)}


def find(compute: Compute, path: str) -> Json | None:
    """The network of that path; None where there is none."""
    if re.fullmatch(r"projects/[^/]+/global/networks/default", path):
        return _default(path)
    return compute.resources["networks"].get(path)


def _default(path: str) -> Json:
    return _document(path, "compute#network", autoCreateSubnetworks=True)


def _referenced(compute: Compute, path: str, field: str, named: str) -> Json:
    """The network that a request names; raises ApiError 400 where there is none."""
    network = find(compute, path)
    if network is None:
        raise refusals.invalid(field, named, "The referenced network resource cannot be found.")
    return network


def _subnetwork(compute: Compute, path: str) -> Json | None:
    match = re.fullmatch(r"(projects/[^/]+)/regions/([^/]+)/subnetworks/default", path)
    if match is None or match.group(2) not in facts.regions():
        return compute.resources["subnetworks"].get(path)
    if path in compute.resources["subnetworks"]:
        return compute.resources["subnetworks"][path]
    project, region = match.groups()
    return _below(path, project, region, "default", _usual_range(region))


def _usual_range(region: str) -> str:
    """The range of a region's subnetwork in a network of auto mode."""
    return f"10.{facts.places()[region]['network']}.0.0/20"


def _below(path: str, project: str, region: str, network: str, ranges: str) -> Json:
    """A subnetwork with Private Google Access."""
    return _document(
        path,
        "compute#subnetwork",
        network=link(f"{project}/global/networks/{network}"),
        region=link(f"{project}/regions/{region}"),
        ipCidrRange=ranges,
        privateIpGoogleAccess=True,
    )


def _document(path: str, kind: str, **more: Any) -> Json:
    identity = str(10**18 + zlib.crc32(path.encode()))
    return {"kind": kind, "id": identity, "name": path.rpartition("/")[2], "selfLink": link(path), **more}


def add_network(compute: Compute, project: str, name: str, regions: tuple[str, ...]) -> None:
    """Another network, with a subnetwork of the same name in each of ``regions``."""
    path = f"projects/{project}/global/networks/{name}"
    compute.resources["networks"][path] = _document(path, "compute#network", autoCreateSubnetworks=False)
    for region in regions:
        add_subnetwork(compute, project, region, name, name, "10.0.0.0/20")


def add_subnetwork(compute: Compute, project: str, region: str, network: str, name: str, ranges: str) -> None:
    """A subnetwork with Private Google Access."""
    path = f"projects/{project}/regions/{region}/subnetworks/{name}"
    compute.resources["subnetworks"][path] = _below(path, f"projects/{project}", region, network, ranges)


def shut_in(compute: Compute, project: str, region: str, name: str = "default") -> None:
    """Switch Private Google Access off in a subnetwork; it is on unless said."""
    path = f"projects/{project}/regions/{region}/subnetworks/{name}"
    document = _subnetwork(compute, path) or {}
    compute.resources["subnetworks"][path] = {**document, "privateIpGoogleAccess": False}


def add_nat(compute: Compute, project: str, region: str, *, network: str = "default", **nat: Any) -> None:
    """A router with Cloud NAT; ``nat`` are fields of its ``RouterNat``, for all subnetworks unless said."""
    path = f"projects/{project}/regions/{region}/routers/nat-{network}"
    whole = {"name": "nat", "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES", **nat}
    compute.resources["routers"][path] = _document(
        path,
        "compute#router",
        network=link(f"projects/{project}/global/networks/{network}"),
        region=link(f"projects/{project}/regions/{region}"),
        nats=[whole],
    )


def _default_subnetwork(call: Call) -> list[Json]:
    path = f"projects/{call.owner.id}/regions/{call.params['region']}/subnetworks/default"
    found = _subnetwork(call.world.part(Compute), path)
    return [found] if found else []


documents.register(
    "networks", "network", "network", deletes=False,
    usual=lambda call: [_default(f"projects/{call.owner.id}/global/networks/default")],
)  # fmt: skip
documents.register("subnetworks", "subnetwork", "subnetwork", deletes=False, usual=_default_subnetwork)
documents.register("routers", "router", "router", deletes=False)


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


def _profile(call: Call, name: str) -> str:
    path = f"projects/{call.owner.id}/global/networkProfiles/{name}"
    if name not in profiles():
        raise refusals.not_found(path)
    return link(path)


@mutation("compute.networks.insert", permission="compute.networks.create")
def insert_network(call: Call) -> Operation:
    """A network: in auto mode with a subnetwork in each region, in custom mode with none."""
    body, compute = call.body, call.world.part(Compute)
    mtu, is_auto = int(body.get("mtu", 1460)), bool(body.get("autoCreateSubnetworks"))
    refusals.unless_between("resource.mtu", mtu, *MTU)
    if body.get("name") == "default":
        raise refusals.already_exists(f"projects/{call.owner.id}/global/networks/default")
    more: Json = {"autoCreateSubnetworks": is_auto, "mtu": mtu}
    if body.get("networkProfile"):
        more["networkProfile"] = _profile(call, last(body["networkProfile"]))
        if is_auto:
            sentence = "A network with a network profile cannot be in auto subnet mode."
            raise refusals.invalid("resource.autoCreateSubnetworks", "true", sentence)
    operation = documents.create(call, "networks", "network", **more)
    if is_auto:
        for region in facts.regions():
            name = body["name"]
            add_subnetwork(compute, call.owner.id, region, name, name, _usual_range(region))
    return operation


@mutation("compute.subnetworks.insert", permission="compute.subnetworks.create")
def insert_subnetwork(call: Call) -> Operation:
    """A subnetwork of a network in custom mode, in a range that no other has."""
    body, compute = call.body, call.world.part(Compute)
    path = in_project(body.get("network", ""), call.owner.id)
    network = _referenced(compute, path, "resource.network", body.get("network", ""))
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
    network = _referenced(compute, path, "resource.network", body.get("network", ""))
    if network.get("networkProfile"):
        sentence = "Firewall rules are not allowed by the network profile of the network."
        raise refusals.invalid("resource.network", body["network"], sentence)
    if bool(body.get("allowed")) is bool(body.get("denied")):
        sentence = "Either allowed or denied must be specified, and not both."
        raise refusals.invalid("resource.allowed", "", sentence)
    ranges = body.get("sourceRanges", ())
    try:
        for source in ranges:
            ipaddress.ip_network(source)
    except ValueError:
        raise refusals.invalid("resource.sourceRanges", ranges, "Must be CIDR ranges.") from None
    more = {"direction": "INGRESS", "priority": 1000, "disabled": False}
    usual = {name: body.get(name, value) for name, value in more.items()}
    return documents.create(call, "firewalls", "firewall", network=link(path), **usual)


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


documents.register("firewalls", "firewall", "firewall", usual=_usual_rules)
