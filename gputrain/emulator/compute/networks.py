"""Networks and subnetworks: every project has ``default``, with a subnetwork in each region."""

from __future__ import annotations

import zlib
from typing import Any

from gputrain.emulator import facts
from gputrain.emulator.call import Call
from gputrain.emulator.compute import filters, refusals
from gputrain.emulator.compute.links import in_project, link
from gputrain.emulator.compute.service import COMPUTE
from gputrain.emulator.compute.state import Compute

Json = dict[str, Any]


def interfaces(compute: Compute, project: str, region: str, wanted: list[Json]) -> list[Json]:
    """The VM's network interfaces with addresses; raises ApiError 400 for a network that is not there."""
    if not wanted:
        raise refusals.invalid("resource.networkInterfaces", "", "At least one network interface is required.")
    return [_interface(compute, project, region, nic, index) for index, nic in enumerate(wanted)]


def _interface(compute: Compute, project: str, region: str, nic: Json, index: int) -> Json:
    field = f"resource.networkInterfaces[{index}]"
    network = in_project(nic.get("network") or "global/networks/default", project)
    subnetwork = in_project(nic.get("subnetwork") or f"regions/{region}/subnetworks/{network.rpartition('/')[2]}", project)
    if network not in _networks(compute, project):
        raise refusals.invalid(
            f"{field}.network", nic.get("network", ""), "The referenced network resource cannot be found."
        )
    if subnetwork not in _subnetworks(compute, project) or f"/regions/{region}/" not in f"/{subnetwork}":
        sentence = "The referenced subnetwork resource cannot be found."
        raise refusals.invalid(f"{field}.subnetwork", nic.get("subnetwork", ""), sentence)
    serial = next(compute.addresses)
    address = f"10.{128 + serial // 65536 % 64}.{serial // 256 % 256}.{serial % 256}"
    document = {
        **nic, "kind": "compute#networkInterface", "name": f"nic{index}", "network": link(network),
        "subnetwork": link(subnetwork), "networkIP": address, "fingerprint": "AAAAAAAAAAA=", "stackType": "IPV4_ONLY",
    }  # fmt: skip
    if nic.get("accessConfigs"):
        config = {"kind": "compute#accessConfig", "type": "ONE_TO_ONE_NAT", "name": "External NAT", "networkTier": "PREMIUM"}
        document["accessConfigs"] = [{**config, **nic["accessConfigs"][0], "natIP": f"203.0.113.{serial % 254 + 1}"}]
    return document


def _networks(compute: Compute, project: str) -> dict[str, Json]:
    name = f"projects/{project}/global/networks/default"
    found = {name: _document(name, "compute#network", autoCreateSubnetworks=True)}
    prefix = f"projects/{project}/global/networks/"
    return {**found, **{n: d for n, d in compute.resources.items() if n.startswith(prefix)}}


def _subnetworks(compute: Compute, project: str) -> dict[str, Json]:
    found = {}
    for number, region in enumerate(facts.regions()):
        name = f"projects/{project}/regions/{region}/subnetworks/default"
        found[name] = _document(
            name, "compute#subnetwork", network=link(f"projects/{project}/global/networks/default"),
            region=link(f"projects/{project}/regions/{region}"), ipCidrRange=f"10.{128 + number}.0.0/20",
            privateIpGoogleAccess=True,
        )  # fmt: skip
    return {**found, **{n: d for n, d in compute.resources.items() if n.startswith(f"projects/{project}/") and "/subnetworks/" in n}}  # fmt: skip  # noqa: E501


def _document(path: str, kind: str, **more: Any) -> Json:
    identity = str(10**18 + zlib.crc32(path.encode()))
    return {"kind": kind, "id": identity, "name": path.rpartition("/")[2], "selfLink": link(path), **more}


def _found(table: dict[str, Json], path: str) -> Json:
    if path not in table:
        raise refusals.not_found(path)
    return table[path]


@COMPUTE.method("compute.networks.get", pool="compute.reads")
def get_network(call: Call) -> Json:
    """One network."""
    path = f"projects/{call.owner.id}/global/networks/{call.params['network']}"
    return _found(_networks(call.world.part(Compute), call.owner.id), path)


@COMPUTE.method("compute.networks.list", pool="compute.reads")
def list_networks(call: Call) -> Json:
    """Every network of the project."""
    items = list(_networks(call.world.part(Compute), call.owner.id).values())
    return filters.listing("compute#networkList", f"projects/{call.owner.id}/global/networks", items, call.query)


@COMPUTE.method("compute.subnetworks.get", pool="compute.reads")
def get_subnetwork(call: Call) -> Json:
    """One subnetwork."""
    path = f"projects/{call.owner.id}/regions/{call.params['region']}/subnetworks/{call.params['subnetwork']}"
    return _found(_subnetworks(call.world.part(Compute), call.owner.id), path)


@COMPUTE.method("compute.subnetworks.list", pool="compute.reads")
def list_subnetworks(call: Call) -> Json:
    """Every subnetwork of a region."""
    scope = f"projects/{call.owner.id}/regions/{call.params['region']}/"
    table = _subnetworks(call.world.part(Compute), call.owner.id)
    items = [document for name, document in table.items() if name.startswith(scope)]
    return filters.listing("compute#subnetworkList", f"{scope}subnetworks", items, call.query)
