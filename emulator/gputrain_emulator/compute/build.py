"""An instance made from a request: checked, completed and priced, but not yet there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.call import Call
from gputrain_emulator.clock import compute_time
from gputrain_emulator.compute import checks, images, networks, refusals, reserve
from gputrain_emulator.compute.links import fingerprint, last, link, relative
from gputrain_emulator.compute.state import Compute, Vm, VmKey
from gputrain_emulator.errors import ApiError
from gputrain_emulator.quotas import vm_needs
from gputrain_emulator.world import Accounts

Json = dict[str, Any]


def build(call: Call, *, zone: str, name: str, properties: Mapping[str, Any], at: str, bare: bool) -> Vm:
    """The VM that ``properties`` describe.

    Raises ApiError for everything that Google refuses at once. ``bare`` is bulkInsert's way of naming
    resources.
    """
    compute, project = call.world.part(Compute), call.owner.id
    checks.name(name, f"{at}.name")
    _permissions(call, zone, name, properties)
    _refuse_taken_name(compute, (project, zone, name))
    checks.labels(properties.get("labels", {}), f"{at}.labels")
    checks.metadata(properties.get("metadata", {}), f"{at}.metadata")
    checks.attachments(properties, at)
    machine = checks.machine_type(compute, properties.get("machineType", ""), zone, at, bare=bare)
    wanted = properties.get("guestAccelerators", [])
    kind, gpus = checks.accelerators(compute, project, zone, machine, wanted)
    scheduling = properties.get("scheduling", {})
    model = checks.scheduling(scheduling, machine, gpus, name, at)
    affinity = properties.get("reservationAffinity", {})
    checks.affinity(affinity, model, at)
    _policies(compute, project, zone, properties)
    vm = Vm(
        project=project,
        zone=zone,
        name=name,
        resource={},
        machine=machine,
        accelerator=kind,
        gpus=gpus,
        model=model,
        caller=call.caller.email,
        needs=vm_needs(project, facts.region_of(zone), machine, kind, gpus, model),
        valid_for_s=_valid_for(properties, model, at),
    )
    reserve.choose(compute, vm, affinity)
    disks = properties.get("disks", [])
    attached = [_disk(compute, vm, disk, index, at) for index, disk in enumerate(disks)]
    vm.resource = _document(call, vm, properties, attached)
    vm.needs += reserve.of_attached(vm)
    return vm


def _refuse_taken_name(compute: Compute, key: VmKey) -> None:
    """409 while a VM of that name exists, and for a while after a create of it has failed."""
    if key in compute.vms or compute.held_names.get(key, 0.0) > compute.world.clock.now():
        project, zone, name = key
        raise refusals.already_exists(f"projects/{project}/zones/{zone}/instances/{name}")


def _permissions(call: Call, zone: str, name: str, properties: Mapping[str, Any]) -> None:
    """The union that an insert needs, each named on its own."""
    resource = f"projects/{call.owner.id}/zones/{zone}/instances/{name}"
    wanted = {
        "compute.instances.create": True,
        "compute.disks.create": any("initializeParams" in disk for disk in properties.get("disks", [])),
        "compute.subnetworks.use": True,
        "compute.subnetworks.useExternalIp": any(
            nic.get("accessConfigs") for nic in properties.get("networkInterfaces", [])
        ),
        "compute.instances.setMetadata": bool(properties.get("metadata", {}).get("items")),
        "compute.instances.setLabels": bool(properties.get("labels")),
        "compute.instances.setServiceAccount": bool(properties.get("serviceAccounts")),
        "compute.instances.setTags": bool(properties.get("tags", {}).get("items")),
    }
    for permission, needed in wanted.items():
        if needed and not call.caller.may(permission):
            raise refusals.permission(permission, resource)
    for account in properties.get("serviceAccounts", []):
        if not call.caller.may("iam.serviceAccounts.actAs"):
            raise refusals.act_as_denied(str(account.get("email", "default")), call.caller.email)


def missing_account(compute: Compute, vm: Vm) -> refusals.OperationError | None:
    """How the creation of a VM ends whose service account does not exist."""
    missing = compute.world.part(Accounts).missing
    for account in vm.resource.get("serviceAccounts", ()):
        if account.get("email") in missing:
            message = f"The resource '{account['email']}' of type 'serviceAccount' was not found."
            return refusals.operation_error("RESOURCE_NOT_FOUND", message, http_status=404)
    return None


def _policies(compute: Compute, project: str, zone: str, properties: Mapping[str, Any]) -> None:
    region = facts.region_of(zone)
    for url in properties.get("resourcePolicies", []):
        path = f"projects/{project}/regions/{region}/resourcePolicies/{last(url)}"
        if path not in compute.resources["resourcePolicies"]:
            raise refusals.not_found(path)


def _valid_for(properties: Mapping[str, Any], model: str, at: str) -> float:
    duration = properties.get("params", {}).get("requestValidForDuration")
    if duration is None:
        return 0.0
    seconds = float(duration.get("seconds", 0))
    if model != "FLEX_START" or not 0 <= seconds <= checks.MAX_FLEX_WAIT_S:
        raise refusals.invalid(
            f"{at}.params.requestValidForDuration",
            seconds,
            f"Must be at most {checks.MAX_FLEX_WAIT_S} seconds.",
        )
    return seconds


def _disk(compute: Compute, vm: Vm, disk: Json, index: int, at: str) -> Json:
    wanted = {key: value for key, value in disk.items() if key != "initializeParams"}
    attached = checks.completed(wanted, index)
    if disk.get("type") == "SCRATCH":
        return {**attached, "diskSizeGb": str(checks.LOCAL_SSD_GB)}
    params = disk.get("initializeParams")
    if params is None:
        raise ApiError.unimplemented("compute.instances.insert with an existing disk")
    return {**attached, **_boot_disk(compute, vm, params, at)}


def _boot_disk(compute: Compute, vm: Vm, params: Json, at: str) -> Json:
    kind = last(params.get("diskType", "")) or vm.machine.boot_disks[0]
    checks.boot_disk_type(kind, vm.machine)
    field = f"{at}.disks[0].initializeParams"
    size = int(params.get("diskSizeGb", 0))
    if not params.get("sourceImage"):
        raise refusals.invalid(f"{field}.sourceImage", "", "A boot disk must have a source image.")
    image = images.image(compute, params["sourceImage"], vm.project)
    smallest = int(image["diskSizeGb"])
    if size and size < smallest:
        sentence = f"Requested disk size cannot be smaller than the image size ({smallest} GB)"
        raise refusals.invalid(f"{field}.diskSizeGb", size, sentence)
    if image["architecture"] != vm.machine.arch:
        raise refusals.incompatible(f"image architecture {image['architecture']}", vm.machine.name)
    source = f"{vm.scope}/disks/{params.get('diskName') or vm.name}"
    if source in compute.resources["disks"]:
        raise refusals.already_exists(source)
    return {"source": link(source), "diskSizeGb": str(size or smallest), "_type": kind, "_image": image}


def place_disks(compute: Compute, vm: Vm) -> None:
    """Create the disks that come with the VM."""
    for disk in vm.resource["disks"]:
        kind, image = disk.pop("_type", None), disk.pop("_image", None)
        source = relative(disk.get("source", ""))
        if kind is None:
            continue
        compute.resources["disks"][source] = {
            "kind": "compute#disk",
            "id": compute.world.new_id(),
            "name": last(source),
            "zone": link(vm.scope),
            "selfLink": link(source),
            "users": [link(vm.path)],
            "creationTimestamp": vm.resource["creationTimestamp"],
            "status": "READY",
            "sizeGb": disk["diskSizeGb"],
            "type": link(f"{vm.scope}/diskTypes/{kind}"),
            "physicalBlockSizeBytes": "4096",
            "labelFingerprint": fingerprint({}),
            "sourceImage": image["selfLink"],
            "sourceImageId": image["id"],
            "architecture": image["architecture"],
        }
        compute.quotas.take(reserve.of_disk(compute.resources["disks"][source]))
        compute.world.ledger.write(
            "create", source, caller=vm.caller, detail=f"{disk['diskSizeGb']} GB {kind}"
        )


def _document(call: Call, vm: Vm, properties: Mapping[str, Any], attached: list[Json]) -> Json:
    compute = call.world.part(Compute)
    region = facts.region_of(vm.zone)
    metadata = {"kind": "compute#metadata", **properties.get("metadata", {})}
    labels, tags = dict(properties.get("labels", {})), properties.get("tags", {})
    document = {
        **{
            key: value for key, value in properties.items() if key not in ("params", "sourceInstanceTemplate")
        },
        "kind": "compute#instance",
        "id": call.world.new_id(),
        "name": vm.name,
        "zone": link(vm.scope),
        "selfLink": link(vm.path),
        "creationTimestamp": compute_time(call.world.clock.now()),
        "machineType": link(f"{vm.scope}/machineTypes/{vm.machine.name}"),
        "labels": labels,
        "labelFingerprint": fingerprint(labels),
        "tags": {**tags, "fingerprint": fingerprint(tags.get("items", []))},
        "metadata": {**metadata, "fingerprint": fingerprint(metadata.get("items", []))},
        "scheduling": checks.completed_scheduling(properties.get("scheduling", {}), bool(vm.gpus)),
        "disks": attached,
        "networkInterfaces": networks.interfaces(
            compute, vm.project, vm.zone, properties.get("networkInterfaces", [])
        ),
        "cpuPlatform": "Unknown CPU Platform",
        "startRestricted": False,
        "deletionProtection": bool(properties.get("deletionProtection", False)),
        "fingerprint": fingerprint([vm.name, labels]),
    }
    if vm.accelerator:
        kind = link(f"{vm.scope}/acceleratorTypes/{vm.accelerator}")
        document["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": vm.gpus}]
    if properties.get("resourcePolicies"):
        root = f"projects/{vm.project}/regions/{region}/resourcePolicies"
        document["resourcePolicies"] = [link(f"{root}/{last(url)}") for url in properties["resourcePolicies"]]
    return document
