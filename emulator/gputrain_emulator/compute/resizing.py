"""Resize requests: VMs of a group, all of them as soon as there is room, or none.

``CREATING`` until the group has taken it on, ``ACCEPTED`` in the queue, then ``SUCCEEDED``, ``FAILED`` or
``CANCELLED``. Nobody is waited for with a deadline. Rules and words: "About resize requests in a MIG",
"Cancel or delete resize requests" and GKE's autoscaler, read 2026-11-22.
"""

from __future__ import annotations

from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.clock import compute_time
from gputrain_emulator.compute import build, checks, documents, filters, refusals
from gputrain_emulator.compute.groups import GROUPS, REQUESTS, agent_of
from gputrain_emulator.compute.links import fingerprint, in_project, link
from gputrain_emulator.compute.operations import mutation
from gputrain_emulator.compute.queued import QUEUED, Queued, serve
from gputrain_emulator.compute.rules import model_of
from gputrain_emulator.compute.service import COMPUTE
from gputrain_emulator.compute.state import Compute, Operation, Vm
from gputrain_emulator.errors import ApiError

Json = dict[str, Any]
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
    operation = documents.begin(
        call, "insert", path, group["id"]
    )  # gcloud knows that the group is its target
    documents.end_soon(call, operation)
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
    if not 1 <= len(found) <= MOST:
        sentence = f"Must be between 1 and {MOST}."
        raise refusals.invalid("resource.resizeBy", len(found), sentence)
    return found


def _check(body: Json, group: Json, template: Json) -> None:
    """What Google says of the template and of the group that a request is for."""
    scheduling = template.get("properties", {}).get("scheduling", {})
    model = model_of(scheduling)
    run = body.get("requestedRunDuration")
    if model == "SPOT":
        raise _refused("Resize requests are not supported for groups with Spot VMs.")
    if run is None and model == "STANDARD":
        raise refusals.invalid("resource.requestedRunDuration", "", "A run duration must be specified.")
    if run is not None and not SHORTEST_S <= int(run.get("seconds", 0)) <= LONGEST_S:
        sentence = f"Must be between {SHORTEST_S} and {LONGEST_S} seconds."
        raise refusals.invalid("resource.requestedRunDuration.seconds", run.get("seconds", 0), sentence)
    if model == "FLEX_START" and group["instanceLifecyclePolicy"]["defaultActionOnFailure"] != "DO_NOTHING":
        raise _refused("Flex-start VMs need a group with instanceLifecyclePolicy.defaultActionOnFailure DO_NOTHING.")  # fmt: skip  # noqa: E501


def _refused(sentence: str) -> ApiError:
    return ApiError(400, sentence, reason="badRequest")


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
    return filters.listing(
        "compute#instanceGroupManagerResizeRequestList", f"{path}/resizeRequests", items, call.query
    )


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
        raise ApiError(412, sentence, reason="conditionNotMet")
    document["state"] = "CANCELLED"
    document.pop("status", None)
    queued.resize(-len(queued.vms))
    del compute.queued[full]
    operation = documents.begin(call, "cancel", full, document["id"])
    documents.end_soon(call, operation)
    return operation


@mutation(
    "compute.instanceGroupManagerResizeRequests.delete", permission="compute.instanceGroupManagers.update"
)
def delete_request(call: Call) -> Operation:
    """Forget a request that has come to its end."""
    full, document = _request(call)
    if document["state"] in QUEUED:
        raise refusals.not_ready(full)
    operation = documents.begin(call, "delete", full, document["id"])
    del call.world.part(Compute).resources[REQUESTS][full]
    documents.end_soon(call, operation)
    return operation
