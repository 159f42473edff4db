"""What is looked at before VMs are made."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gputrain import catalog
from gputrain.backends.compute import images, networking
from gputrain.backends.compute.networking import commands, read_ways_out
from gputrain.backends.compute.settings import NAME, ComputeSettings, short
from gputrain.backends.google import shape_of
from gputrain.catalog import Fabric, GpuNetworking, ProvisioningModel, Service, Shape, region_of
from gputrain.doctor.google import NeededApi, check_project, exists, find, image, network
from gputrain.doctor.permissions import COMMON, QUOTAS, Permission
from gputrain.doctor.report import Check, Checks, Probe, failed, ok
from gputrain.google import Api, GoogleClient
from gputrain.google.forms import mappings
from gputrain.planning import Candidate
from gputrain.retry import PATIENT
from gputrain.spec import TrainingSpec

_ADMIN = "roles/compute.instanceAdmin.v1"
_OBJECTS = "roles/storage.objectUser"
NEEDS: tuple[Permission, ...] = (
    Permission("compute.instances.create", "create the VMs", _ADMIN),
    Permission("compute.instances.setMetadata", "pass the job to the VMs", _ADMIN),
    Permission("compute.instances.setLabels", "label the VMs", _ADMIN),
    Permission("compute.instances.setServiceAccount", "give the VMs an account", _ADMIN),
    Permission("compute.instances.list", "watch the VMs", _ADMIN),
    Permission("compute.instances.get", "look at one VM", _ADMIN),
    Permission("compute.instances.delete", "delete the VMs", _ADMIN),
    Permission("compute.instances.getSerialPortOutput", "read the serial port", _ADMIN),
    Permission("compute.disks.create", "create the VMs' disks", _ADMIN),
    Permission("compute.subnetworks.use", "put the VMs into the network", _ADMIN),
    Permission("compute.zoneOperations.get", "wait for the create", _ADMIN),
    Permission("compute.zoneOperations.list", "see why a VM ended", _ADMIN),
    Permission("compute.instanceTemplates.list", "find leftovers of queued VM groups", _ADMIN),
    *COMMON,
)
"""Every permission that submitting, watching, stopping and cleaning up needs; a test takes each one away.

Source of the roles: Google's IAM reference by general knowledge, not re-read.
"""
_VIEWER = "roles/compute.viewer"
_PLANS = tuple(
    Permission(permission, call, role, is_optional=True)
    for permission, call, role in (
        ("compute.projects.get", "read global quotas", _VIEWER),
        ("compute.regions.list", "read regional quotas", _VIEWER),
        ("compute.machineTypes.list", "read which zones have a machine type", _VIEWER),
        ("compute.acceleratorTypes.list", "read which zones have a GPU", _VIEWER),
        ("compute.routers.list", "check whether VMs reach the internet", _VIEWER),
        ("compute.firewalls.list", "check whether nodes reach each other", _VIEWER),
    )
)
"""What planning reads; without one, something stays unknown."""
_IMAGE = tuple(
    Permission(permission, call, _ADMIN, only_with="an image of your own project")
    for permission, call in (
        ("compute.images.get", "read the boot image"),
        ("compute.images.getFromFamily", "read the boot image's family"),
        ("compute.images.useReadOnly", "boot from the image"),
    )
)
"""Of images of one's own project; Google's are public."""
_TAGS = Permission("compute.instances.setTags", "put network_tags on the VMs", _ADMIN,
    only_with="`network_tags=`",
)  # fmt: skip
_EXTERNAL = Permission("compute.subnetworks.useExternalIp", "give the VMs external addresses", _ADMIN,
    only_with="`external_ip=True`",
)  # fmt: skip
_GROUP = "compute.instanceGroupManagers"
_QUEUE = tuple(
    Permission(permission, call, _ADMIN, only_with="several nodes by `flex-start`")
    for permission, call in (
        ("compute.instanceTemplates.create", "describe the VMs of a queued group"),
        ("compute.instanceTemplates.useReadOnly", "create a queued group's VMs from it"),
        ("compute.instanceTemplates.delete", "delete it"),
        (f"{_GROUP}.create", "queue a group"),
        (f"{_GROUP}.get", "read a group's state"),
        (f"{_GROUP}.update", "request a group's VMs, and cancel the request"),
        (f"{_GROUP}.delete", "delete a group and its VMs"),
        ("compute.globalOperations.get", "wait for the group's create"),
    )
)
"""Of VM groups in the flex-start queue. Source: IAM pages of groups and templates, read 2026-11-22."""
TABLE = (*NEEDS, QUOTAS, *_PLANS, *_IMAGE, _TAGS, _EXTERNAL, *_QUEUE)
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
    more = (
        *_networks(access, settings, spec, regions),
        *questions(access, settings, candidates),
        *_boot_images(access, settings, spec, candidates),
        *_container(access, spec, candidates),
    )
    return check_project(
        NAME, access, of=_APIS, needed=_needs(settings, candidates), home=settings.bucket,
        region=settings.home, runs_as=settings.service_account, spec=spec, more=more,
    )  # fmt: skip


def _needs(settings: ComputeSettings, candidates: Sequence[Candidate]) -> tuple[Permission, ...]:
    flex = ProvisioningModel.FLEX_START
    is_queued = any(one.provisioning_model is flex and one.num_nodes > 1 for one in candidates)
    own_image = images.path_of(settings).startswith(f"projects/{settings.project}/")
    more = (
        (_IMAGE, own_image),
        ((_TAGS,), bool(settings.network_tags)),
        ((_EXTERNAL,), settings.external_ip),
        (_QUEUE, is_queued),
    )
    return (*NEEDS, *_PLANS, *(need for needs, is_asked in more if is_asked for need in needs))


def _networks(
    access: GoogleClient, settings: ComputeSettings, spec: TrainingSpec | None, regions: Sequence[str]
) -> tuple[Probe, ...]:
    name, project = short(settings.network), settings.network_project
    fix = f"gcloud compute networks create {name} --project {project} --subnet-mode auto"
    path = f"projects/{project}/global/networks/{name}"
    first = () if settings.subnetwork is not None else (network(access, path, fix),)
    named = tuple(map(short, (settings.subnetwork or name, *settings.gpu_subnetworks)))
    looks_out = settings.check_network and not settings.external_ip
    for_what = ""
    if spec is not None:
        for_what = networking.needs_internet(settings, spec.image_name, spec.requirements, spec.env)
    return (
        *first,
        *(_subnetwork(access, settings, region, each) for region in regions for each in named),
        *(_way_out(access, settings, region, for_what) for region in regions if looks_out),
    )


def _way_out(access: GoogleClient, settings: ComputeSettings, region: str, for_what: str) -> Probe:
    """Whether VMs without addresses reach the bucket, and what their job needs from beyond Google."""
    subject, project = f"ways out of {region}", settings.network_project
    network, subnetwork = short(settings.network), short(settings.subnetwork or settings.network)

    def run() -> Iterator[Check]:
        found = read_ways_out(access, project, region, subnetwork, policy=PATIENT)
        if found.to_google and (found.to_internet or not for_what):
            reached = "everything, by Cloud NAT" if found.to_internet else "Google's APIs only"
            yield ok(f"VMs there reach {reached}")
            return
        yield failed(
            f"VMs there have no external address, and would not reach {for_what or 'the bucket'}",
            commands(project, region, network, subnetwork, to_internet=bool(for_what)),
        )

    return Probe(subject=subject, run=run)


def _subnetwork(access: GoogleClient, settings: ComputeSettings, region: str, name: str) -> Probe:
    project = settings.network_project
    path = f"projects/{project}/regions/{region}/subnetworks/{name}"
    fix = (
        f"gcloud compute networks subnets create {name} --project {project}"
        f" --network {short(settings.network)} --region {region} --range 10.0.0.0/20"
    )
    return exists(access, path, f"subnetwork {name} in {region}", fix)


def _boot_images(
    access: GoogleClient,
    settings: ComputeSettings,
    spec: TrainingSpec | None,
    candidates: Sequence[Candidate],
) -> tuple[Probe, ...]:
    """The image of each machine the job may get; without a spec, those of the settings, or all we know."""
    if spec is None:
        own = settings.boot_image or settings.image_family
        paths = (images.path_of(settings),) if own else tuple(one.path for one in images.FAMILIES)
        return tuple(_boot_image(access, path, ()) for path in paths)
    chosen: dict[str, list[Shape]] = {}
    for one in candidates:
        shape, way = shape_of(one, Service.COMPUTE), None
        if one.network is not None:
            way = GpuNetworking(one.network.name)
        fit = chosen.setdefault(images.choose(shape, settings, spec.image_name, way), [])
        fit += [shape] * (shape not in fit)
    return tuple(_boot_image(access, path, fit) for path, fit in chosen.items())


def _boot_image(access: GoogleClient, path: str, shapes: Sequence[Shape]) -> Probe:
    subject = f"boot image {path.rpartition('/')[2]}"

    def run() -> Iterator[Check]:
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
            fix = "name another with image_family='PROJECT/FAMILY' or boot_image="
            yield failed(why, fix)
        if not wrong:
            yield ok(str(found.get("name", "")), group="boot images")

    return Probe(subject=subject, run=run)


def _container(
    access: GoogleClient, spec: TrainingSpec | None, candidates: Sequence[Candidate]
) -> tuple[Probe, ...]:
    if spec is None or spec.image_name is None:
        return ()
    return image(access, spec.image_name, _shapes(candidates), service=Service.COMPUTE)


def _shapes(candidates: Sequence[Candidate]) -> tuple[Shape, ...]:
    return tuple(dict.fromkeys(shape_of(one, Service.COMPUTE) for one in candidates))


_ALL_PORTS = "0-65535"


def questions(
    access: GoogleClient, settings: ComputeSettings, candidates: Sequence[Candidate]
) -> tuple[Probe, ...]:
    """One for each way and zone that gangs would talk by; nothing for one node."""
    asked: dict[str, Probe] = {}
    for one in candidates:
        shape = shape_of(one, Service.COMPUTE)
        ways = catalog.fabrics(shape) if one.network is not None else ()
        for fabric in (way for way in ways if one.network and way.networking.value == one.network.name):
            subject = f"{fabric.networking} between {shape.machine_type} in {one.place}"
            asked[subject] = _question(access, settings, fabric, shape, one.place, subject)
    return tuple(asked.values())


def _question(
    access: GoogleClient, settings: ComputeSettings, fabric: Fabric, shape: Shape, zone: str, subject: str
) -> Probe:
    def run() -> Iterator[Check]:
        first, project = settings.subnetwork or settings.network, settings.network_project
        named = [(first, "control"), *zip(settings.gpu_subnetworks, fabric.nics, strict=False)]
        looks = (_looked(access, project, fabric, zone, short(each), kind) for each, kind in named)
        wrong = [check for look in looks for check in look]
        yield from wrong
        if not wrong:
            yield ok(f"up to {fabric.gbps_per_gpu(shape):g} Gbps a GPU, by the catalog")

    return Probe(subject=subject, run=run)


def _looked(
    access: GoogleClient, project: str, fabric: Fabric, zone: str, name: str, kind: str
) -> Iterator[Check]:
    """What is wrong with one subnetwork; one that is missing has a check of its own."""
    below = find(access, f"projects/{project}/regions/{region_of(zone)}/subnetworks/{name}")
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
            yield failed(why, f"another network, made with --network-profile {wanted}")
        return
    if not fabric.is_plain and kind == "GVNIC" and network.get("mtu") != fabric.mtu:
        why = f"network {called} has MTU {network.get('mtu')}, and Google's recipe {fabric.mtu}"
        fix = f"gcloud compute networks update {called} --mtu {fabric.mtu} --project {project}"
        yield failed(why, fix, is_certain=False)
    if not _lets_in(_rules(access, project), link, str(below.get("ipCidrRange", ""))):
        why = f"no firewall rule lets VMs of network {called} reach each other on all ports"
        fix = networking.allow(called, str(below.get("ipCidrRange", "")), project)
        yield failed(why, fix, is_certain=False)  # a policy of the organisation may


def _rules(access: GoogleClient, project: str) -> tuple[Mapping[str, Any], ...]:
    url = f"{access.url(Api.COMPUTE)}/compute/v1/projects/{project}/global/firewalls"
    fields = {"fields": "items(network,direction,disabled,sourceRanges,allowed),nextPageToken,warning"}
    action = "look at firewall rules"
    return tuple(access.list_all(url, action=action, params=fields, policy=PATIENT).require_complete(action))


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
