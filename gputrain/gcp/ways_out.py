"""How VMs without external addresses get out: Private Google Access and Cloud NAT of their subnetwork.

Source: Compute Engine's documentation of both, read 2026-11-21: the former leads to Google's APIs only, the
latter to everything; a new auto-mode network has neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from gputrain.errors import AccessError, Scope
from gputrain.gcp.api import Access
from gputrain.gcp.endpoints import Api
from gputrain.gcp.forms import mappings
from gputrain.retry import LOOK, Policy

_WHOLE = frozenset({"ALL_SUBNETWORKS_ALL_IP_RANGES", "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES"})


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
