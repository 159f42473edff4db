"""instances.bulkInsert and regionInstances.bulkInsert: a gang of VMs, all or (after a while) none."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.compute import build, checks, instances, lifecycle, operations, refusals
from gputrain_emulator.compute.links import last
from gputrain_emulator.compute.operations import mutation
from gputrain_emulator.compute.refusals import OperationError
from gputrain_emulator.compute.state import Compute, Operation, Vm
from gputrain_emulator.errors import ApiError, Style, error_info

Json = dict[str, Any]
AT = "resource.instanceProperties"
MAX_VMS = 1000
"""VMs in one bulkInsert (published)."""


@dataclass(kw_only=True)
class Gang:
    """A bulkInsert under way."""

    call: Call
    operation: Operation
    zone: str
    wanted: int
    least: int
    members: list[Vm] = field(default_factory=list)
    made: int = 0
    deleted: int = 0
    errors: list[OperationError] = field(default_factory=list)

    def report(self, status: str) -> None:
        """Write the progress into the parent operation."""
        place = {
            "status": status, "targetVmCount": self.wanted, "createdVmCount": self.made,
            "failedToCreateVmCount": len(self.errors), "deletedVmCount": self.deleted,
        }  # fmt: skip
        metadata = {"perLocationStatus": {f"zones/{self.zone}": place}}
        self.operation.document["instancesBulkInsertOperationMetadata"] = metadata


@mutation("compute.instances.bulkInsert", permission="-")
def bulk_insert(call: Call) -> Operation:
    """A gang in one zone."""
    compute, body, zone = call.world.part(Compute), call.body, instances.find_zone(call)
    scope = operations.scope_of(call)
    names = _names(compute, call.owner.id, zone, body)
    wanted = len(names)
    least = int(body.get("minCount", wanted))
    if not 1 <= least <= wanted:
        raise refusals.invalid("resource.minCount", least, "Must be between 1 and count.")
    properties = body.get("instanceProperties", {})
    members = [
        build.build(call, zone=zone, name=name, properties=properties, at=AT, bare=True) for name in names
    ]
    _refuse_crowd(compute, call)
    operation = operations.begin(
        compute, scope=scope, kind="bulkInsert", target=f"{scope}/instances", user=call.caller.email,
        request_id=call.query.get("requestId", ""), group=f"{call.world.new_id()}-{call.world.new_id()[-8:]}",
    )  # fmt: skip
    gang = Gang(call=call, operation=operation, zone=zone, wanted=wanted, least=least, members=members)
    gang.report("CREATING")
    for vm in members:
        _launch(gang, vm)
    return operation


def _refuse_crowd(compute: Compute, call: Call) -> None:
    """403 when the project runs as many bulkInserts as it may."""
    root = f"projects/{call.owner.id}/"
    here = (o for o in compute.operations.values() if not o.done and o.scope.startswith(root))
    running = sum(o.document["operationType"] == "bulkInsert" for o in here)
    if running < compute.settings.concurrent_bulk_operations:
        return
    facts = {"containerType": "PROJECT", "containerId": call.owner.number, "location": "global"}
    reason = "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED"
    detail = error_info(reason, "compute.googleapis.com", Style.COMPUTE, **facts)
    raise ApiError(
        403, "Rate Limit Exceeded", reason="rateLimitExceeded", domain="usageLimits", details=[detail]
    )


def _names(compute: Compute, project: str, zone: str, body: Json) -> list[str]:
    count = int(body.get("count", 0))
    own = [
        str(entry.get("name") or last(key)) for key, entry in body.get("perInstanceProperties", {}).items()
    ]
    refusals.unless_between("resource.count", count, 1, MAX_VMS)
    pattern = body.get("namePattern", "")
    if own:
        if pattern:
            raise refusals.invalid(
                "resource.namePattern", pattern, "Cannot be combined with perInstanceProperties."
            )
        if len(own) != count:
            raise refusals.invalid(
                "resource.count", count, f"Must equal the number of perInstanceProperties ({len(own)})."
            )
        return _shuffled(compute, own)
    match = re.fullmatch(r"([a-z][-a-z0-9]*?)(#{1,18})", pattern)
    if match is None:
        raise refusals.invalid(
            "resource.namePattern", pattern, "Must contain one sequence of '#' at its end."
        )
    prefix, width = match.group(1), len(match.group(2))
    taken = [int(n[len(prefix) :]) for (p, z, n) in compute.vms if (p, z) == (project, zone) and re.fullmatch(rf"{re.escape(prefix)}[0-9]{{{width},}}", n)]  # fmt: skip  # noqa: E501
    first = max(taken, default=0) + 1
    names = [f"{prefix}{number:0{width}d}" for number in range(first, first + count)]
    checks.name(names[-1], "resource.namePattern")
    return names


def _shuffled(compute: Compute, names: list[str]) -> list[str]:
    """Nobody is told which come first where room is short; the same in a world of the same requests.

    The map that they come in has no order: that of protobuf's differs from process to process.
    """
    salt = len(compute.operations)
    return sorted(names, key=lambda name: (zlib.crc32(f"{salt} {name}".encode()), name))


def _launch(gang: Gang, vm: Vm) -> None:
    compute = gang.call.world.part(Compute)
    group = str(gang.operation.document["operationGroupId"])
    child = operations.begin_for(gang.call, "insert", vm.path, vm.id, group=group)

    def done(error: OperationError | None) -> None:
        operations.end(compute, child, error)
        if error is None:
            gang.made += 1
        else:
            gang.errors.append(error)
        gang.report("CREATING")
        if gang.made + len(gang.errors) == gang.wanted:
            _settle(gang)

    vm.group = group
    instances.launch(gang.call, vm, done)


def _settle(gang: Gang) -> None:
    """All members are made or failed: done, or roll back what was made."""
    compute = gang.call.world.part(Compute)
    if gang.made >= gang.least:
        gang.report("DONE")
        operations.end(compute, gang.operation)
        return
    made = [vm for vm in gang.members if compute.vms.get(vm.key) is vm and not vm.dying]
    gang.report("ROLLING_BACK" if made else "DONE")
    first = gang.errors[0]
    error = OperationError(
        errors=[refusals.min_count(gang.least), *first.errors], http_status=first.http_status or 503
    )
    operations.end(compute, gang.operation, error)
    for vm in made:
        compute.world.clock.after(compute.settings.rollback_s, lambda vm=vm: _roll_back(gang, vm))  # type: ignore[misc]


def _roll_back(gang: Gang, vm: Vm) -> None:
    compute = gang.call.world.part(Compute)
    if compute.vms.get(vm.key) is not vm:
        return
    compute.world.ledger.write("roll-back", vm.path)

    def gone() -> None:
        gang.deleted += 1
        gang.report("DONE" if gang.deleted == gang.made else "ROLLING_BACK")

    lifecycle.delete(compute, vm, gone, grace_s=0.0)
