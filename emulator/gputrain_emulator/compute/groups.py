"""Managed instance groups, as a gang in the flex-start queue needs them: empty at first, without repairs.

Rules and words: "About resize requests in a MIG" and the compute v1 reference, read 2026-11-22.
"""

from __future__ import annotations

from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.compute import checks, documents, lifecycle, operations, refusals
from gputrain_emulator.compute.links import in_project, link
from gputrain_emulator.compute.operations import mutation
from gputrain_emulator.compute.service import COMPUTE
from gputrain_emulator.compute.state import Compute, Operation, Vm
from gputrain_emulator.errors import ApiError

Json = dict[str, Any]
MAX_BASE = 58
"""Letters of a group's baseInstanceName (compute v1 reference, read 2026-11-22)."""
GROUPS, REQUESTS = "instanceGroupManagers", "instanceGroupManagerResizeRequests"


@mutation("compute.instanceGroupManagers.insert", permission="compute.instanceGroupManagers.create")
def insert_group(call: Call) -> Operation:
    """An empty group (``targetSize`` 0), to be filled by resize requests."""
    if int(call.body.get("targetSize", 0)):
        raise ApiError.unimplemented("compute.instanceGroupManagers.insert with a targetSize")
    versions = call.body.get("versions", [])
    if len(versions) > 1:
        raise ApiError.unimplemented("compute.instanceGroupManagers.insert with several versions")
    named = call.body.get("instanceTemplate") or (versions[0].get("instanceTemplate") if versions else "")
    template = in_project(named or "", call.owner.id)
    if template not in call.world.part(Compute).resources["instanceTemplates"]:
        raise refusals.not_found(template)
    if not call.caller.may("compute.instanceTemplates.useReadOnly"):
        raise refusals.permission("compute.instanceTemplates.useReadOnly", template)
    base = call.body.get("baseInstanceName") or call.body.get("name", "")
    if not checks.NAME.fullmatch(base) or len(base) > MAX_BASE:
        raise refusals.invalid(
            "resource.baseInstanceName", base, f"Must be a name of 1 to {MAX_BASE} letters."
        )
    policy = {"defaultActionOnFailure": "REPAIR", **call.body.get("instanceLifecyclePolicy", {})}
    more = {
        "targetSize": 0,
        "baseInstanceName": base,
        "instanceTemplate": link(template),
        "versions": [{**(versions[0] if versions else {}), "instanceTemplate": link(template)}],
        "instanceLifecyclePolicy": policy,
    }
    return documents.create(call, GROUPS, "instanceGroupManager", **more)


documents.register(GROUPS, "instanceGroupManager", "instance_group_manager", deletes=False)


@COMPUTE.method("compute.instanceGroupManagers.listManagedInstances", permission="compute.instanceGroupManagers.get", pool="compute.reads")  # fmt: skip  # noqa: E501
def list_managed(call: Call) -> Json:
    """The VMs of a group."""
    path, _ = documents.find(call, GROUPS, "instance_group_manager")
    rows = [
        {
            "instance": link(vm.path),
            "id": vm.id,
            "name": vm.name,
            "instanceStatus": vm.status,
            "currentAction": "NONE" if vm.status == "RUNNING" else "CREATING",
        }
        for vm in members(call.world.part(Compute), path)
    ]
    return {"managedInstances": rows} if rows else {}


@mutation("compute.instanceGroupManagers.delete")
def delete_group(call: Call) -> Operation:
    """The group, its requests and all its VMs; one that makes VMs just now is done with that first."""
    compute = call.world.part(Compute)
    path, document = documents.find(call, GROUPS, "instance_group_manager")
    operation = documents.begin(call, "delete", path, document["id"])
    agent = agent_of(call)

    def empty() -> None:
        for name in [name for name, one in compute.queued.items() if one.group == path and not one.is_served]:
            del compute.queued[name]
            compute.resources[REQUESTS].pop(name, None)
        if any(vm.unfinished is not None for vm in members(compute, path)):
            call.world.clock.after(compute.settings.quick_s, empty)
            return
        for name in [name for name in compute.resources[REQUESTS] if name.startswith(f"{path}/")]:
            del compute.resources[REQUESTS][name]
        for vm in members(compute, path):
            remove(compute, vm, agent)
        fade()

    def fade() -> None:
        if members(compute, path):
            call.world.clock.after(compute.settings.quick_s, fade)
            return
        if compute.resources[GROUPS].pop(path, None) is not None:
            call.world.ledger.write("delete", path, caller=call.caller.email)
        operations.end(compute, operation)

    call.world.clock.after(compute.settings.quick_s, empty)
    return operation


def agent_of(call: Call) -> str:
    """The Google APIs service agent of the project, which acts for groups."""
    return f"{call.owner.number}@cloudservices.gserviceaccount.com"


def members(compute: Compute, group: str) -> list[Vm]:
    """The VMs of a group that are there."""
    return [vm for vm in compute.vms.values() if vm.group == link(group)]


def remove(compute: Compute, vm: Vm, agent: str) -> None:
    """Delete a VM for its group."""
    if vm.dying:
        return
    operation = operations.begin(
        compute, scope=vm.scope, kind="delete", target=vm.path, target_id=vm.id, user=agent
    )
    grace_s = compute.settings.acpi_s
    lifecycle.delete(compute, vm, lambda: operations.end(compute, operation), grace_s=grace_s, caller=agent)
