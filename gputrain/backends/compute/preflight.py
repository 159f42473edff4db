"""What is looked at before VMs are made."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from gputrain import catalog
from gputrain.backends.compute import images, networking
from gputrain.backends.compute.settings import NAME, ComputeSettings, short
from gputrain.backends.google import shape_of
from gputrain.catalog import Fabric, GpuNetworking, ProvisioningModel, Service, Shape, region_of
from gputrain.doctor.google import NeededApi, Permission, check_project, exists, find, image, needs
from gputrain.doctor.report import Check, Checks, Probe, failed, ok
from gputrain.google import Api, GoogleClient
from gputrain.google.forms import mappings
from gputrain.planning import Candidate
from gputrain.retry import PATIENT
from gputrain.spec import TrainingSpec

NEEDS = needs("compute", "all")
"""Every permission that submitting, watching, stopping and cleaning up needs."""
TABLE = (
    *NEEDS,
    *needs("quotas", "compute plans", "compute image", "compute tags", "compute addresses", "compute queue"),
)
"""Everything that any call of this backend needs."""

_APIS = (NeededApi("compute.googleapis.com", "create VMs"),)


def preflight(
    access: GoogleClient,
    settings: ComputeSettings,
    spec: TrainingSpec | None,
    candidates: Sequence[Candidate],
) -> Checks:
    """What a job would need; with a spec, also its code and its images on each machine."""
    regions = tuple(dict.fromkeys(region_of(one.place) for one in candidates)) or settings.named_regions
    networks, shapes = _Networks(access, settings), [shape_of(one, Service.COMPUTE) for one in candidates]
    more = [*networks.probes(spec, regions), *networks.fabrics(candidates)]
    more += _boot_images(access, settings, spec, candidates)
    if spec is not None and spec.image_name is not None:
        more += image(access, spec.image_name, tuple(dict.fromkeys(shapes)), service=Service.COMPUTE)
    return check_project(
        NAME, access, of=_APIS, needed=_needed(settings, candidates), home=settings.bucket,
        region=settings.home, runs_as=settings.service_account, spec=spec, more=more,
    )  # fmt: skip


def _needed(settings: ComputeSettings, candidates: Sequence[Candidate]) -> tuple[Permission, ...]:
    flex = ProvisioningModel.FLEX_START
    parts = {
        "compute plans": True,
        "compute image": images.path_of(settings).startswith(f"projects/{settings.project}/"),
        "compute tags": bool(settings.network_tags),
        "compute addresses": settings.external_ip,
        "compute queue": any(one.provisioning_model is flex and one.num_nodes > 1 for one in candidates),
    }
    return (*NEEDS, *needs(*(part for part, is_asked in parts.items() if is_asked)))


@attrs.frozen
class _Networks:
    """Checks of the networks that the settings name."""

    access: GoogleClient
    settings: ComputeSettings

    def probes(self, spec: TrainingSpec | None, regions: Sequence[str]) -> Iterator[Probe]:
        """Whether they are there, and lead VMs where they have to go."""
        settings, project = self.settings, self.settings.network_project
        name = short(settings.network)
        if settings.subnetwork is None:
            fix = f"gcloud compute networks create {name} --project {project} --subnet-mode auto"
            yield exists(self.access, f"projects/{project}/global/networks/{name}", fix)
        for region in regions:
            for each in map(short, (settings.subnetwork or name, *settings.gpu_subnetworks)):
                fix = (
                    f"gcloud compute networks subnets create {each} --project {project}"
                    f" --network {name} --region {region} --range 10.0.0.0/20"
                )
                path = f"projects/{project}/regions/{region}/subnetworks/{each}"
                yield exists(self.access, path, fix, where=f" in {region}")
        for_what = ""
        if spec is not None:
            for_what = networking.needs_internet(settings, spec.image_name, spec.requirements, spec.env)
        for region in regions if settings.check_network and not settings.external_ip else ():
            yield Probe(subject=f"ways out of {region}", run=partial(self._way_out, region, for_what))

    def _way_out(self, region: str, for_what: str) -> Iterator[Check]:
        """Whether VMs without addresses reach the bucket, and what their job needs from beyond Google."""
        found = networking.read_ways_out(self.access, self.settings, region, policy=PATIENT)
        error = networking.shut_in(self.settings, region, found, for_what)
        if error is None:
            reached = "everything, by Cloud NAT" if found.to_internet else "Google's APIs only"
            yield ok(f"VMs there reach {reached}")
        else:
            yield failed(f"{error.what}: {error.why}", error.fix)

    def fabrics(self, candidates: Sequence[Candidate]) -> Iterable[Probe]:
        """One for each way and zone in which several machines would talk; nothing for one node."""
        asked: dict[str, Probe] = {}
        for one in candidates:
            shape = shape_of(one, Service.COMPUTE)
            ways = catalog.fabrics(shape) if one.network is not None else ()
            for fabric in (way for way in ways if one.network and way.networking.value == one.network.name):
                subject = f"{fabric.networking} between {shape.machine_type} in {one.place}"
                asked[subject] = Probe(subject=subject, run=partial(self._fabric, fabric, shape, one.place))
        return asked.values()

    def _fabric(self, fabric: Fabric, shape: Shape, zone: str) -> Iterator[Check]:
        first = self.settings.subnetwork or self.settings.network
        named = [(first, "control"), *zip(self.settings.gpu_subnetworks, fabric.nics, strict=False)]
        wrong = [check for each, kind in named for check in self._wrong(fabric, zone, short(each), kind)]
        yield from wrong
        if not wrong:
            yield ok(f"up to {fabric.gbps_per_gpu(shape):g} Gbps a GPU, by the catalog")

    def _wrong(self, fabric: Fabric, zone: str, name: str, kind: str) -> Iterator[Check]:
        """What is wrong with one subnetwork; one that is missing has a check of its own."""
        project = self.settings.network_project
        below = find(self.access, f"projects/{project}/regions/{region_of(zone)}/subnetworks/{name}")
        link = str((below or {}).get("network", "")).rpartition("/compute/v1/")[2]
        network = find(self.access, link) if link else None
        if below is None or network is None:
            return
        called, ranges = network.get("name", ""), str(below.get("ipCidrRange", ""))
        if kind == "MRDMA":
            wanted = f"{zone}{fabric.roce_profile}"
            has = str(network.get("networkProfile", "")).rpartition("/")[2]
            if has != wanted:
                has = f"profile {has}" if has else "no profile"
                why = f"network {called} has {has}, and RDMA needs {wanted}"
                yield failed(why, f"another network, made with --network-profile {wanted}")
            return
        if not fabric.is_plain and kind == "GVNIC" and network.get("mtu") != fabric.mtu:
            why = f"network {called} has MTU {network.get('mtu')}, and Google's recipe {fabric.mtu}"
            fix = f"gcloud compute networks update {called} --mtu {fabric.mtu} --project {project}"
            yield failed(why, fix, is_certain=False)
        if not _lets_in(self._rules(), link, ranges):
            why = f"no firewall rule lets VMs of network {called} reach each other on all ports"
            # not certain: a policy of the organisation may
            yield failed(why, networking.allow(called, ranges, project), is_certain=False)

    def _rules(self) -> Sequence[Mapping[str, Any]]:
        project = self.settings.network_project
        url = f"{self.access.url(Api.COMPUTE)}/compute/v1/projects/{project}/global/firewalls"
        fields = {"fields": "items(network,direction,disabled,sourceRanges,allowed),nextPageToken,warning"}
        action = "look at firewall rules"
        rules = self.access.list_all(url, action=action, params=fields, policy=PATIENT)
        return rules.require_complete(action)


def _boot_images(
    access: GoogleClient,
    settings: ComputeSettings,
    spec: TrainingSpec | None,
    candidates: Sequence[Candidate],
) -> list[Probe]:
    """The image of each machine the job may get; without a spec, those of the settings, or all we know."""
    chosen: dict[str, list[Shape]] = {}
    container = None if spec is None else spec.image_name
    if spec is None:
        own = images.path_of(settings)
        chosen = {path: [] for path in ([own] if own else [one.path for one in images.FAMILIES])}
    for one in candidates if spec is not None else ():
        shape = shape_of(one, Service.COMPUTE)
        way = None if one.network is None else GpuNetworking(one.network.name)
        fit = chosen.setdefault(images.choose(shape, settings, container, way), [])
        fit += [shape] * (shape not in fit)
    return [
        Probe(subject=f"boot image {path.rpartition('/')[2]}", run=partial(_boot_image, access, path, fit))
        for path, fit in chosen.items()
    ]


def _boot_image(access: GoogleClient, path: str, shapes: Sequence[Shape]) -> Iterator[Check]:
    found = find(access, path)
    if found is None:
        owner = path.split("/")[1]
        fix = f"gcloud compute images list --project {owner} --no-standard-images --show-deprecated"
        yield failed(f"there is no {path}", fix)
        return
    built = str(found.get("architecture", "")).lower()
    wrong = [shape for shape in shapes if built and shape.machine.cpu_architecture != built]
    for shape in wrong:
        why = f"it is for {built}, and {shape.machine_type} is {shape.machine.cpu_architecture}"
        yield failed(why, "name another with image_family='PROJECT/FAMILY' or boot_image=")
    if not wrong:
        yield ok(str(found.get("name", "")), group="boot images")


def _lets_in(rules: Sequence[Mapping[str, Any]], network: str, ranges: str) -> bool:
    """Whether rules let TCP and UDP pass on every port between the addresses of a range."""
    open_ = {
        str(one.get("IPProtocol"))
        for rule in rules
        if str(rule.get("network", "")).endswith(network) and _is_of(rule, ranges)
        for one in mappings(rule.get("allowed"))
        if one.get("ports", ["0-65535"]) == ["0-65535"]
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
