"""Which way the GPUs of a gang talk, what that needs, and the commands that make it. Pure.

What is chosen is known before there is a VM, the same on every node: two nodes of which one fell back to
sockets would wait for each other on GPUs that bill.
"""

from __future__ import annotations

from typing import Any

import attrs

from gputrain import catalog
from gputrain.backends.compute import images
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.catalog import Confidence, Fabric, GpuNetworking, Shape, region_of
from gputrain.fields import refused
from gputrain.planning import Network

INTERNAL = "--action ALLOW --rules tcp:0-65535,udp:0-65535,icmp"
"""What ranks of several nodes say to each other: they draw their ports. A RoCE network takes no such rule,
and lets all pass. Source: "Create an A3 Mega or A3 High MIG", "Cloud NGFW for RoCE VPC networks"."""


@attrs.frozen(kw_only=True)
class Choice:
    """How the GPUs of a gang would talk."""

    fabric: Fabric | None
    """None: there is one node, or no way is known."""
    lacks: str = ""
    """What is missing for it; empty: nothing."""
    fix: str = ""

    def check(self) -> None:
        """Raise SpecError where something is missing."""
        if self.lacks:
            what = "several machines would not reach each other"
            raise refused("gpu_networking", None, self.lacks, self.fix, what=what)


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
    fits = [one for one in ways if _is_meant(one, settings)]
    if not fits:
        have = " or ".join(repr(one.networking.value) for one in ways)
        why = f"{shape.machine_type} has no {settings.gpu_networking}: its ways are {have}"
        return Choice(fabric=None, lacks=why, fix="gpu_networking='auto'")
    fabric, named = fits[0], len(settings.gpu_subnetworks)
    lacks = fix = ""
    if fabric.nics and len(fabric.nics) != named:
        lacks = f"its GPUs talk through {_counted(fabric)} of their own, and gpu_subnetworks names {named}"
        fix = f"{recipe(fabric, settings, zone)}; then gpu_subnetworks={names(fabric)}"
    elif not _boots(shape, settings, image, fabric):
        with_torch = "" if image is not None else " and PyTorch as well"
        lacks = f"no boot image is known that has what {fabric.networking} needs{with_torch}"
        fix = "image= to run in a container, or image_family='PROJECT/FAMILY' of one that has it"
    if lacks:
        fix += f"; or gpu_networking='single-nic', {_cost(fabric, ways[-1], shape)}"
    return Choice(fabric=fabric, lacks=lacks, fix=fix)


def _is_meant(fabric: Fabric, settings: ComputeSettings) -> bool:
    """What is unverified is taken when it is asked for; further sockets where their networks are named."""
    if settings.gpu_networking is not GpuNetworking.AUTO:
        return fabric.networking is settings.gpu_networking
    if fabric.confidence is Confidence.LOW:
        return False
    return bool(settings.gpu_subnetworks) or not fabric.is_plain or not fabric.nics


def _counted(fabric: Fabric) -> str:
    counts = {"GVNIC": fabric.data_gvnics, "MRDMA": fabric.rdma_nics}
    kinds = " and ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return f"{len(fabric.nics)} subnetwork{'s' if len(fabric.nics) > 1 else ''} ({kinds})"


def _boots(shape: Shape, settings: ComputeSettings, image: str | None, fabric: Fabric) -> bool:
    """Whether the boot image has what a plugin needs; where somebody names either, that is believed."""
    is_named = settings.gpu_networking is fabric.networking or images.path_of(settings)
    return fabric.is_plain or bool(is_named) or images.is_ready(shape, image, fabric.networking)


def _cost(fast: Fabric, slow: Fabric, shape: Shape) -> str:
    return f"at {slow.gbps_per_gpu(shape):g} of {fast.gbps_per_gpu(shape):g} Gbps a GPU"


def network(shape: Shape, settings: ComputeSettings, num_nodes: int, image: str | None) -> Network | None:
    """What a plan tells of it; None for one node."""
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
    told = "; ".join(filter(None, [fabric.note, ", ".join(fabric.sources)]))
    return Network(
        name=fabric.networking.value, gbps_per_gpu=fabric.gbps_per_gpu(shape), note=told, warning=warning
    )


def interfaces(fabric: Fabric | None, settings: ComputeSettings, zone: str) -> list[dict[str, Any]]:
    """``networkInterfaces`` of one VM; without an external address unless asked for."""
    below = f"regions/{region_of(zone)}/subnetworks"
    first: dict[str, Any] = {"nicType": "GVNIC"}
    if settings.subnetwork is None:
        first["network"] = f"global/networks/{settings.network}"
    else:
        first["subnetwork"] = f"{below}/{settings.subnetwork}"
    if settings.external_ip:
        first["accessConfigs"] = [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}]
    kinds = fabric.nics if fabric is not None else ()
    more = zip(settings.gpu_subnetworks, kinds, strict=False)
    return [first, *({"subnetwork": f"{below}/{name}", "nicType": kind} for name, kind in more)]


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
    """The commands that make networks, subnetworks and rules for several machines, for a shell."""
    region, mine = region_of(zone) or "REGION", f"--project {settings.project}"
    make, make_below = "gcloud compute networks create", "gcloud compute networks subnets create"
    lines = [*_first_network(settings, region)]
    if fabric.data_gvnics:
        lines.append(
            f"for i in $(seq 1 {fabric.data_gvnics}); do"
            f" {make} gpu-net-$i --subnet-mode custom --mtu {fabric.mtu} {mine} &&"
            f" {make_below} gpu-sub-$i --network gpu-net-$i --region {region}"
            f" --range 10.$((100 + i)).0.0/20 {mine} &&"
            f" {allow('gpu-net-$i', '10.$((100 + i)).0.0/16', settings.project)}; done"
        )
    if fabric.rdma_nics:
        lines.append(
            f"{make} gpu-rdma --network-profile {zone}{fabric.roce_profile} --subnet-mode custom"
            f" --mtu {fabric.mtu} {mine}"
        )
        lines.append(
            f"for i in $(seq 1 {fabric.rdma_nics}); do {make_below} rdma-sub-$i --network gpu-rdma"
            f" --region {region} --range 192.168.$i.0/24 {mine}; done"
        )
    return "; ".join(lines)


def _first_network(settings: ComputeSettings, region: str) -> list[str]:
    """What nodes meet in. In ``default``, which Google makes, they may reach each other."""
    if settings.network == "default":
        return []
    mine, mode = f"--project {settings.project}", "auto" if settings.subnetwork is None else "custom"
    lines = [f"gcloud compute networks create {settings.network} --subnet-mode {mode} {mine}"]
    if settings.subnetwork is not None:
        lines.append(
            f"gcloud compute networks subnets create {settings.subnetwork} --network {settings.network}"
            f" --region {region} --range 10.100.0.0/20 --enable-private-ip-google-access {mine}"
        )
    inside = "10.128.0.0/9" if settings.subnetwork is None else "10.100.0.0/16"
    return [*lines, allow(settings.network, inside, settings.project)]


def allow(network: str, ranges: str, project: str) -> str:
    """The command that lets VMs of a network reach each other."""
    make = f"gcloud compute firewall-rules create {network}-internal --network {network}"
    return f"{make} {INTERNAL} --source-ranges {ranges} --project {project}"
