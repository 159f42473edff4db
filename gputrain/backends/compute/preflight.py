"""What is looked at before VMs are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gputrain.backends.compute import fabric_checks, images, networks
from gputrain.backends.compute.calls import Calls
from gputrain.backends.compute.names import NAME, vm_names
from gputrain.backends.compute.networks import commands, read_ways_out
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.backends.compute.taken import is_strangers, whose
from gputrain.backends.google import shape_of
from gputrain.catalog import GpuNetworking, ProvisioningModel, Service, Shape, region_of
from gputrain.gcp import Access
from gputrain.planning import Candidate
from gputrain.preflight.checks import Check, Checks, Question, fault, fine
from gputrain.preflight.google import NEEDS as OF_GOOGLE, QUOTAS, find, image, look, network, there
from gputrain.preflight.project import Need, NeededApi, On
from gputrain.retry import PATIENT
from gputrain.spec import TrainingSpec

_ADMIN = "roles/compute.instanceAdmin.v1"
_OBJECTS = "roles/storage.objectUser"
NEEDS: tuple[Need, ...] = (
    Need(permission="compute.instances.create", call="make the VMs", role=_ADMIN),
    Need(permission="compute.instances.setMetadata", call="hand the VMs their job", role=_ADMIN),
    Need(permission="compute.instances.setLabels", call="label the VMs, to find them again", role=_ADMIN),
    Need(permission="compute.instances.setServiceAccount", call="give the VMs an account", role=_ADMIN),
    Need(permission="compute.instances.list", call="watch the VMs", role=_ADMIN),
    Need(permission="compute.instances.get", call="see that a VM is there, or gone", role=_ADMIN),
    Need(permission="compute.instances.delete", call="remove the VMs", role=_ADMIN),
    Need(permission="compute.instances.getSerialPortOutput", call="read what ranks write", role=_ADMIN),
    Need(permission="compute.disks.create", call="make the VMs' disks", role=_ADMIN),
    Need(permission="compute.subnetworks.use", call="put the VMs into the network", role=_ADMIN),
    Need(permission="compute.zoneOperations.get", call="see how making the VMs goes", role=_ADMIN),
    Need(permission="compute.zoneOperations.list", call="see why a VM ended", role=_ADMIN),
    Need(permission="compute.instanceTemplates.list", call="find what is left of queued gangs", role=_ADMIN),
    Need(permission="storage.objects.list", call="find jobs", role=_OBJECTS, on=On.BUCKET),
    *OF_GOOGLE,
)
"""Every permission that submitting, watching, stopping and cleaning up needs; a test takes each one away.

Source of the roles: Google's IAM reference by general knowledge, not re-read.
"""
_VIEWER = "roles/compute.viewer"
_PLANS = tuple(
    Need(permission=permission, call=call, role=role, is_optional=True)
    for permission, call, role in (
        ("compute.projects.get", "tell quotas that count everywhere", _VIEWER),
        ("compute.regions.list", "tell quotas before VMs are made", _VIEWER),
        ("compute.machineTypes.list", "tell which zones have a machine", _VIEWER),
        ("compute.acceleratorTypes.list", "tell which zones have a GPU", _VIEWER),
        ("compute.routers.list", "see whether VMs reach the internet", _VIEWER),
        ("compute.firewalls.list", "see whether VMs of a gang reach each other", _VIEWER),
    )
)
"""What planning reads; without one, something stays unknown."""
_IMAGE = tuple(
    Need(permission=permission, call=call, role=_ADMIN, only_with="an image of your own project")
    for permission, call in (
        ("compute.images.get", "look at the boot image"),
        ("compute.images.getFromFamily", "look at the boot image's family"),
        ("compute.images.useReadOnly", "boot from the image"),
    )
)
"""Of images of one's own project; Google's are for everybody."""
_TAGS = Need(
    permission="compute.instances.setTags", call="put network_tags on the VMs", role=_ADMIN,
    only_with="`network_tags=`",
)  # fmt: skip
_EXTERNAL = Need(
    permission="compute.subnetworks.useExternalIp", call="give the VMs external addresses", role=_ADMIN,
    only_with="`external_ip=True`",
)  # fmt: skip
_GROUP = "compute.instanceGroupManagers"
_QUEUE = tuple(
    Need(permission=permission, call=call, role=_ADMIN, only_with="a gang by `flex-start`")
    for permission, call in (
        ("compute.instanceTemplates.create", "say what the VMs of a queued gang are"),
        ("compute.instanceTemplates.get", "see whether something of a queued gang is left"),
        ("compute.instanceTemplates.useReadOnly", "make a queued gang's VMs by it"),
        ("compute.instanceTemplates.delete", "remove what a queued gang was made from"),
        (f"{_GROUP}.create", "queue a gang"),
        (f"{_GROUP}.get", "see how a gang stands in the queue"),
        (f"{_GROUP}.update", "ask for a gang in the queue, and take it back"),
        (f"{_GROUP}.delete", "remove a gang from the queue, with its VMs"),
        ("compute.globalOperations.get", "see how queueing a gang goes"),
    )
)
"""Of gangs in the flex-start queue. Source: IAM pages of instance groups and templates, read 2026-11-22."""
TABLE = (*NEEDS, QUOTAS, *_PLANS, *_IMAGE, _TAGS, _EXTERNAL, *_QUEUE)
"""Everything that any call of this backend needs."""

_APIS = (NeededApi(name="compute.googleapis.com", purpose="make VMs"),)


def preflight(
    calls: Calls,
    settings: ComputeSettings,
    spec: TrainingSpec | None,
    candidates: Sequence[Candidate],
    job_id: str,
) -> Checks:
    """What a job would need; with a spec, also its code, its images on each machine, and its VMs' names."""
    access = calls.access
    regions = tuple(dict.fromkeys(region_of(one.place) for one in candidates)) or settings.regions
    more = (
        *_networks(access, settings, spec, regions),
        *fabric_checks.questions(access, settings, candidates),
        *_boot_images(access, settings, spec, candidates),
        *_container(access, spec, candidates),
        *_names(calls, settings, candidates, job_id),
    )
    return look(
        NAME, access, of=_APIS, needs=_needs(settings, candidates), home=settings.bucket,
        region=settings.home, runs_as=settings.service_account, spec=spec, more=more,
    )  # fmt: skip


def _needs(settings: ComputeSettings, candidates: Sequence[Candidate]) -> tuple[Need, ...]:
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
    access: Access, settings: ComputeSettings, spec: TrainingSpec | None, regions: Sequence[str]
) -> tuple[Question, ...]:
    name = settings.network
    fix = f"gcloud compute networks create {name} --project {access.project} --subnet-mode auto"
    path = f"projects/{access.project}/global/networks/{name}"
    first = () if settings.subnetwork is not None else (network(access, path, fix),)
    named = (settings.subnetwork or name, *settings.gpu_subnetworks)
    looks_out = settings.check_network and not settings.external_ip
    for_what = ""
    if spec is not None:
        for_what = networks.needs_internet(settings, spec.image_name, spec.requirements, spec.env)
    return (
        *first,
        *(_subnetwork(access, settings, region, each) for region in regions for each in named),
        *(_way_out(access, settings, region, for_what) for region in regions if looks_out),
    )


def _way_out(access: Access, settings: ComputeSettings, region: str, for_what: str) -> Question:
    """Whether VMs without addresses reach the bucket, and what their job needs from beyond Google."""
    subject, subnetwork = f"ways out of {region}", settings.subnetwork or settings.network

    def ask() -> Iterator[Check]:
        found = read_ways_out(access, region, subnetwork, policy=PATIENT)
        if found.to_google and (found.to_internet or not for_what):
            reached = "everything, by Cloud NAT" if found.to_internet else "Google's APIs only"
            yield fine(f"VMs there reach {reached}")
            return
        yield fault(
            f"VMs there have no external address, and would not reach {for_what or 'the bucket'}",
            commands(settings.project, region, settings.network, subnetwork, to_internet=bool(for_what)),
        )

    return Question(subject=subject, ask=ask)


def _subnetwork(access: Access, settings: ComputeSettings, region: str, name: str) -> Question:
    path = f"projects/{access.project}/regions/{region}/subnetworks/{name}"
    fix = (
        f"gcloud compute networks subnets create {name} --project {access.project}"
        f" --network {settings.network} --region {region} --range 10.0.0.0/20"
    )
    return there(access, path, f"subnetwork {name} in {region}", fix)


def _boot_images(
    access: Access, settings: ComputeSettings, spec: TrainingSpec | None, candidates: Sequence[Candidate]
) -> tuple[Question, ...]:
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


def _boot_image(access: Access, path: str, shapes: Sequence[Shape]) -> Question:
    subject = f"boot image {path.rpartition('/')[2]}"

    def ask() -> Iterator[Check]:
        found = find(access, path)
        if found is None:
            owner = path.split("/")[1]
            fix = f"gcloud compute images list --project {owner} --no-standard-images --show-deprecated"
            yield fault(f"there is no {path}", fix)
            return
        built = str(found.get("architecture", "")).lower()
        wrong = [shape for shape in shapes if built and shape.machine.cpu_architecture != built]
        for shape in wrong:
            why = f"it is for {built}, and {shape.machine_type} is {shape.machine.cpu_architecture}"
            fix = "name another with image_family='PROJECT/FAMILY' or boot_image="
            yield fault(why, fix)
        if not wrong:
            yield fine(str(found.get("name", "")))

    return Question(subject=subject, ask=ask)


def _container(
    access: Access, spec: TrainingSpec | None, candidates: Sequence[Candidate]
) -> tuple[Question, ...]:
    if spec is None or spec.image_name is None:
        return ()
    return image(access, spec.image_name, _shapes(candidates))


def _names(
    calls: Calls, settings: ComputeSettings, candidates: Sequence[Candidate], job_id: str
) -> tuple[Question, ...]:
    """Whether the VMs' names are free, or taken by this very job."""
    if not job_id or not candidates:
        return ()
    name, home = vm_names(job_id, 0, candidates[0].num_nodes)[0], settings.home_label

    def ask() -> Iterator[Check]:
        zones = {one.place for one in candidates}
        listing = calls.all_instances(f"name={name}")
        found = [vm for vm in listing.seen if _zone(vm) in zones]
        if not found:
            listing.whole(f"tell whether {name} is free")
        strangers = [vm for vm in found if is_strangers(vm, job_id, home)]
        if strangers:
            zone = _zone(strangers[0])
            why, fix = whose(calls, zone, name, home)
            yield fault(f"a VM in {zone} that is not of this job bears it: {why}", fix)
        else:
            why = "the job is there already: submitting takes it up" if found else "free"
            yield fine(why)

    return (Question(subject=f"name {name}", ask=ask),)


def _zone(vm: dict[str, object]) -> str:
    return str(vm.get("zone", "")).rpartition("/")[2]


def _shapes(candidates: Sequence[Candidate]) -> tuple[Shape, ...]:
    return tuple(dict.fromkeys(shape_of(one, Service.COMPUTE) for one in candidates))
