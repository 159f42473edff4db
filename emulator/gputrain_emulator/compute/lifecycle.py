"""The life of a VM, from its insert to its delete. Everything here runs under the world's lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gputrain_emulator import facts
from gputrain_emulator.clock import compute_time
from gputrain_emulator.compute import networks, operations, refusals, reserve
from gputrain_emulator.compute.links import relative
from gputrain_emulator.compute.refusals import OperationError
from gputrain_emulator.compute.state import Compute, Vm

Done = Callable[[OperationError | None], None]

CPU_PLATFORMS = {
    "n1": "Intel Skylake", "e2": "Intel Broadwell", "g2": "Intel Cascade Lake", "a2": "Intel Cascade Lake",
    "a3": "Intel Sapphire Rapids", "a4": "Intel Emerald Rapids", "a4x": "NVIDIA Grace", "g4": "AMD Turin",
}  # fmt: skip
"""Of a family that has several, one (docs.cloud.google.com/compute/docs/cpu-platforms, unverified)."""
_NO_PLATFORM = "Unknown CPU Platform"

HALTED = ("TERMINATED", "STOPPED", "SUSPENDED")


def admit(compute: Compute, vm: Vm) -> OperationError | None:
    """Take capacity and quota for ``vm``, looked at in this order, or say what is missing."""
    short = reserve.capacity_error(compute, vm)
    if short is None:
        exceeded = compute.quotas.exceeded((*vm.needs, *reserve.of_new(vm)))
        if exceeded is not None:
            return refusals.quota_later(exceeded)
        compute.quotas.take(vm.needs)
        vm.holds_quota = True
        reserve.take(compute, vm)
    return short


def appear(compute: Compute, vm: Vm, status: str) -> None:
    """The VM is there to be seen."""
    vm.created_at = compute.world.clock.now()
    compute.vms[vm.key] = vm
    _set_status(compute, vm, status)
    detail = f"{vm.machine.name} {vm.model.lower()}"
    compute.world.ledger.write("create", vm.path, caller=vm.caller, detail=detail)


def provision(compute: Compute, vm: Vm, done: Done) -> None:
    """From PROVISIONING over STAGING to RUNNING; ``done(None)`` at the end."""
    vm.unfinished = done
    networks.give_outside(compute, vm.resource)
    _set_status(compute, vm, "PROVISIONING")

    def stage() -> None:
        _set_status(compute, vm, "STAGING")
        _later(compute, vm, compute.settings.staging_s, lambda: _run(compute, vm))

    _later(compute, vm, compute.settings.provision_s, stage)


def _run(compute: Compute, vm: Vm) -> None:
    clock, ledger = compute.world.clock, compute.world.ledger
    price = facts.price_usd_h(vm.machine.name, facts.region_of(vm.zone), vm.model)
    ledger.start_meter(vm.path, price)
    ledger.write("start", vm.path, detail=f"{price:.2f} USD/h" if price else "price unknown")
    vm.resource["cpuPlatform"] = CPU_PLATFORMS.get(vm.machine.family, _NO_PLATFORM)
    vm.resource["lastStartTimestamp"] = compute_time(clock.now())
    _set_status(compute, vm, "RUNNING")
    _set_deadline(compute, vm)
    compute.world.runtime.boot(vm)
    finish(vm, None)


def fail_create(compute: Compute, vm: Vm, error: OperationError, done: Done) -> None:
    """The VM shows as PROVISIONING and then is gone; its name stays taken for a while."""
    vm.unfinished = done
    _set_status(compute, vm, "PROVISIONING")

    def vanish() -> None:
        code = str(error.errors[0].get("code", ""))
        compute.world.ledger.write("fail", vm.path, caller=vm.caller, detail=code)
        _bury(compute, vm)
        compute.held_names[vm.key] = compute.world.clock.now() + compute.settings.name_hold_s
        finish(vm, error)

    _later(compute, vm, compute.settings.provision_s, vanish)


def queue(compute: Compute, vm: Vm, done: Done) -> None:
    """A flex-start VM is PENDING until there is capacity, or until its request is no longer valid."""
    vm.unfinished = done
    _set_status(compute, vm, "PENDING")
    expires = compute.world.clock.now() + vm.valid_for_s

    def look() -> None:
        short = admit(compute, vm)
        left = expires - compute.world.clock.now()
        if short is None:
            provision(compute, vm, done)
        elif left <= 0:
            fail_create(compute, vm, short, done)
        else:
            _later(compute, vm, min(compute.settings.flex_poll_s, left), look)

    look()


def start(compute: Compute, vm: Vm, done: Done) -> None:
    """A halted VM boots again, or fails to: a stopped flex-start VM does not queue."""
    short = admit(compute, vm)
    if short is None:
        compute.world.ledger.write("restart", vm.path)
        provision(compute, vm, done)
        return
    _set_status(compute, vm, "PROVISIONING")
    vm.unfinished = done

    def fall_back() -> None:
        _set_status(compute, vm, "TERMINATED")
        finish(vm, short)

    _later(compute, vm, compute.settings.provision_s, fall_back)


def stop(compute: Compute, vm: Vm, then: Callable[[], None], *, grace_s: float) -> None:
    """STOPPING, then TERMINATED, then ``then()``."""

    def off() -> None:
        terminated(compute, vm)
        then()

    _halt(compute, vm, off, grace_s=grace_s)


def delete(
    compute: Compute, vm: Vm, then: Callable[[], None], *, grace_s: float, caller: str = "system"
) -> None:
    """STOPPING, then gone with its autoDelete disks, then ``then()``."""

    vm.at_burial.append(then)
    if vm.dying:
        return
    vm.dying = True

    def gone() -> None:
        compute.world.ledger.write("delete", vm.path, caller=caller)
        _bury(compute, vm)

    def wind_up() -> None:
        compute.world.ledger.stop_meter(vm.path)
        _set_status(compute, vm, "STOPPING")
        _later(compute, vm, compute.settings.delete_s, gone)

    if vm.status in HALTED:
        wind_up()
    else:
        _halt(compute, vm, wind_up, grace_s=grace_s)


def _halt(compute: Compute, vm: Vm, then: Callable[[], None], *, grace_s: float) -> None:
    runtime = compute.world.runtime
    if vm.on_halt is not None:
        earlier = vm.on_halt

        def both() -> None:
            earlier()
            then()

        vm.on_halt = both
        return
    was_running = vm.status == "RUNNING"
    cancel_timers(vm)
    finish(vm, vanished(vm))
    vm.on_halt = then
    _set_status(compute, vm, "STOPPING")
    if not was_running:
        vm.halted()
        return
    runtime.shut_down(vm, grace_s)
    limit = grace_s + 1.0 if runtime.is_real else min(grace_s, compute.settings.stop_s)

    def force() -> None:
        runtime.power_off(vm)
        vm.halted()

    _later(compute, vm, limit, force)


def terminated(compute: Compute, vm: Vm) -> None:
    """The VM is off: it stops billing, and its quota and capacity are free."""
    compute.world.ledger.stop_meter(vm.path)
    compute.world.ledger.write("stop", vm.path)
    vm.resource["lastStopTimestamp"] = compute_time(compute.world.clock.now())
    release(compute, vm)
    networks.take_outside(vm.resource)
    vm.resource.get("resourceStatus", {}).pop("scheduling", None)
    vm.resource["cpuPlatform"] = _NO_PLATFORM
    _set_status(compute, vm, "TERMINATED")


def _set_deadline(compute: Compute, vm: Vm) -> None:
    clock = compute.world.clock
    if vm.deadline is not None:
        vm.deadline.cancel()
    if "maxRunDuration" not in vm.scheduling:
        return
    when = clock.now() + float(vm.scheduling["maxRunDuration"].get("seconds", 0))
    vm.resource.setdefault("resourceStatus", {})["scheduling"] = {"terminationTimestamp": compute_time(when)}
    vm.deadline = clock.at(when, partial(expire, compute, vm))


def _bury(compute: Compute, vm: Vm) -> None:
    cancel_timers(vm)
    if vm.deadline is not None:
        vm.deadline.cancel()
    compute.world.ledger.stop_meter(vm.path)
    compute.world.runtime.power_off(vm)
    release(compute, vm)
    for disk in vm.resource.get("disks", ()):
        name, disks = relative(disk.get("source", "")), compute.resources["disks"]
        if disk.get("autoDelete") and name in disks:
            compute.quotas.release(reserve.of_disk(disks.pop(name)))
            compute.world.ledger.write("delete", name)
        elif name in disks:
            disks[name].pop("users", None)
    vm.deleted_at = compute.world.clock.now()
    if compute.vms.get(vm.key) is vm:
        del compute.vms[vm.key]
    compute.bury(vm)
    for action in vm.at_burial:
        action()
    compute.world.clock.changed()


def release(compute: Compute, vm: Vm) -> None:
    """Give back the quota and the capacity that ``admit`` took."""
    if vm.holds_quota:
        compute.quotas.release(vm.needs)
        vm.holds_quota = False
    reserve.give_back(compute, vm)


def vanished(vm: Vm) -> OperationError:
    """How an insert ends when its VM is gone before it runs."""
    sentence = f"The resource '{vm.path}' was not found"
    return refusals.operation_error("RESOURCE_NOT_FOUND", sentence, http_status=404)


def finish(vm: Vm, error: OperationError | None) -> None:
    """End the insert or start operation that still runs."""
    done, vm.unfinished = vm.unfinished, None
    if done is not None:
        done(error)


def _later(compute: Compute, vm: Vm, seconds: float, action: Callable[[], None]) -> None:
    vm.timers = [timer for timer in vm.timers if timer.action is not None]
    vm.timers.append(compute.world.clock.after(seconds, action))


def cancel_timers(vm: Vm) -> None:
    """Nothing that was to happen to the VM by itself happens any more."""
    for timer in vm.timers:
        timer.cancel()
    vm.timers.clear()


def _set_status(compute: Compute, vm: Vm, status: str) -> None:
    vm.resource["status"] = status
    compute.world.clock.changed()


# how a VM ends when nobody asked for it: reclaimed, expired, broken, maintained, powered off from inside


def preempt(compute: Compute, vm: Vm, *, to_stock: bool = False) -> None:
    """Google reclaims a Spot VM: the notice, 30 s of grace, then what its termination action says.

    ``scheduling.preemptionNoticeDuration`` lies between the notice and the power button. The capacity goes to
    whoever wanted it, unless ``to_stock``.
    """
    if vm.dying or vm.status in HALTED:
        return
    _system(compute, vm, "compute.instances.preempted", "Instance was preempted.", "preempt")
    if vm.status == "RUNNING":
        compute.world.runtime.preempt(vm)
    if not to_stock:
        reserve.give_back(compute, vm, to_stock=False)
    grace_s = compute.settings.acpi_spot_s
    notice_s = float(vm.scheduling.get("preemptionNoticeDuration", {}).get("seconds", 0))
    if notice_s and vm.status == "RUNNING":
        end = partial(_end_by_itself, compute, vm, grace_s=grace_s)
        vm.timers.append(compute.world.clock.after(notice_s, end))
    else:
        _end_by_itself(compute, vm, grace_s=grace_s)


def expire(compute: Compute, vm: Vm) -> None:
    """maxRunDuration or terminationTime is reached."""
    if vm.dying or compute.vms.get(vm.key) is not vm or vm.status in HALTED:
        return
    kind = "deferredDelete" if vm.is_deleted_at_expiry else "deferredStop"
    _system(compute, vm, f"compute.instances.{kind}", "Instance reached its run-time limit.", "time-limit")
    _end_by_itself(compute, vm, grace_s=compute.settings.acpi_s)


def host_error(compute: Compute, vm: Vm) -> None:
    """The host is lost this instant; the VM comes back when it is to restart by itself."""
    if vm.dying or vm.status in HALTED:
        return
    _system(
        compute, vm, "compute.instances.hostError", "Instance terminated by Compute Engine.", "host-error"
    )
    cancel_timers(vm)
    compute.world.runtime.power_off(vm)
    finish(vm, vanished(vm))
    if vm.on_halt is not None:  # it was stopping anyway
        vm.halted()
        return
    terminated(compute, vm)
    _restart(compute, vm)


def maintain(compute: Compute, vm: Vm) -> None:
    """Host maintenance: a GPU VM is shut down and, when it is to restart by itself, comes back."""
    if vm.status != "RUNNING":  # what stops or is deleted anyway goes on doing so
        return
    compute.world.runtime.maintain(vm)
    sentence = "Instance terminated due to host maintenance."
    _system(compute, vm, "compute.instances.terminateOnHostMaintenance", sentence, "maintenance")
    stop(compute, vm, lambda: _restart(compute, vm), grace_s=compute.settings.acpi_s)


def guest_terminated(compute: Compute, vm: Vm) -> None:
    """The guest powered itself off: TERMINATED, and its disks go on billing."""
    if vm.status != "RUNNING":
        return
    sentence = "Instance terminated by guest OS shutdown."
    _system(compute, vm, "compute.instances.guestTerminate", sentence, "guest-terminate")
    cancel_timers(vm)
    terminated(compute, vm)


def _end_by_itself(compute: Compute, vm: Vm, *, grace_s: float) -> None:
    if vm.dying:
        return
    if vm.is_deleted_at_expiry:
        delete(compute, vm, lambda: None, grace_s=grace_s)
    elif vm.status not in HALTED:
        stop(compute, vm, lambda: None, grace_s=grace_s)


def _restart(compute: Compute, vm: Vm) -> None:
    if not vm.scheduling["automaticRestart"] or vm.key not in compute.vms:
        return
    sentence = "Instance was automatically restarted."
    _system(compute, vm, "compute.instances.automaticRestart", sentence, "automatic-restart")
    start(compute, vm, lambda _: None)


def _system(compute: Compute, vm: Vm, kind: str, message: str, event: str) -> None:
    """An operation of Google's own, done at once."""
    operation = operations.begin(compute, scope=vm.scope, kind=kind, target=vm.path, target_id=vm.id)
    operation.document["statusMessage"] = message
    operations.end(compute, operation)
    compute.world.ledger.write(event, vm.path)
