"""Whether the network of VMs leads anywhere.

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
from gputrain.catalog import region_of
from gputrain.errors import AccessError, Scope, TransientError
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
    plugin = (job["fabric"] or {}).get("plugin", "")
    for_what = needs_internet(settings, job["image"], job["order"]["requirements"], job["env"], plugin)
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
    settings: ComputeSettings,
    image: str | None,
    requirements: Sequence[str],
    env: Mapping[str, str],
    plugin: str = "",
) -> str:
    """What of a job comes from beyond Google; empty: nothing."""
    if image and not image.partition("/")[0].endswith(_GOOGLES):
        return f"the image {image}"
    if plugin and "/" not in plugin:
        return f"the package {plugin}"
    if (image or plugin) and not images.path_of(settings):
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
