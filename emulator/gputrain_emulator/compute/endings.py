"""How a VM ends when nobody asked for it: reclaimed, expired, broken, maintained, powered off from inside."""

from __future__ import annotations

from functools import partial

from gputrain_emulator.compute import lifecycle, operations, reserve
from gputrain_emulator.compute.lifecycle import HALTED
from gputrain_emulator.compute.state import Compute, Vm


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
    notice_s = float(vm.resource["scheduling"].get("preemptionNoticeDuration", {}).get("seconds", 0))
    if notice_s and vm.status == "RUNNING":
        end = partial(_end_by_itself, compute, vm, grace_s=grace_s)
        vm.timers.append(compute.world.clock.after(notice_s, end))
    else:
        _end_by_itself(compute, vm, grace_s=grace_s)


def expire(compute: Compute, vm: Vm) -> None:
    """maxRunDuration or terminationTime is reached."""
    stays_off = vm.action_at_expiry != "DELETE" or not compute.settings.stopped_vm_expires
    if vm.dying or compute.vms.get(vm.key) is not vm or (vm.status in HALTED and stays_off):
        return
    kind = "deferredDelete" if vm.action_at_expiry == "DELETE" else "deferredStop"
    _system(compute, vm, f"compute.instances.{kind}", "Instance reached its run-time limit.", "time-limit")
    _end_by_itself(compute, vm, grace_s=compute.settings.acpi_s)


def host_error(compute: Compute, vm: Vm) -> None:
    """The host is lost this instant; the VM comes back when it is to restart by itself."""
    if vm.dying or vm.status in HALTED:
        return
    _system(
        compute, vm, "compute.instances.hostError", "Instance terminated by Compute Engine.", "host-error"
    )
    lifecycle.cancel_timers(vm)
    compute.world.runtime.power_off(vm)
    lifecycle.finish(vm, lifecycle.vanished(vm))
    if vm.on_halt is not None:  # it was stopping anyway
        lifecycle.halted(vm)
        return
    lifecycle.terminated(compute, vm)
    _restart(compute, vm)


def maintain(compute: Compute, vm: Vm) -> None:
    """Host maintenance: a GPU VM is shut down and, when it is to restart by itself, comes back."""
    if vm.status != "RUNNING":  # what stops or is deleted anyway goes on doing so
        return
    compute.world.runtime.maintain(vm)
    sentence = "Instance terminated due to host maintenance."
    _system(compute, vm, "compute.instances.terminateOnHostMaintenance", sentence, "maintenance")
    lifecycle.stop(compute, vm, lambda: _restart(compute, vm), grace_s=compute.settings.acpi_s)


def guest_terminated(compute: Compute, vm: Vm) -> None:
    """The guest powered itself off: TERMINATED, and its disks go on billing."""
    if vm.status != "RUNNING":
        return
    sentence = "Instance terminated by guest OS shutdown."
    _system(compute, vm, "compute.instances.guestTerminate", sentence, "guest-terminate")
    lifecycle.cancel_timers(vm)
    lifecycle.terminated(compute, vm)


def _end_by_itself(compute: Compute, vm: Vm, *, grace_s: float) -> None:
    if vm.dying:
        return
    if vm.action_at_expiry == "DELETE":
        lifecycle.delete(compute, vm, lambda: None, grace_s=grace_s)
    elif vm.status not in HALTED:
        lifecycle.stop(compute, vm, lambda: None, grace_s=grace_s)


def _restart(compute: Compute, vm: Vm) -> None:
    if not vm.restarts or vm.key not in compute.vms:
        return
    sentence = "Instance was automatically restarted."
    _system(compute, vm, "compute.instances.automaticRestart", sentence, "automatic-restart")
    lifecycle.start(compute, vm, lambda _: None)


def _system(compute: Compute, vm: Vm, kind: str, message: str, event: str) -> None:
    operations.system(compute, scope=vm.scope, kind=kind, target=vm.path, target_id=vm.id, message=message)
    compute.world.ledger.write(event, vm.path)
