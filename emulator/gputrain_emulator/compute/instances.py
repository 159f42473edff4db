"""instances: insert, read, change, stop, start, delete, serial port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.compute import build, checks, filters, lifecycle, operations, refusals
from gputrain_emulator.compute.links import fingerprint, last
from gputrain_emulator.compute.operations import mutation
from gputrain_emulator.compute.refusals import OperationError
from gputrain_emulator.compute.state import COMPUTE, Compute, Operation, Vm
from gputrain_emulator.errors import ApiError

Json = dict[str, Any]


def find_zone(call: Call) -> str:
    """The zone in the path; raises ApiError for one that does not exist."""
    operations.scope_of(call)
    return call.params["zone"]


def find(call: Call) -> Vm:
    """The VM in the path; raises ApiError 404."""
    zone, name = find_zone(call), call.params["instance"]
    vm = call.world.part(Compute).vms.get((call.owner.id, zone, name))
    if vm is None:
        raise refusals.not_found(f"projects/{call.owner.id}/zones/{zone}/instances/{name}")
    return vm


def launch(call: Call, vm: Vm, done: Callable[[OperationError | None], None]) -> None:
    """Put a built VM into the world; ``done`` hears how its creation ends."""
    compute = call.world.part(Compute)
    ordered = operations.ordered_failure(call) or build.missing_account(compute, vm)
    waits = vm.model == "FLEX_START" and vm.valid_for_s > 0 and ordered is None
    short = ordered if ordered or waits else lifecycle.admit(compute, vm)
    lifecycle.appear(compute, vm, "PENDING" if waits else "PROVISIONING")
    build.place_disks(compute, vm)
    if waits:
        lifecycle.queue(compute, vm, done)
    elif short is None:
        lifecycle.provision(compute, vm, done)
    else:
        lifecycle.fail_create(compute, vm, short, done)


@mutation("compute.instances.insert", permission="-")
def insert(call: Call) -> Operation:
    """One VM."""
    compute = call.world.part(Compute)
    properties, zone = call.body, find_zone(call)
    for name in ("sourceInstanceTemplate", "sourceMachineImage"):
        if call.query.get(name) or properties.get(name):
            raise ApiError.unimplemented(f"compute.instances.insert with a {name}")
    if last(properties.get("zone", zone)) != zone:
        raise refusals.invalid("resource.zone", properties["zone"], f"Must be the zone '{zone}' of the path.")
    vm = build.build(
        call, zone=zone, name=properties.get("name", ""), properties=properties, at="resource", bare=False
    )
    operation = operations.begin_for(call, "insert", vm.path, vm.id)
    launch(call, vm, lambda error: operations.end(compute, operation, error))
    return operation


@COMPUTE.method("compute.instances.get", pool="compute.reads")
def get(call: Call) -> Json:
    """One VM as it is now."""
    return find(call).resource


def visible(compute: Compute, project: str, stale_s: float) -> list[Vm]:
    """The VMs a list shows: as of ``stale_s`` ago, and not sharper than the settings' list lag."""
    lag = max(stale_s, compute.settings.list_lag_s)
    living = [vm for vm in compute.vms.values() if vm.project == project]
    if not lag:
        return living
    then = compute.world.clock.now() - lag
    shown = [vm for vm in living if vm.created_at <= then]
    gone = [
        vm for vm in compute.buried if vm.project == project and (vm.deleted_at or 0) > then >= vm.created_at
    ]
    return shown + gone


@COMPUTE.method("compute.instances.list", pool="compute.reads")
def list_instances(call: Call) -> Json:
    """The VMs of a zone."""
    compute, zone = call.world.part(Compute), find_zone(call)
    items = [vm.resource for vm in visible(compute, call.owner.id, call.stale_s) if vm.zone == zone]
    return filters.listing(call, "instance", f"projects/{call.owner.id}/zones/{zone}/instances", items)


@COMPUTE.method(
    "compute.instances.aggregatedList", permission="compute.instances.list", pool="compute.heavy_reads"
)
def aggregated_list(call: Call) -> Json:
    """The VMs of the project, by zone."""
    compute = call.world.part(Compute)
    items = [vm.resource for vm in visible(compute, call.owner.id, call.stale_s)]
    return filters.aggregated(call, "instance", items)


@mutation("compute.instances.delete")
def delete(call: Call) -> Operation:
    """The VM and its autoDelete disks."""
    compute, vm = call.world.part(Compute), find(call)

    def act(end: Callable[[], None]) -> None:
        compute.world.ledger.write("delete-asked", vm.path, caller=call.caller.email)
        lifecycle.delete(compute, vm, end, grace_s=compute.settings.acpi_s, caller=call.caller.email)

    return operations.carry_out(call, operations.begin_for(call, "delete", vm.path, vm.id), act)


@mutation("compute.instances.stop")
def stop(call: Call) -> Operation:
    """Halt the VM; its disks stay."""
    compute, vm = call.world.part(Compute), find(call)
    if vm.dying:
        raise refusals.not_ready(vm.path)

    def act(end: Callable[[], None]) -> None:
        lifecycle.stop(compute, vm, end, grace_s=compute.settings.acpi_s)

    operation = operations.begin_for(call, "stop", vm.path, vm.id)
    return operations.carry_out(call, operation, None if vm.status in lifecycle.HALTED else act)


@mutation("compute.instances.start")
def start(call: Call) -> Operation:
    """Boot a halted VM."""
    compute, vm = call.world.part(Compute), find(call)
    if vm.dying or vm.status in ("STOPPING", "REPAIRING"):
        raise refusals.not_ready(vm.path)
    operation = operations.begin_for(call, "start", vm.path, vm.id)

    def act(_: Callable[[], None]) -> None:
        lifecycle.start(compute, vm, lambda error: operations.end(compute, operation, error))

    return operations.carry_out(call, operation, act if vm.status in lifecycle.HALTED else None)


@mutation("compute.instances.reset")
def reset(call: Call) -> Operation:
    """The reset button: power off, power on."""
    compute, vm = call.world.part(Compute), find(call)
    if vm.status != "RUNNING":
        raise refusals.not_ready(vm.path)
    compute.world.runtime.power_off(vm)
    compute.world.runtime.boot(vm)
    return operations.carry_out(call, operations.begin_for(call, "reset", vm.path, vm.id))


@mutation("compute.instances.setLabels")
def set_labels(call: Call) -> Operation:
    """Other labels, by whoever has read the present ones."""
    vm, labels = find(call), dict(call.body.get("labels", {}))
    if call.body.get("labelFingerprint") != vm.resource["labelFingerprint"]:
        raise ApiError(412, "Labels fingerprint either invalid or resource labels have changed")
    checks.labels(labels, "resource.labels")
    vm.resource.update(labels=labels, labelFingerprint=fingerprint(labels))
    call.world.ledger.write("setLabels", vm.path, caller=call.caller.email)
    return operations.carry_out(call, operations.begin_for(call, "setLabels", vm.path, vm.id))


@mutation("compute.instances.setMetadata")
def set_metadata(call: Call) -> Operation:
    """Other metadata, by whoever has read the present one."""
    vm, items = find(call), call.body.get("items", [])
    if call.body.get("fingerprint") != vm.resource["metadata"]["fingerprint"]:
        raise ApiError(412, "Supplied fingerprint does not match current metadata fingerprint.")
    checks.metadata(call.body, "resource.metadata")
    vm.resource["metadata"] = {"kind": "compute#metadata", "fingerprint": fingerprint(items), "items": items}
    call.world.ledger.write("setMetadata", vm.path, caller=call.caller.email)
    call.world.runtime.metadata_changed(vm)
    return operations.carry_out(call, operations.begin_for(call, "setMetadata", vm.path, vm.id))


@mutation("compute.instances.setTags")
def set_tags(call: Call) -> Operation:
    """Other network tags, by whoever has read the present ones."""
    vm, items = find(call), call.body.get("items", [])
    if call.body.get("fingerprint") != vm.resource["tags"]["fingerprint"]:
        raise ApiError(412, "Supplied fingerprint does not match current tags fingerprint.")
    checks.tags(items, "resource")
    vm.resource["tags"] = {"items": items, "fingerprint": fingerprint(items)}
    call.world.ledger.write("setTags", vm.path, caller=call.caller.email)
    return operations.carry_out(call, operations.begin_for(call, "setTags", vm.path, vm.id))


@COMPUTE.method("compute.instances.getSerialPortOutput", pool="compute.serial_reads")
def get_serial_port_output(call: Call) -> Json:
    """What the guest wrote, from ``start`` on; at most the last MiB is kept."""
    vm = find(call)
    port = int(call.query.get("port", 1))
    refusals.unless_between("port", port, 1, 4)
    data, start, following = vm.serial.read(int(call.query.get("start", 0))) if port == 1 else (b"", 0, 0)
    return {
        "kind": "compute#serialPortOutput",
        "contents": data.decode("utf-8", "replace"),
        "start": str(start),
        "next": str(following),
        "selfLink": f"{vm.resource['selfLink']}/serialPort",
    }
