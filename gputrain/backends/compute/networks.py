"""The network interfaces of a VM, by its machine's family, and whether they lead anywhere.

VMs without external addresses get out by Private Google Access and Cloud NAT of their subnetwork. Source:
Compute Engine's documentation of both, read 2026-11-21: the former leads to Google's APIs only, the latter to
everything; a new auto-mode network has neither.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from gputrain.backends.compute import images
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.catalog import Shape, region_of
from gputrain.errors import AccessError, Scope, SpecError, TransientError
from gputrain.fields import refused
from gputrain.gcp import Access, Api, MissingError
from gputrain.gcp.forms import mappings
from gputrain.retry import LOOK, SOON, Policy

_WHOLE = frozenset({"ALL_SUBNETWORKS_ALL_IP_RANGES", "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES"})


log = logging.getLogger("gputrain")
_GOOGLES = ("pkg.dev", "gcr.io")
_ELSEWHERE = frozenset({"PIP_INDEX_URL", "PIP_NO_INDEX", "HTTPS_PROXY", "https_proxy"})
"""Variables with which a job says itself where its packages come from."""


class NoWayOutError(AccessError):
    """VMs without external addresses would not reach what their job needs."""

    kind = "no_way_out"
    scope = Scope.REGION
    try_elsewhere = True


@attrs.frozen(kw_only=True)
class WaysOut:
    """Where the VMs of a subnetwork get to without addresses of their own."""

    to_google: bool
    """Cloud Storage and the other APIs."""
    to_internet: bool
    """Package indexes and registries of others as well."""


def ways_out(subnetwork: Mapping[str, Any], routers: Sequence[Mapping[str, Any]]) -> WaysOut:
    """What a subnetwork and its region's routers allow, as Compute Engine tells of them. Pure.

    >>> ways_out({"privateIpGoogleAccess": True}, [])
    WaysOut(to_google=True, to_internet=False)
    """
    has_nat = any(
        _covers(nat, subnetwork)
        for router in routers
        if _path(router.get("network")) == _path(subnetwork.get("network"))
        for nat in mappings(router.get("nats"))
    )
    return WaysOut(to_google=has_nat or bool(subnetwork.get("privateIpGoogleAccess")), to_internet=has_nat)


def read_ways_out(
    access: Access, region: str, subnetwork: str, *, to_internet: bool = True, policy: Policy = LOOK
) -> WaysOut:
    """The same, read from Compute Engine: two calls that change nothing.

    Args:
        to_internet: False where Google's APIs are enough: where they are reached, nothing more is read.

    Raises:
        MissingError: there is no such subnetwork in the region.
        AccessError, TransientError: it cannot be read; that says nothing about the network.
    """
    url = f"{access.url(Api.COMPUTE)}/compute/v1/projects/{access.project}/regions/{region}"
    action = f"look at the network in {region}"
    fields = {"fields": "selfLink,network,privateIpGoogleAccess"}
    found = access.get(f"{url}/subnetworks/{subnetwork}", action=action, params=fields, policy=policy)
    if found.get("privateIpGoogleAccess") and not to_internet:
        return ways_out(found, ())
    fields = {"fields": "items(network,nats),nextPageToken,warning"}
    routers = access.pages(f"{url}/routers", action=action, params=fields, policy=policy)
    ways = ways_out(found, routers.seen)
    return ways if ways.to_internet else ways_out(found, routers.whole(action))


def commands(project: str, region: str, network: str, subnetwork: str, *, to_internet: bool) -> str:
    """What a person types to open the way, in a shell."""
    place = f"--region {region} --project {project}"
    if not to_internet:
        update = f"gcloud compute networks subnets update {subnetwork} {place}"
        return f"{update} --enable-private-ip-google-access"
    router = f"gcloud compute routers create gputrain --network {network} {place}"
    nat = f"gcloud compute routers nats create gputrain --router gputrain {place}"
    return f"{router} && {nat} --auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges"


def _covers(nat: Mapping[str, Any], subnetwork: Mapping[str, Any]) -> bool:
    if nat.get("type", "PUBLIC") != "PUBLIC":
        return False
    named = {_path(one.get("name")) for one in mappings(nat.get("subnetworks"))}
    return nat.get("sourceSubnetworkIpRangesToNat") in _WHOLE or _path(subnetwork.get("selfLink")) in named


def _path(link: Any) -> str:
    """A resource's name without the host that told of it."""
    return str(link or "").rpartition("/projects/")[2]


def more_interfaces(shape: Shape) -> tuple[str, ...]:
    """The ``nicType`` of each interface beyond the first that GPUs of several machines talk through."""
    family = shape.machine.family
    return ("GVNIC",) * ((family.gvnics or 1) - 1) + ("MRDMA",) * (family.rdma_nics or 0)


def missing(shape: Shape, settings: ComputeSettings) -> str:
    """The commands that make what several such machines need and nobody has named; empty: nothing."""
    named = settings.gpu_subnetworks
    if shape.machine.family.gvnics is None and not named:
        return "see the machine's page: its interfaces are not known to gputrain"
    return recipe(shape) if more_interfaces(shape) and not named else ""


def interfaces(shape: Shape, settings: ComputeSettings, zone: str, num_nodes: int) -> list[dict[str, Any]]:
    """``networkInterfaces`` of one VM; without an external address unless asked for.

    Raises:
        SpecError: several machines of this family need more networks than are named.
    """
    region = region_of(zone)
    first: dict[str, Any] = {"nicType": "GVNIC"}
    if settings.subnetwork is None:
        first["network"] = f"global/networks/{settings.network}"
    else:
        first["subnetwork"] = f"regions/{region}/subnetworks/{settings.subnetwork}"
    if settings.external_ip:
        first["accessConfigs"] = [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}]
    kinds = more_interfaces(shape)
    if not kinds or (num_nodes == 1 and not settings.gpu_subnetworks):
        return [first]
    if len(settings.gpu_subnetworks) != len(kinds):
        raise _needs_networks(shape, settings, zone)
    return [
        first,
        *(
            {"subnetwork": f"regions/{region}/subnetworks/{name}", "nicType": kind}
            for name, kind in zip(settings.gpu_subnetworks, kinds)
        ),
    ]


def check_ways_out(access: Access, settings: ComputeSettings, order: Mapping[str, Any]) -> None:
    """Make sure that the VMs will reach the bucket, and the internet where the job needs it.

    What cannot be read is let pass: not every account may look at networks, and Google's own time limit still
    ends the job.

    Raises:
        NoWayOutError: they would not; with the command that mends it.
    """
    if settings.external_ip or not settings.check_network:
        return
    region = region_of(str(order["zone"]))
    job = order["job"]
    for_what = needs_internet(settings, job["image"], job["order"]["requirements"], job["env"])
    name = settings.subnetwork or settings.network

    try:
        # asked anew for each order: whoever has just opened a way is not told of yesterday's network
        found = read_ways_out(access, region, name, to_internet=bool(for_what), policy=SOON)
    except (AccessError, MissingError, TransientError) as error:
        log.info("the network in %s could not be looked at: %s", region, error.what)
        return
    if not found.to_google or (for_what and not found.to_internet):
        raise _shut_in(settings, region, for_what)


def needs_internet(
    settings: ComputeSettings, image: str | None, requirements: Sequence[str], env: Mapping[str, str]
) -> str:
    """What of a job comes from beyond Google; empty: nothing."""
    if image and not image.partition("/")[0].endswith(_GOOGLES):
        return f"the image {image}"
    if image and not images.path_of(settings):
        return "docker, which the boot images that are known do not have"
    if requirements and not _ELSEWHERE & set(env):
        return f"requirements ({', '.join(requirements)})"
    return ""


def _shut_in(settings: ComputeSettings, region: str, for_what: str) -> NoWayOutError:
    subnetwork = settings.subnetwork or settings.network
    lacks = "Cloud NAT" if for_what else "Private Google Access and no Cloud NAT"
    return NoWayOutError(
        f"VMs in {region} would not reach {for_what or 'the bucket'}",
        why=f"they have no external address, and subnetwork {subnetwork} has no {lacks}",
        fix=commands(settings.project, region, settings.network, subnetwork, to_internet=bool(for_what))
        + "; or external_ip=True; or check_network=False where there is a way that gputrain cannot see",
    )


def recipe(shape: Shape, zone: str = "ZONE") -> str:
    """The commands that make the networks which several machines of a family talk through."""
    family, region = shape.machine.family, region_of(zone) or "REGION"
    make_network = "gcloud compute networks create"
    make_subnet = "gcloud compute networks subnets create"
    lines = []
    if (family.gvnics or 1) > 1:
        lines.append(
            f"for i in $(seq 1 {(family.gvnics or 1) - 1}); do"
            f" {make_network} gpu-net-$i --subnet-mode custom --mtu 8896 &&"
            f" {make_subnet} gpu-sub-$i --network gpu-net-$i --region {region}"
            " --range 10.$((100 + i)).0.0/20; done"
        )
    if family.rdma_nics:
        profile = f"--network-profile {zone}{family.roce_profile}"
        lines.append(
            f"{make_network} gpu-rdma {profile} --subnet-mode custom --mtu 8896;"
            f" for i in $(seq 1 {family.rdma_nics}); do"
            f" {make_subnet} rdma-sub-$i --network gpu-rdma --region {region} --range 192.168.$i.0/24; done"
        )
    return "; ".join(lines)


def _needs_networks(shape: Shape, settings: ComputeSettings, zone: str) -> SpecError:
    kinds = more_interfaces(shape)
    return refused(
        "gpu_subnetworks",
        list(settings.gpu_subnetworks),
        f"{len(kinds)} subnetworks for {shape.machine.family.name}: {', '.join(kinds)}",
        recipe(shape, zone) + "; then name them in gpu_subnetworks, in that order",
        what=f"several {shape.machine_type} need networks of their own",
    )
