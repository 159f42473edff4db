"""Managed instance groups and their resize requests, as nodes in the flex-start queue need them.

A group is empty at first and without repairs. A request is ``CREATING`` until the group has taken it on,
``ACCEPTED`` in the queue, then ``SUCCEEDED``, ``FAILED`` or ``CANCELLED``: all VMs at once, as soon as
there is room for all of them. Rules and words: "About resize requests in a MIG", "Cancel or delete resize
requests", the compute v1 reference and GKE's autoscaler, read 2026-11-22.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.clock import compute_time
from gputrain_emulator.compute import build, checks, documents, filters, lifecycle, operations, refusals
from gputrain_emulator.compute.checks import model_of
from gputrain_emulator.compute.links import fingerprint, in_project, link
from gputrain_emulator.compute.operations import mutation
from gputrain_emulator.compute.refusals import OperationError
from gputrain_emulator.compute.state import COMPUTE, Compute, Operation, Vm
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


@mutation("compute.instanceGroupManagers.delete")
def delete_group(call: Call) -> Operation:
    """The group, its requests and all its VMs; one that makes VMs just now is done with that first."""
    compute = call.world.part(Compute)
    path, document = documents.find(call, GROUPS, "instance_group_manager")
    operation = operations.begin_for(call, "delete", path, document["id"])
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


QUEUED = ("CREATING", "ACCEPTED")


@dataclass(kw_only=True)
class Queued:
    """A request under way."""

    call: Call
    group: str
    path: str
    build: Callable[[], list[Vm]]
    vms: list[Vm] = field(default_factory=list)
    """As they will be; none of them is there while it waits."""
    made: int = 0
    is_served: bool = False
    """Its VMs are being made, so it is too late to cancel it."""

    @property
    def compute(self) -> Compute:
        return self.call.world.part(Compute)

    @property
    def document(self) -> Json | None:
        """Of the request, while it waits and its group is there."""
        found = self.compute.resources[REQUESTS].get(self.path)
        return found if found is not None and found["state"] in QUEUED else None

    def resize(self, by: int) -> None:
        """Change what the group is to hold."""
        group = self.compute.resources[GROUPS].get(self.group)
        if group is not None:
            group["targetSize"] += by


def serve(queued: Queued) -> None:
    """Until there is room for all of them at once."""
    compute, document = queued.compute, queued.document
    if document is None:
        return
    document["state"] = "ACCEPTED"
    taken = next((vm for vm in queued.vms if vm.key in compute.vms), None)
    if taken is not None:
        sentence = f"The resource '{taken.path}' already exists"
        _made(queued, refusals.operation_error("RESOURCE_ALREADY_EXISTS", sentence, http_status=409))
        return
    admitted: list[Vm] = []
    for vm in queued.vms:
        short = lifecycle.admit(compute, vm)
        if short is not None:
            _wait(queued, document, admitted, short)
            return
        admitted.append(vm)
    queued.is_served = True
    _make(queued)


def _wait(queued: Queued, document: Json, admitted: list[Vm], short: OperationError) -> None:
    """Nothing is kept of what there was room for; but it may be made for a moment, and removed."""
    compute = queued.compute
    document["status"] = {"lastAttempt": {"error": {"errors": [dict(error) for error in short.errors]}}}
    after, poll_s = queued.call.world.clock.after, compute.settings.flex_poll_s
    if not compute.settings.flex_false_starts:
        for vm in admitted:
            lifecycle.release(compute, vm)
        after(poll_s, lambda: serve(queued))
        return
    for vm in admitted:
        operation = _insert(queued, vm)
        done = functools.partial(operations.end, compute, operation)
        lifecycle.provision(compute, vm, done)

    def take_back() -> None:
        for vm in admitted:
            remove(compute, vm, agent_of(queued.call))
        wait_for_names()

    def wait_for_names() -> None:
        if queued.document is None:
            return
        if any(vm.key in compute.vms for vm in queued.vms):
            after(compute.settings.quick_s, wait_for_names)
            return
        queued.vms = queued.build()
        serve(queued)

    after(poll_s, take_back)


def _make(queued: Queued) -> None:
    compute = queued.compute
    for vm in queued.vms:
        operation = _insert(queued, vm)

        def done(error: OperationError | None, operation: Operation = operation) -> None:
            operations.end(compute, operation, error)
            _made(queued, error)

        ordered = build.missing_account(compute, vm)
        if ordered is None:
            lifecycle.provision(compute, vm, done)
        else:
            lifecycle.fail_create(compute, vm, ordered, done)


def _insert(queued: Queued, vm: Vm) -> Operation:
    """The group begins to make one of its VMs."""
    compute, agent = queued.compute, agent_of(queued.call)
    operation = operations.begin(
        compute, scope=vm.scope, kind="insert", target=vm.path, target_id=vm.id, user=agent
    )
    lifecycle.appear(compute, vm, "PROVISIONING")
    build.place_disks(compute, vm)
    return operation


def _made(queued: Queued, error: OperationError | None) -> None:
    """All of them run: it has succeeded. One could not be made: none stays."""
    compute, document = queued.compute, queued.document
    queued.made += error is None
    if document is None:
        return
    if error is None:
        if queued.made == len(queued.vms):
            document["state"] = "SUCCEEDED"
            document.pop("status", None)
            del compute.queued[queued.path]
        return
    document.update(state="FAILED", status={"error": {"errors": [dict(one) for one in error.errors]}})
    del compute.queued[queued.path]
    queued.resize(-len(queued.vms))
    for vm in queued.vms:
        if compute.vms.get(vm.key) is vm:
            remove(compute, vm, agent_of(queued.call))


SHORTEST_S, LONGEST_S = 600, 7 * 86400
"""Of ``requestedRunDuration``: 10 minutes to 7 days (gcloud reference, read 2026-11-22)."""
MOST = 1000
"""VMs of one request (a public guide)."""


@mutation(
    "compute.instanceGroupManagerResizeRequests.insert", permission="compute.instanceGroupManagers.update"
)
def insert_request(call: Call) -> Operation:
    """Ask for ``resizeBy`` VMs, or for those of the names in ``instances``."""
    compute = call.world.part(Compute)
    path, group = documents.find(call, GROUPS, "instance_group_manager")
    name = str(call.body.get("name", ""))
    checks.name(name, "resource.name")
    full = f"{path}/resizeRequests/{name}"
    if full in compute.resources[REQUESTS]:
        raise refusals.already_exists(full)
    names = _names(call.body, group, name)
    template = compute.resources["instanceTemplates"][in_project(group["instanceTemplate"], call.owner.id)]
    _check(call.body, group, template)

    def build_all() -> list[Vm]:
        return [_member(call, group, template, one) for one in names]

    queued = Queued(call=call, group=path, path=full, build=build_all, vms=build_all())
    document = {
        **call.body,
        "kind": "compute#instanceGroupManagerResizeRequest",
        "id": call.world.new_id(),
        "state": "CREATING",
        "resizeBy": len(names),
        "selfLink": link(full),
        "creationTimestamp": compute_time(call.world.clock.now()),
        "zone": group["zone"],
    }
    compute.resources[REQUESTS][full] = document
    call.world.ledger.write("create", full, caller=call.caller.email, detail=f"resize by {len(names)}")
    operation = operations.begin_for(call, "insert", path, group["id"])  # as gcloud knows its target
    operations.carry_out(call, operation)
    queued.resize(len(names))
    compute.queued[full] = queued
    call.world.clock.after(compute.settings.quick_s, lambda: serve(queued))
    return operation


def _names(body: Json, group: Json, request: str) -> list[str]:
    """The VMs to be: named, or numbered."""
    named = [str(one.get("name", "")) for one in body.get("instances", [])]
    count = int(body.get("resizeBy", 0))
    if named and count:
        sentence = "Only one of 'resizeBy' and 'instances' can be specified."
        raise refusals.invalid("resource.resizeBy", count, sentence)
    if len(set(named)) < len(named):
        raise refusals.invalid("resource.instances", "", "Instance names must be unique.")
    found = named or [f"{group['baseInstanceName']}-{request}-{number}" for number in range(count)]
    refusals.unless_between("resource.resizeBy", len(found), 1, MOST)
    return found


def _check(body: Json, group: Json, template: Json) -> None:
    """What Google says of the template and of the group that a request is for."""
    scheduling = template.get("properties", {}).get("scheduling", {})
    model = model_of(scheduling)
    run = body.get("requestedRunDuration")
    if model == "SPOT":
        sentence = "Resize requests are not supported for groups with Spot VMs."
        raise ApiError(400, sentence)
    if run is None and model == "STANDARD":
        raise refusals.invalid("resource.requestedRunDuration", "", "A run duration must be specified.")
    if run is not None:
        field, seconds = "resource.requestedRunDuration.seconds", int(run.get("seconds", 0))
        refusals.unless_between(field, seconds, SHORTEST_S, LONGEST_S, " seconds")
    if model == "FLEX_START" and group["instanceLifecyclePolicy"]["defaultActionOnFailure"] != "DO_NOTHING":
        sentence = (
            "Flex-start VMs need a group with instanceLifecyclePolicy.defaultActionOnFailure DO_NOTHING."
        )
        raise ApiError(400, sentence)


def _member(call: Call, group: Json, template: Json, name: str) -> Vm:
    """A VM of the group, by its template; who made it stands in its metadata."""
    properties = dict(template.get("properties", {}))
    scheduling = dict(properties.get("scheduling", {}))
    run = call.body.get("requestedRunDuration")
    if run:
        scheduling.setdefault("maxRunDuration", run)
        scheduling.setdefault("instanceTerminationAction", "DELETE")
    properties["scheduling"] = scheduling
    made_by = {
        "instance-template": template["selfLink"].partition("/v1/")[2],
        "created-by": group["selfLink"].partition("/v1/")[2],
    }
    items = [
        *properties.get("metadata", {}).get("items", []),
        *({"key": key, "value": value} for key, value in made_by.items()),
    ]
    properties["metadata"] = {"fingerprint": fingerprint(items), "items": items}
    zone = call.params["zone"]
    vm = build.build(call, zone=zone, name=name, properties=properties, at="resource.properties", bare=True)
    vm.group, vm.caller = group["selfLink"], agent_of(call)
    return vm


def _request(call: Call) -> tuple[str, Json]:
    path, _ = documents.find(call, GROUPS, "instance_group_manager")
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
    path, _ = documents.find(call, GROUPS, "instance_group_manager")
    table = call.world.part(Compute).resources[REQUESTS]
    items = [document for name, document in table.items() if name.startswith(f"{path}/")]
    return filters.listing(call, "instanceGroupManagerResizeRequest", f"{path}/resizeRequests", items)


@mutation(
    "compute.instanceGroupManagerResizeRequests.cancel", permission="compute.instanceGroupManagers.update"
)
def cancel_request(call: Call) -> Operation:
    """No longer wait for capacity; only a request that has none yet can be cancelled."""
    compute = call.world.part(Compute)
    full, document = _request(call)
    if document["state"] == "CREATING":
        raise refusals.not_ready(full)
    queued = compute.queued.get(full)
    if queued is None or queued.is_served:
        sentence = "Cancelling resize request that has reached a final state is not possible."
        raise ApiError(412, sentence)
    document["state"] = "CANCELLED"
    document.pop("status", None)
    queued.resize(-len(queued.vms))
    del compute.queued[full]
    return operations.carry_out(call, operations.begin_for(call, "cancel", full, document["id"]))


@mutation(
    "compute.instanceGroupManagerResizeRequests.delete", permission="compute.instanceGroupManagers.update"
)
def delete_request(call: Call) -> Operation:
    """Forget a request that has come to its end."""
    full, document = _request(call)
    if document["state"] in QUEUED:
        raise refusals.not_ready(full)
    operation = operations.begin_for(call, "delete", full, document["id"])
    del call.world.part(Compute).resources[REQUESTS][full]
    return operations.carry_out(call, operation)
