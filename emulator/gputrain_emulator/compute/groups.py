"""Managed instance groups and resize requests, as a flex-start gang needs them."""

from __future__ import annotations

from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.clock import compute_time
from gputrain_emulator.compute import (
    build,
    checks,
    documents,
    filters,
    lifecycle,
    refusals,
)
from gputrain_emulator.compute.links import in_project, link
from gputrain_emulator.compute.operations import Operation, mutation, scope_of
from gputrain_emulator.compute.refusals import OperationError
from gputrain_emulator.compute.service import COMPUTE
from gputrain_emulator.compute.state import Compute, Vm
from gputrain_emulator.errors import ApiError

Json = dict[str, Any]
MAX_BASE = 58
"""Letters of a group's baseInstanceName (compute v1 reference, read 2026-11-22)."""
REQUESTS = "instanceGroupManagerResizeRequests"


@mutation("compute.instanceGroupManagers.insert", permission="compute.instanceGroupManagers.create")
def insert_group(call: Call) -> Operation:
    """An empty group (``targetSize`` 0), to be filled by resize requests."""
    size = int(call.body.get("targetSize", 0))
    if size:
        raise ApiError.unimplemented("compute.instanceGroupManagers.insert with a targetSize")
    template = in_project(call.body.get("instanceTemplate", ""), call.owner.id)
    if template not in call.world.part(Compute).resources["instanceTemplates"]:
        raise refusals.not_found(template)
    base = call.body.get("baseInstanceName") or call.body.get("name", "")
    if not checks.NAME.fullmatch(base) or len(base) > MAX_BASE:
        raise refusals.invalid(
            "resource.baseInstanceName", base, f"Must be a name of 1 to {MAX_BASE} letters."
        )
    more = {"targetSize": 0, "baseInstanceName": base, "instanceTemplate": link(template)}
    return documents.create(call, "instanceGroupManagers", "instanceGroupManager", **more)


@COMPUTE.method("compute.instanceGroupManagers.get", pool="compute.reads")
def get_group(call: Call) -> Json:
    """One group."""
    return documents.find(call, "instanceGroupManagers", "instance_group_manager")[1]


@COMPUTE.method("compute.instanceGroupManagers.list", pool="compute.reads")
def list_groups(call: Call) -> Json:
    """The groups of a zone."""
    name = f"{scope_of(call)}/instanceGroupManagers"
    table = call.world.part(Compute).resources["instanceGroupManagers"]
    items = [document for path, document in table.items() if path.startswith(f"{name}/")]
    return filters.listing("compute#instanceGroupManagerList", name, items, call.query)


@COMPUTE.method("compute.instanceGroupManagers.listManagedInstances", permission="compute.instanceGroupManagers.get", pool="compute.reads")  # fmt: skip  # noqa: E501
def list_managed(call: Call) -> Json:
    """The VMs of a group."""
    path, _ = documents.find(call, "instanceGroupManagers", "instance_group_manager")
    vms = _members(call.world.part(Compute), path)
    rows = [
        {
            "instance": link(vm.path),
            "id": vm.id,
            "name": vm.name,
            "instanceStatus": vm.status,
            "currentAction": "NONE" if vm.status == "RUNNING" else "CREATING",
        }
        for vm in vms
    ]
    return {"managedInstances": rows} if rows else {}


@mutation("compute.instanceGroupManagers.delete")
def delete_group(call: Call) -> Operation:
    """The group and all its VMs."""
    compute = call.world.part(Compute)
    path, document = documents.find(call, "instanceGroupManagers", "instance_group_manager")
    operation = documents.begin(call, "delete", path, document["id"])
    for vm in _members(compute, path):
        lifecycle.delete(compute, vm, lambda: None, grace_s=0.0, caller=call.caller.email)
    del compute.resources["instanceGroupManagers"][path]
    for name in [name for name in compute.resources[REQUESTS] if name.startswith(f"{path}/")]:
        del compute.resources[REQUESTS][name]
    call.world.ledger.write("delete", path, caller=call.caller.email)
    documents.end_soon(call, operation)
    return operation


@mutation(
    "compute.instanceGroupManagerResizeRequests.insert", permission="compute.instanceGroupManagers.update"
)
def insert_request(call: Call) -> Operation:
    """Ask for ``resizeBy`` VMs, all at once or none."""
    compute = call.world.part(Compute)
    path, group = documents.find(call, "instanceGroupManagers", "instance_group_manager")
    name = str(call.body.get("name", ""))
    checks.name(name, "resource.name")
    resize_by = int(call.body.get("resizeBy", 0))
    if resize_by < 1:
        raise refusals.invalid("resource.resizeBy", resize_by, "Must be greater than or equal to 1.")
    full = f"{path}/resizeRequests/{name}"
    if full in compute.resources[REQUESTS]:
        raise refusals.already_exists(full)
    document = {
        **call.body,
        "kind": "compute#instanceGroupManagerResizeRequest",
        "id": call.world.new_id(),
        "state": "CREATING",
        "selfLink": link(full),
        "creationTimestamp": compute_time(call.world.clock.now()),
        "zone": group["zone"],
    }
    template = compute.resources["instanceTemplates"][in_project(group["instanceTemplate"], call.owner.id)]
    vms = [
        _member(call, group, template, f"{group['baseInstanceName']}-{name}-{number}")
        for number in range(resize_by)
    ]
    compute.resources[REQUESTS][full] = document
    call.world.ledger.write("create", full, caller=call.caller.email, detail=f"resize by {resize_by}")
    operation = documents.begin(call, "insert", full, document["id"])
    documents.end_soon(call, operation)
    call.world.clock.after(compute.settings.quick_s, lambda: _try(call, path, full, vms))
    return operation


def _member(call: Call, group: Json, template: Json, name: str) -> Vm:
    zone = call.params["zone"]
    properties = dict(template.get("properties", {}))
    scheduling = dict(properties.get("scheduling", {}))
    run = call.body.get("requestedRunDuration")
    if run:
        scheduling.setdefault("maxRunDuration", run)
        scheduling.setdefault("instanceTerminationAction", "DELETE")
    properties["scheduling"] = scheduling
    vm = build.build(call, zone=zone, name=name, properties=properties, at="resource.properties", bare=True)
    vm.group = group["selfLink"]
    return vm


def _try(call: Call, group: str, full: str, vms: list[Vm]) -> None:
    """Until there is room for all of them at once."""
    compute = call.world.part(Compute)
    document = compute.resources[REQUESTS].get(full)
    if document is None or document["state"] not in ("CREATING", "ACCEPTED"):
        return
    document["state"] = "ACCEPTED"
    admitted: list[Vm] = []
    for vm in vms:
        short = lifecycle.admit(compute, vm)
        if short is not None:
            for other in admitted:
                lifecycle.release(compute, other)
            document["status"] = {
                "lastAttempt": {"error": {"errors": [dict(error) for error in short.errors]}}
            }
            call.world.clock.after(compute.settings.flex_poll_s, lambda: _try(call, group, full, vms))
            return
        admitted.append(vm)
    left = {"count": len(vms)}

    def done(error: OperationError | None) -> None:
        left["count"] -= 1
        if error is not None:
            document.update(state="FAILED", status={"error": {"errors": [dict(e) for e in error.errors]}})
        elif not left["count"] and document["state"] == "ACCEPTED":
            document["state"] = "SUCCEEDED"

    compute.resources["instanceGroupManagers"][group]["targetSize"] += len(vms)
    for vm in vms:
        lifecycle.appear(compute, vm, "PROVISIONING")
        build.place_disks(compute, vm)
        lifecycle.provision(compute, vm, done)


def _members(compute: Compute, group: str) -> list[Vm]:
    return [vm for vm in compute.vms.values() if vm.group == link(group)]


def _request(call: Call) -> tuple[str, Json]:
    path, _ = documents.find(call, "instanceGroupManagers", "instance_group_manager")
    full = f"{path}/resizeRequests/{call.params['resize_request']}"
    document = call.world.part(Compute).resources[REQUESTS].get(full)
    if document is None:
        raise refusals.not_found(full)
    return full, document


@COMPUTE.method("compute.instanceGroupManagerResizeRequests.get", permission="compute.instanceGroupManagers.get", pool="compute.reads")  # fmt: skip  # noqa: E501
def get_request(call: Call) -> Json:
    """One resize request."""
    return _request(call)[1]


@COMPUTE.method("compute.instanceGroupManagerResizeRequests.list", permission="compute.instanceGroupManagers.get", pool="compute.reads")  # fmt: skip  # noqa: E501
def list_requests(call: Call) -> Json:
    """The resize requests of a group."""
    path, _ = documents.find(call, "instanceGroupManagers", "instance_group_manager")
    table = call.world.part(Compute).resources[REQUESTS]
    items = [document for name, document in table.items() if name.startswith(f"{path}/")]
    return filters.listing(
        "compute#instanceGroupManagerResizeRequestList", f"{path}/resizeRequests", items, call.query
    )


@mutation(
    "compute.instanceGroupManagerResizeRequests.cancel", permission="compute.instanceGroupManagers.update"
)
def cancel_request(call: Call) -> Operation:
    """No longer wait for capacity; only a request that has none yet can be cancelled."""
    full, document = _request(call)
    if document["state"] not in ("CREATING", "ACCEPTED"):
        raise refusals.not_ready(full)
    document["state"] = "CANCELLED"
    operation = documents.begin(call, "cancel", full, document["id"])
    documents.end_soon(call, operation)
    return operation


@mutation(
    "compute.instanceGroupManagerResizeRequests.delete", permission="compute.instanceGroupManagers.update"
)
def delete_request(call: Call) -> Operation:
    """Forget a request that has come to its end."""
    full, document = _request(call)
    if document["state"] in ("CREATING", "ACCEPTED"):
        raise refusals.not_ready(full)
    operation = documents.begin(call, "delete", full, document["id"])
    del call.world.part(Compute).resources[REQUESTS][full]
    documents.end_soon(call, operation)
    return operation
