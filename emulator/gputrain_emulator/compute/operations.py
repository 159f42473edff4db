"""Compute Engine's operations: begun by every mutation, ended by the clock, read by three collections."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.call import Call
from gputrain_emulator.clock import compute_time, parse_time
from gputrain_emulator.compute import filters, refusals
from gputrain_emulator.compute.links import link
from gputrain_emulator.compute.refusals import OperationError
from gputrain_emulator.compute.state import COMPUTE, Compute, Operation
from gputrain_emulator.faults import OperationFails, Phase

_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_NIL = "00000000-0000-0000-0000-000000000000"


def begin(
    compute: Compute,
    *,
    scope: str,
    kind: str,
    target: str,
    target_id: str = "",
    user: str = "system",
    request_id: str = "",
    group: str = "",
) -> Operation:
    """A new RUNNING operation of type ``kind`` on ``target`` (both relative names)."""
    world = compute.world
    now = world.clock.now()
    prefix = "systemevent" if user == "system" else "operation"
    serial = world.new_id()
    name, stamp = f"{prefix}-{int(now * 1000)}-{serial[-13:]}-{serial[:8]}", compute_time(now)
    document: dict[str, Any] = {
        "kind": "compute#operation",
        "id": serial,
        "name": name,
        "operationType": kind,
        "targetLink": link(target),
        "targetId": target_id or "0",
        "status": "RUNNING",
        "user": "system@google.com" if user == "system" else user,
        "progress": 0,
        "insertTime": stamp,
        "startTime": stamp,
        "selfLink": link(f"{scope}/operations/{name}"),
    }
    kind_of_place = scope.split("/")[2]
    if kind_of_place in ("zones", "regions"):
        document[kind_of_place.removesuffix("s")] = link(scope)
    if request_id:
        document["clientOperationId"] = request_id
    if group:
        document["operationGroupId"] = group
    operation = Operation(scope=scope, document=document)
    compute.operations[operation.path] = operation
    return operation


def begin_for(call: Call, kind: str, target: str, target_id: str = "", *, group: str = "") -> Operation:
    """The caller's operation on a resource of the call's scope."""
    return begin(
        call.world.part(Compute),
        scope=scope_of(call),
        kind=kind,
        target=target,
        target_id=target_id,
        user=call.caller.email,
        request_id="" if group else call.query.get("requestId", ""),
        group=group,
    )


def carry_out(
    call: Call,
    operation: Operation,
    act: Callable[[Callable[[], None]], None] | None = None,
) -> Operation:
    """Begin what ends an operation, or end it in a moment; a failure that a test ordered comes instead."""
    compute, failure = call.world.part(Compute), ordered_failure(call)
    if failure is None and act is not None:
        act(lambda: end(compute, operation))
    else:
        call.world.clock.after(compute.settings.quick_s, lambda: end(compute, operation, failure))
    return operation


def end(compute: Compute, operation: Operation, error: OperationError | None = None) -> None:
    """The operation is DONE, well or with ``error``; ending it twice changes nothing."""
    if operation.done:
        return
    world = compute.world
    operation.document.update(status="DONE", progress=100, endTime=compute_time(world.clock.now()))
    if error is not None:
        operation.document.update(error.fields)
    world.clock.changed()


def ordered_failure(call: Call) -> OperationError | None:
    """The asynchronous failure that a test ordered for this call."""
    for fault in call.world.faults.take(call.method.id, call.caller.email, Phase.OPERATION):
        if isinstance(fault, OperationFails):
            return OperationError(
                errors=[dict(error) for error in fault.errors], http_status=fault.http_status
            )
    return None


Mutation = Callable[[Call], Operation]


def mutation(method_id: str, *, permission: str = "") -> Callable[[Mutation], Mutation]:
    """Register a handler that begins an operation; a repeated ``requestId`` gets the first one."""

    def register(handler: Mutation) -> Mutation:
        @COMPUTE.method(method_id, permission=permission, pool="compute.writes")
        @functools.wraps(handler)
        def answer(call: Call) -> dict[str, Any]:
            compute = call.world.part(Compute)
            request_id = call.query.get("requestId", "")
            if request_id and (not _UUID.fullmatch(request_id) or request_id == _NIL):
                raise refusals.invalid("requestId", request_id, "Must be a valid non-zero UUID.")
            key = (call.path, method_id, request_id)
            since, operation = compute.request_ids.get(key, (0.0, None))
            now = call.world.clock.now()
            if operation is None or now - since >= compute.settings.request_id_window_s:
                operation = handler(call)
                if request_id:
                    compute.request_ids[key] = now, operation
            return dict(operation.document)

        return handler

    return register


def scope_of(call: Call) -> str:
    """``projects/p/zones/z``, ``projects/p/regions/r`` or ``projects/p/global`` of the call's path."""
    params = call.params
    for kind, known in (("zone", facts.zones()), ("region", facts.regions())):
        if kind in params:
            if params[kind] not in known:
                raise refusals.invalid(kind, params[kind], f"Unknown {kind}.")
            return f"projects/{call.owner.id}/{kind}s/{params[kind]}"
    return f"projects/{call.owner.id}/global"


def _find(call: Call) -> Operation:
    scope, wanted = scope_of(call), call.params["operation"]
    name, known = f"{scope}/operations/{wanted}", call.world.part(Compute).operations
    if name not in known:
        raise refusals.not_found(name)
    return known[name]


def _get(call: Call) -> dict[str, Any]:
    return _find(call).document


def _wait(call: Call) -> dict[str, Any]:
    operation = _find(call)
    call.world.clock.wait_for(lambda: operation.done, call.world.part(Compute).settings.wait_s)
    return operation.document


def _list(call: Call) -> dict[str, Any]:
    scope, every = scope_of(call), call.world.part(Compute).operations.values()
    here = (o.document for o in every if o.scope == scope)
    items = [one for one in here if call.shows(parse_time(one["insertTime"]))]
    return filters.listing(call, "operation", f"{scope}/operations", items)


for _group in ("zoneOperations", "regionOperations", "globalOperations"):
    COMPUTE.method(f"compute.{_group}.get", pool="compute.operation_reads")(_get)
    COMPUTE.method(f"compute.{_group}.list", pool="compute.reads")(_list)
    COMPUTE.method(f"compute.{_group}.wait", permission=f"compute.{_group}.get", pool="compute.heavy_reads")(
        _wait
    )


@COMPUTE.method(
    "compute.globalOperations.aggregatedList",
    permission="compute.globalOperations.list",
    pool="compute.heavy_reads",
)
def aggregated(call: Call) -> dict[str, Any]:
    """Every operation of the project, by scope."""
    every, root = call.world.part(Compute).operations.values(), f"projects/{call.owner.id}/"
    return filters.aggregated(call, "operation", [o.document for o in every if o.scope.startswith(root)])
