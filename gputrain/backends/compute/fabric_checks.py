"""Whether the networks of a gang's GPUs are what their way needs: looked at before there are VMs."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gputrain import catalog
from gputrain.backends.compute import fabrics
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.backends.google import shape_of
from gputrain.catalog import Fabric, Service, Shape, region_of
from gputrain.gcp import Access, Api
from gputrain.gcp.forms import mappings
from gputrain.planning import Candidate
from gputrain.preflight.checks import Check, Question, fault, fine
from gputrain.preflight.google import find
from gputrain.retry import PATIENT

_ALL_PORTS = "0-65535"


def questions(
    access: Access, settings: ComputeSettings, candidates: Sequence[Candidate]
) -> tuple[Question, ...]:
    """One for each way and zone that gangs would talk by; nothing for one node."""
    asked: dict[str, Question] = {}
    for one in candidates:
        shape = shape_of(one, Service.COMPUTE)
        ways = catalog.fabrics(shape) if one.network is not None else ()
        for fabric in (way for way in ways if one.network and way.networking.value == one.network.name):
            subject = f"{fabric.networking} between {shape.machine_type} in {one.place}"
            asked[subject] = _question(access, settings, fabric, shape, one.place, subject)
    return tuple(asked.values())


def _question(
    access: Access, settings: ComputeSettings, fabric: Fabric, shape: Shape, zone: str, subject: str
) -> Question:
    def ask() -> Iterator[Check]:
        first = settings.subnetwork or settings.network
        named = [(first, "control"), *zip(settings.gpu_subnetworks, fabric.nics, strict=False)]
        looks = (_looked(access, fabric, zone, each, kind) for each, kind in named)
        wrong = [check for look in looks for check in look]
        yield from wrong
        if not wrong:
            yield fine(f"up to {fabric.gbps_per_gpu(shape):g} Gbps a GPU, by the catalog")

    return Question(subject=subject, ask=ask)


def _looked(access: Access, fabric: Fabric, zone: str, name: str, kind: str) -> Iterator[Check]:
    """What is wrong with one subnetwork; one that is missing has a check of its own."""
    below = find(access, f"projects/{access.project}/regions/{region_of(zone)}/subnetworks/{name}")
    link = str((below or {}).get("network", "")).rpartition("/compute/v1/")[2]
    network = find(access, link) if link else None
    if below is None or network is None:
        return
    called = network.get("name", "")
    if kind == "MRDMA":
        wanted, has = (
            f"{zone}{fabric.roce_profile}",
            str(network.get("networkProfile", "")).rpartition("/")[2],
        )
        if has != wanted:
            why = f"network {called} has {f'profile {has}' if has else 'no profile'}, and RDMA needs {wanted}"
            yield fault(why, f"another network, made with --network-profile {wanted}")
        return
    if not fabric.is_plain and kind == "GVNIC" and network.get("mtu") != fabric.mtu:
        why = f"network {called} has MTU {network.get('mtu')}, and Google's recipe {fabric.mtu}"
        fix = f"gcloud compute networks update {called} --mtu {fabric.mtu} --project {access.project}"
        yield fault(why, fix, is_certain=False)
    if not _lets_in(_rules(access), link, str(below.get("ipCidrRange", ""))):
        why = f"no firewall rule lets VMs of network {called} reach each other on all ports"
        fix = fabrics.allow(called, str(below.get("ipCidrRange", "")), access.project)
        yield fault(why, fix, is_certain=False)  # a policy of the organisation may


def _rules(access: Access) -> tuple[Mapping[str, Any], ...]:
    url = f"{access.url(Api.COMPUTE)}/compute/v1/projects/{access.project}/global/firewalls"
    fields = {"fields": "items(network,direction,disabled,sourceRanges,allowed),nextPageToken,warning"}
    action = "look at firewall rules"
    return tuple(access.pages(url, action=action, params=fields, policy=PATIENT).whole(action))


def _lets_in(rules: Sequence[Mapping[str, Any]], network: str, ranges: str) -> bool:
    """Whether rules let TCP and UDP pass on every port between the addresses of a range."""
    open_ = {
        str(one.get("IPProtocol"))
        for rule in rules
        if str(rule.get("network", "")).endswith(network) and _is_of(rule, ranges)
        for one in mappings(rule.get("allowed"))
        if one.get("ports", [_ALL_PORTS]) == [_ALL_PORTS]
    }
    return "all" in open_ or {"tcp", "udp"} <= open_


def _is_of(rule: Mapping[str, Any], ranges: str) -> bool:
    if rule.get("direction", "INGRESS") != "INGRESS" or rule.get("disabled"):
        return False
    try:
        inside = ipaddress.IPv4Network(ranges)
        return any(inside.subnet_of(ipaddress.IPv4Network(one)) for one in rule.get("sourceRanges", ()))
    except ValueError:  # an IPv6 range, or none
        return False
