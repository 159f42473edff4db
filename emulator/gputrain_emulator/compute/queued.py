"""How resize requests are served: all VMs at once, as soon as there is room for all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.compute import build, lifecycle, operations, refusals
from gputrain_emulator.compute.groups import GROUPS, REQUESTS, agent_of, remove
from gputrain_emulator.compute.refusals import OperationError
from gputrain_emulator.compute.state import Compute, Operation, Vm

Json = dict[str, Any]
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
