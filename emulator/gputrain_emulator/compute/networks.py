"""Networks and subnetworks: every project has ``default``, with a subnetwork in each region."""

from __future__ import annotations

import re
import zlib
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.call import Call
from gputrain_emulator.compute import addresses, documents, refusals
from gputrain_emulator.compute.links import fingerprint, in_project, last, link, relative
from gputrain_emulator.compute.state import Compute

Json = dict[str, Any]


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
    network = nic.get("network") or ""
    named = nic.get("subnetwork") or f"regions/{region}/subnetworks/{network.rpartition('/')[2] or 'default'}"
    subnetwork = in_project(named, project)
    below = _subnetwork(compute, subnetwork)
    # A subnetwork says by itself which network it is of.
    network = in_project(network or (below or {}).get("network", "global/networks/default"), project)
    if find(compute, network) is None:
        raise refusals.invalid(
            f"{field}.network", nic.get("network", ""), "The referenced network resource cannot be found."
        )
    if f"/regions/{region}/" not in subnetwork or below is None:
        sentence = "The referenced subnetwork resource cannot be found."
        raise refusals.invalid(f"{field}.subnetwork", nic.get("subnetwork", ""), sentence)
    document = {
        **nic,
        "kind": "compute#networkInterface",
        "name": f"nic{index}",
        "network": link(network),
        "subnetwork": link(subnetwork),
        "networkIP": addresses.inside(compute, below, nic.get("networkIP", ""), field),
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
        wanted = nic["accessConfigs"][0].get("natIP")
        if wanted:  # only an address that was reserved may be asked for, and none can be here
            sentence = f"The specified external IP address '{wanted}' was not found in region '{region}'."
            raise refusals.invalid(f"{field}.accessConfigs[0].natIP", wanted, sentence)
    return {**document, "fingerprint": fingerprint(document)}


def find(compute: Compute, path: str) -> Json | None:
    """The network of that path; None where there is none."""
    if re.fullmatch(r"projects/[^/]+/global/networks/default", path):
        return _document(path, "compute#network", autoCreateSubnetworks=True)
    return compute.resources["networks"].get(path)


def _subnetwork(compute: Compute, path: str) -> Json | None:
    match = re.fullmatch(r"(projects/[^/]+)/regions/([^/]+)/subnetworks/default", path)
    if match is None or match.group(2) not in facts.regions():
        return compute.resources["subnetworks"].get(path)
    if path in compute.resources["subnetworks"]:
        return compute.resources["subnetworks"][path]
    project, region = match.groups()
    return _document(
        path,
        "compute#subnetwork",
        network=link(f"{project}/global/networks/default"),
        region=link(f"{project}/regions/{region}"),
        ipCidrRange=f"10.{addresses.AUTO_RANGES[region]}.0.0/20",
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
    compute.resources["subnetworks"][path] = _document(
        path,
        "compute#subnetwork",
        network=link(f"projects/{project}/global/networks/{network}"),
        region=link(f"projects/{project}/regions/{region}"),
        ipCidrRange=ranges,
        privateIpGoogleAccess=True,
    )


def shut_in(compute: Compute, project: str, region: str, name: str = "default") -> None:
    """Switch Private Google Access off in a subnetwork; it is on unless said."""
    path = f"projects/{project}/regions/{region}/subnetworks/{name}"
    document = _found(_subnetwork(compute, path), path)
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


def _found(document: Json | None, path: str) -> Json:
    if document is None:
        raise refusals.not_found(path)
    return document


def _default_network(call: Call) -> list[Json]:
    path = f"projects/{call.owner.id}/global/networks/default"
    return [_document(path, "compute#network", autoCreateSubnetworks=True)]


def _default_subnetwork(call: Call) -> list[Json]:
    path = f"projects/{call.owner.id}/regions/{call.params['region']}/subnetworks/default"
    return [_found(_subnetwork(call.world.part(Compute), path), path)]


documents.register("networks", "network", "network", deletes=False, usual=_default_network)
documents.register("subnetworks", "subnetwork", "subnetwork", deletes=False, usual=_default_subnetwork)
documents.register("routers", "router", "router", deletes=False)
