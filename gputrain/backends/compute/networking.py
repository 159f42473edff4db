"""The networks of VMs: which way the GPUs of several machines talk, and whether a network leads anywhere.

What is chosen for GPUs is known before there is a VM, the same on every node: two nodes of which one fell
back to sockets would wait for each other on GPUs that bill.

VMs without external addresses get out by Private Google Access and Cloud NAT of their subnetwork. Source:
Compute Engine's documentation of both, read 2026-11-21: the former leads to Google's APIs only, the latter to
everything; a new auto-mode network has neither.
"""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from gputrain import catalog
from gputrain.backends.compute import images
from gputrain.backends.compute.settings import ComputeSettings, short
from gputrain.catalog import Confidence, Fabric, GpuNetworking, Shape, region_of, release
from gputrain.errors import AccessError, Scope, TransientError
from gputrain.google import Api, GoogleClient, MissingError
from gputrain.google.forms import mappings
from gputrain.planning import Network
from gputrain.retry import LOOK, SOON, Policy

log = logging.getLogger("gputrain")

INTERNAL = "--action ALLOW --rules tcp:0-65535,udp:0-65535,icmp"
"""What ranks of several nodes say to each other: they draw their ports. A RoCE network takes no such rule,
and lets all pass. Source: "Create an A3 Mega or A3 High MIG", "Cloud NGFW for RoCE VPC networks"."""


@attrs.frozen(kw_only=True)
class Choice:
    """How the GPUs of several machines would talk."""

    fabric: Fabric | None
    """None: there is one node, or no way is known."""
    lacks: str = ""
    """What is missing for it; empty: nothing."""
    fix: str = ""


def choose(
    shape: Shape, settings: ComputeSettings, num_nodes: int, image: str | None, zone: str = "ZONE"
) -> Choice:
    """The way that the settings ask for, or the fastest that is known to work, and what it still needs."""
    if num_nodes == 1:
        return Choice(fabric=None)
    ways = catalog.fabrics(shape)
    if not ways:
        why = f"the network interfaces of several {shape.machine_type} are not known to gputrain"
        return Choice(fabric=None, lacks=why, fix="num_nodes=1, or another GPU")
    fits = [one for one in ways if one.networking is settings.gpu_networking]
    if settings.gpu_networking is GpuNetworking.AUTO:
        # What is unverified is taken only by name; further sockets where their networks are named.
        sure = (one for one in ways if one.confidence is not Confidence.LOW)
        fits = [one for one in sure if settings.gpu_subnetworks or not (one.is_plain and one.nics)]
    if not fits:
        have = " or ".join(repr(one.networking.value) for one in ways)
        why = f"{shape.machine_type} has no {settings.gpu_networking}: its ways are {have}"
        return Choice(fabric=None, lacks=why, fix="gpu_networking='auto'")
    fabric, named = fits[0], len(settings.gpu_subnetworks)
    lacks = fix = commands = ""
    # Where somebody names the way or the boot image, it is believed to have what a plugin needs.
    is_named = settings.gpu_networking is fabric.networking or images.path_of(settings)
    boots = fabric.is_plain or is_named or images.is_ready(shape, image, fabric.networking)
    cuda = catalog.cuda_of(image or "")
    if fabric.nics and len(fabric.nics) != named:
        kinds = {"GVNIC": fabric.data_gvnics, "MRDMA": fabric.rdma_nics}
        counted = " and ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
        such = f"{len(fabric.nics)} subnetwork{'s' if len(fabric.nics) > 1 else ''} ({counted})"
        lacks = f"its GPUs talk through {such} of their own, and gpu_subnetworks names {named}"
        fix = f"gpu_subnetworks={names(fabric)}, made by the commands below"
        commands = "\n" + recipe(fabric, settings, zone)
    elif not boots:
        with_torch = "" if image is not None else " and PyTorch as well"
        lacks = f"no boot image is known that has what {fabric.networking} needs{with_torch}"
        in_a_container = images.is_ready(shape, "any", fabric.networking)
        fix = "image= to run in a container, or " * in_a_container
        fix += "image_family='PROJECT/FAMILY' of one that has it"
    elif cuda and fabric.cuda and release(cuda)[:1] != release(fabric.cuda):
        lacks = f"the plugin of {fabric.networking} needs the runtime of CUDA {fabric.cuda} in the image"
        fix = f"an image built with CUDA {fabric.cuda}"
    if lacks:
        fix += f"; or gpu_networking='single-nic', {_cost(fabric, ways[-1], shape)}{commands}"
    return Choice(fabric=fabric, lacks=lacks, fix=fix)


def _cost(fast: Fabric, slow: Fabric, shape: Shape) -> str:
    return f"at {slow.gbps_per_gpu(shape):g} of {fast.gbps_per_gpu(shape):g} Gbps a GPU"


def network(shape: Shape, settings: ComputeSettings, num_nodes: int, image: str | None) -> Network | None:
    """What a plan shows of it; None for one node."""
    fabric = choose(shape, settings, num_nodes, image).fabric
    if fabric is None:
        return None
    fastest = catalog.fabrics(shape)[0]
    warning = ""
    if fastest.gbps_per_gpu(shape) > fabric.gbps_per_gpu(shape):
        warning = (
            f"{num_nodes} x {shape.machine_type} would talk by {fabric.networking},"
            f" {_cost(fastest, fabric, shape)} ({fastest.networking})"
        )
    note = "; ".join(filter(None, [fabric.note, ", ".join(fabric.sources)]))
    return Network(
        name=fabric.networking.value, gbps_per_gpu=fabric.gbps_per_gpu(shape), note=note, warning=warning
    )


def interfaces(fabric: Fabric | None, settings: ComputeSettings, zone: str) -> list[dict[str, Any]]:
    """``networkInterfaces`` of one VM; without an external address unless asked for."""
    host = settings.network_project
    there = "" if host == settings.project else f"projects/{host}/"
    below = f"{there}regions/{region_of(zone)}/subnetworks"
    first: dict[str, Any] = {"nicType": "GVNIC"}
    if settings.subnetwork is None:
        first["network"] = f"{there}global/networks/{short(settings.network)}"
    else:
        first["subnetwork"] = f"{below}/{short(settings.subnetwork)}"
    if settings.external_ip:
        first["accessConfigs"] = [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}]
    kinds = fabric.nics if fabric is not None else ()
    more = zip(settings.gpu_subnetworks, kinds, strict=False)
    return [first, *({"subnetwork": f"{below}/{short(name)}", "nicType": kind} for name, kind in more)]


def document(fabric: Fabric | None, settings: ComputeSettings) -> dict[str, Any] | None:
    """What the guest has to bring before ranks start; None: nothing."""
    if fabric is None or (fabric.is_plain and not fabric.environment):
        return None
    return {
        "networking": fabric.networking.value,
        "plugin": fabric.plugin and (settings.nccl_plugin or fabric.plugin),
        "daemon": fabric.daemon and (settings.nccl_daemon or fabric.daemon),
        "libraries": fabric.libraries,
        "environment": dict(fabric.environment),
        "gvnics": 1 + fabric.data_gvnics,
    }


def names(fabric: Fabric) -> list[str]:
    """The subnetworks that `recipe` makes, in the order of the interfaces."""
    gvnics = [f"gpu-sub-{number}" for number in range(1, fabric.data_gvnics + 1)]
    return gvnics + [f"rdma-sub-{number}" for number in range(1, fabric.rdma_nics + 1)]


def recipe(fabric: Fabric, settings: ComputeSettings, zone: str) -> str:
    """The commands that make networks, subnetworks and rules of the further interfaces, for a shell."""
    region, mine = region_of(zone) or "REGION", f"--project {settings.network_project}"
    make, make_below = "gcloud compute networks create", "gcloud compute networks subnets create"
    lines = []
    if fabric.data_gvnics:
        lines.append(
            f"for i in $(seq 1 {fabric.data_gvnics}); do\n"
            f"  {make} gpu-net-$i --subnet-mode custom --mtu {fabric.mtu} {mine} &&\n"
            f"  {make_below} gpu-sub-$i --network gpu-net-$i --region {region}"
            f" --range 10.$((100 + i)).0.0/20 {mine} &&\n"
            f"  {allow('gpu-net-$i', '10.$((100 + i)).0.0/16', settings.network_project)}; done"
        )
    if fabric.rdma_nics:
        lines.append(
            f"{make} gpu-rdma --network-profile {zone}{fabric.roce_profile} --subnet-mode custom"
            f" --mtu {fabric.mtu} {mine}"
        )
        lines.append(
            f"for i in $(seq 1 {fabric.rdma_nics}); do\n  {make_below} rdma-sub-$i --network gpu-rdma"
            f" --region {region} --range 192.168.$i.0/24 {mine}; done"
        )
    fold = textwrap.TextWrapper(66, break_long_words=False, break_on_hyphens=False)
    # in lines that fit a terminal, so that they can be copied from it
    return "\n".join(" \\\n      ".join(fold.wrap(line)) for line in "\n".join(lines).splitlines())


def allow(network: str, ranges: str, project: str) -> str:
    """The command that lets VMs of a network reach each other."""
    make = f"gcloud compute firewall-rules create {network}-internal --network {network}"
    return f"{make} {INTERNAL} --source-ranges {ranges} --project {project}"


_WHOLE = frozenset({"ALL_SUBNETWORKS_ALL_IP_RANGES", "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES"})
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
    to_internet: bool


def ways_out(subnetwork: Mapping[str, Any], routers: Sequence[Mapping[str, Any]]) -> WaysOut:
    """What a subnetwork and its region's routers allow, as Compute Engine lists them. Pure.

    >>> ways_out({"privateIpGoogleAccess": True}, [])
    WaysOut(to_google=True, to_internet=False)
    """
    own, network = _path(subnetwork.get("selfLink")), _path(subnetwork.get("network"))
    there = [one for one in routers if _path(one.get("network")) == network]
    nats = [nat for router in there for nat in mappings(router.get("nats"))]
    has_nat = any(
        nat.get("sourceSubnetworkIpRangesToNat") in _WHOLE
        or own in {_path(one.get("name")) for one in mappings(nat.get("subnetworks"))}
        for nat in nats
        if nat.get("type", "PUBLIC") == "PUBLIC"
    )
    return WaysOut(to_google=has_nat or bool(subnetwork.get("privateIpGoogleAccess")), to_internet=has_nat)


def _path(link: Any) -> str:
    """A resource's name without the host of its address."""
    return str(link or "").rpartition("/projects/")[2]


def read_ways_out(
    access: GoogleClient, settings: ComputeSettings, region: str, *, to_internet: bool = True,
    policy: Policy = LOOK,
) -> WaysOut:  # fmt: skip
    """`ways_out` of the first interface in a region: two calls that change nothing.

    Args:
        to_internet: False where Google's APIs are enough: where they are reached, nothing more is read.

    Raises:
        MissingError: there is no such subnetwork in the region.
        AccessError, TransientError: it cannot be read; that says nothing about the network.
    """
    url = f"{access.url(Api.COMPUTE)}/compute/v1/projects/{settings.network_project}/regions/{region}"
    action, name = f"look at the network in {region}", short(settings.subnetwork or settings.network)
    fields = {"fields": "selfLink,network,privateIpGoogleAccess"}
    found = access.get(f"{url}/subnetworks/{name}", action=action, params=fields, policy=policy)
    if found.get("privateIpGoogleAccess") and not to_internet:
        return ways_out(found, ())
    fields = {"fields": "items(network,nats),nextPageToken,warning"}
    routers = access.list_all(f"{url}/routers", action=action, params=fields, policy=policy)
    ways = ways_out(found, routers.items)
    return ways if ways.to_internet else ways_out(found, routers.require_complete(action))


def check_ways_out(access: GoogleClient, settings: ComputeSettings, order: Mapping[str, Any]) -> None:
    """Make sure that the VMs will reach the bucket, and the internet where the job needs it.

    What cannot be read is let pass: not every account may look at networks, and Google's own time limit still
    ends the job.

    Raises:
        NoWayOutError: they would not; with the command that opens a way.
    """
    if settings.external_ip or not settings.check_network:
        return
    region, job = region_of(str(order["zone"])), order["job"]
    plugin = (job["fabric"] or {}).get("plugin", "")
    for_what = needs_internet(settings, job["image"], job["order"]["requirements"], job["env"], plugin)
    try:
        # read anew for each job: a way may just have been opened
        found = read_ways_out(access, settings, region, to_internet=bool(for_what), policy=SOON)
    except (AccessError, MissingError, TransientError) as error:
        log.info("the network in %s could not be looked at: %s", region, error.what)
        return
    refusal = shut_in(settings, region, found, for_what)
    if refusal is not None:
        raise refusal


def shut_in(settings: ComputeSettings, region: str, ways: WaysOut, for_what: str) -> NoWayOutError | None:
    """Why VMs would not reach the bucket, or what a job needs from the internet; None: they would."""
    if ways.to_google and (ways.to_internet or not for_what):
        return None
    network, subnetwork = short(settings.network), short(settings.subnetwork or settings.network)
    place = f"--region {region} --project {settings.network_project}"
    if for_what:
        lacks, fix = "Cloud NAT", f"gcloud compute routers create gputrain --network {network} {place}"
        fix += f" && gcloud compute routers nats create gputrain --router gputrain {place}"
        fix += " --auto-allocate-nat-external-ips --nat-all-subnet-ip-ranges"
    else:
        lacks = "Private Google Access and no Cloud NAT"
        fix = f"gcloud compute networks subnets update {subnetwork} {place} --enable-private-ip-google-access"
    return NoWayOutError(
        f"VMs in {region} would not reach {for_what or 'the bucket'}",
        why=f"they have no external address, and subnetwork {subnetwork} has no {lacks}",
        fix=f"{fix}; or external_ip=True; or check_network=False where there is a way that gputrain"
        " cannot see",
    )


def needs_internet(
    settings: ComputeSettings, image: str | None, requirements: Sequence[str], env: Mapping[str, str],
    plugin: str = "",
) -> str:  # fmt: skip
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
