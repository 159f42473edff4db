"""What exists in the emulated Compute Engine, its settings, and the registry of its handlers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.clock import Event
from gputrain_emulator.compute.refusals import OperationError
from gputrain_emulator.errors import Style
from gputrain_emulator.quotas import Key as QuotaKey, Quotas
from gputrain_emulator.routes import Service
from gputrain_emulator.world import World

COMPUTE = Service("compute", Style.COMPUTE, is_tabled=True)


@dataclass(kw_only=True)
class Settings:
    """``cloud.compute.settings``, to be changed at any time; seconds are of the emulated clock."""

    provision_s: float = 8.0
    """From insert to STAGING, or to the failure of the operation."""
    staging_s: float = 12.0
    """From STAGING to RUNNING, when the insert operation ends."""
    stop_s: float = 20.0
    """How long a guest takes to halt when nothing real runs in it."""
    delete_s: float = 15.0
    """From halted to gone."""
    quick_s: float = 1.0
    """Label, metadata, disk and policy operations."""
    rollback_s: float = 15.0
    """From the failure of a bulkInsert to the end of the VMs that it had made;
    they exist and bill until then."""
    name_hold_s: float = 10.0
    """How long the name of a failed create stays taken (seen in public threads; the length is not known)."""
    request_id_window_s: float = 3600.0
    """How long a ``requestId`` is remembered. Google promises nothing for Compute;
    AIP-155 says 60 minutes."""
    wait_s: float = 120.0
    """How long ``operations.wait`` waits."""
    list_lag_s: float = 0.0
    """How long a new VM is missing from lists, and a deleted one still in them."""
    acpi_s: float = 120.0
    """From the power button to power off, standard VMs (published)."""
    acpi_spot_s: float = 30.0
    """The same when a Spot VM is reclaimed (published)."""
    concurrent_bulk_operations: int = 10
    """bulkInsert operations of a project that may run at once (published)."""
    flex_poll_s: float = 30.0
    """How often a queued flex-start VM looks for capacity."""
    flex_false_starts: bool = False
    """Make those VMs of a resize request that there is room for, and remove them after ``flex_poll_s``, while
    there is none for all (a guide quotes Google's page as saying that this may happen)."""

    def change(self, values: Mapping[str, object]) -> None:
        """Set some of them; raises LookupError for one there is not, ValueError for one of another type."""
        for name, value in values.items():
            if name not in vars(self):
                raise LookupError(f"no such setting: {name}")
            if not isinstance(value, bool if isinstance(getattr(self, name), bool) else (int, float)):
                raise ValueError(f"{name} is not {value!r}")
        vars(self).update(values)


SERIAL_RING = 1 << 20
"""The serial port keeps its last MiB (published)."""

LONGEST_LAG_S = 600.0
"""Deleted VMs are remembered for this long."""

VmKey = tuple[str, str, str]
"""Project, zone, name."""


@dataclass
class Serial:
    """A VM's serial port: the last MiB of all it ever wrote."""

    kept: bytearray = field(default_factory=bytearray)
    written: int = 0

    def append(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.kept += data
        self.written += len(data)
        del self.kept[:-SERIAL_RING]

    def read(self, start: int) -> tuple[bytes, int, int]:
        """Bytes from ``start``, where they really start, and where the next read goes on."""
        oldest = self.written - len(self.kept)
        begin = max(start if start >= 0 else max(oldest, self.written + start), oldest)
        data = bytes(self.kept[begin - oldest :])
        return data, begin, begin + len(data)


@dataclass(kw_only=True, eq=False)
class Vm:
    """One instance: its document and what it holds."""

    project: str
    zone: str
    name: str
    resource: dict[str, Any]
    """The instance as ``instances.get`` shows it."""
    machine: facts.Machine
    accelerator: str
    gpus: int
    model: str
    """STANDARD, SPOT, FLEX_START or RESERVATION_BOUND."""
    caller: str
    needs: tuple[tuple[QuotaKey, float], ...]
    valid_for_s: float = 0.0
    """How long a flex-start VM may wait for capacity."""
    reservation: str = ""
    """Relative name of the reservation it uses."""
    group: str = ""
    serial: Serial = field(default_factory=Serial)
    timers: list[Event] = field(default_factory=list)
    unfinished: Callable[[OperationError | None], None] | None = None
    """Ends the insert or start operation that still runs."""
    on_halt: Callable[[], None] | None = None
    """What follows once the guest has halted."""
    at_burial: list[Callable[[], None]] = field(default_factory=list)
    """What follows once it is gone."""
    dying: bool = False
    """Its deletion has begun."""
    deadline: Event | None = None
    holds_quota: bool = False
    holds_stock: bool = False
    created_at: float = 0.0
    deleted_at: float | None = None

    def halted(self) -> None:
        """The guest is off, as after ``Runtime.shut_down``; what waited for that goes on, once."""
        action, self.on_halt = self.on_halt, None
        if action is not None:
            action()

    @property
    def key(self) -> VmKey:
        return (self.project, self.zone, self.name)

    @property
    def path(self) -> str:
        return f"projects/{self.project}/zones/{self.zone}/instances/{self.name}"

    @property
    def scope(self) -> str:
        return f"projects/{self.project}/zones/{self.zone}"

    @property
    def id(self) -> str:
        return str(self.resource["id"])

    @property
    def status(self) -> str:
        return str(self.resource["status"])

    @property
    def scheduling(self) -> dict[str, Any]:
        found: dict[str, Any] = self.resource["scheduling"]
        return found

    @property
    def is_deleted_at_expiry(self) -> bool:
        """Deleted, not stopped, when its run time is over and when a Spot VM is reclaimed."""
        return bool(self.scheduling.get("instanceTerminationAction") == "DELETE")

    @property
    def stock_name(self) -> str:
        """What its capacity is counted by: the machine type, or the accelerator type on N1."""
        return self.accelerator if self.accelerator and self.machine.attaches_gpus else self.machine.name

    @property
    def attachment(self) -> str:
        return f"{self.accelerator}:{self.gpus}" if self.accelerator else ""


@dataclass(kw_only=True)
class Operation:
    """One operation."""

    scope: str
    """``projects/p/zones/z``, ``projects/p/regions/r`` or ``projects/p/global``."""
    document: dict[str, Any]

    @property
    def path(self) -> str:
        return f"{self.scope}/operations/{self.document['name']}"

    @property
    def done(self) -> bool:
        return bool(self.document["status"] == "DONE")


class Compute:
    """All of Compute Engine's state; ``world.part(Compute)``."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.settings = Settings()
        for publisher in facts.publishers():
            world.add_project(publisher).apis.clear()
        self.quotas = world.part(Quotas)
        self.vms: dict[VmKey, Vm] = {}
        self.buried: list[Vm] = []
        """Deleted VMs, for lists that lag."""
        self.held_names: dict[VmKey, float] = {}
        """Names of failed creates, and until when they are taken."""
        self.operations: dict[str, Operation] = {}
        self.request_ids: dict[tuple[str, str, str], tuple[float, Operation]] = {}
        self.stock: dict[tuple[str, str], int] = {}
        """Free VMs by (zone, machine or accelerator type); what is missing is plentiful."""
        self.offers: dict[tuple[str, str], bool] = {}
        """By (zone, machine or accelerator type): what is otherwise than the tables have it."""
        self.new_machines: dict[str, facts.Machine] = {}
        """Machine types besides those of the tables."""
        self.resources: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        """By collection (``disks``, ``resourcePolicies``, ...): documents by relative name."""
        self.queued: dict[str, Any] = {}
        """Resize requests that wait or are being served, by relative name."""
        self.addresses: Counter[str] = Counter()
        """How many addresses were given out, by subnetwork; "" for external ones."""

    def offer(self, what: str | facts.Machine, zone: str, *, offered: bool = True) -> None:
        """From now on ``zone`` sells a machine type or has an accelerator type, or does so no longer.

        A `facts.Machine` that nobody knows yet is listed, and cannot be made.
        """
        if zone not in facts.zones():
            raise LookupError(f"no such zone: {zone}")
        if isinstance(what, facts.Machine):
            self.new_machines[what.name] = what
            what = what.name
        elif what not in facts.machines() and what not in facts.gpu_quotas() and not self.is_new(what):
            raise LookupError(f"no such machine or accelerator type: {what}")
        self.offers[(zone, what)] = offered

    def is_new(self, name: str) -> bool:
        """Whether ``name`` is of a machine or accelerator type that came with `offer`."""
        return any(name in (one.name, one.accelerator) for one in self.new_machines.values())

    def offered(self, machine: str, zone: str) -> bool:
        """Whether ``zone`` sells ``machine``, and it can be made."""
        return self.offers.get((zone, machine), facts.offered(machine, zone)) and machine in facts.machines()

    def listed_machines(self, zone: str) -> list[facts.Machine]:
        """What ``zone`` lists: all that it sells, and machines nobody knows yet."""
        known = [one for one in facts.machines().values() if self.offered(one.name, zone)]
        return known + [one for one in self.new_machines.values() if self.offers.get((zone, one.name))]

    def has_accelerator(self, kind: str, zone: str) -> bool:
        """Whether an accelerator type is in ``zone``."""
        return self.offers.get((zone, kind), zone in facts.accelerator_zones().get(kind, ()))

    def find_vm(self, name: str, *, project: str = "", zone: str = "") -> Vm:
        """The VM called ``name`` (a bare name, or a relative or full resource name)."""
        tail = name.rpartition("projects/")[2].split("/")
        if len(tail) == 5:
            project, zone, name = tail[0], tail[2], tail[4]
        found = [
            vm
            for vm in self.vms.values()
            if vm.name == name and project in ("", vm.project) and zone in ("", vm.zone)
        ]
        if len(found) != 1:
            raise LookupError(f"{len(found)} VMs are called {name!r}")
        return found[0]

    def free(self, zone: str, stock_name: str) -> int | None:
        """How many more VMs the zone can hold; None when nothing limits it."""
        return self.stock.get((zone, stock_name))

    def zones_with_capacity(self, machine: str, stock_name: str, zone: str) -> tuple[str, ...]:
        """Other zones of the region that sell ``machine`` and have it."""
        region = facts.region_of(zone)
        return tuple(
            other
            for other in facts.zones()
            if other != zone
            and facts.region_of(other) == region
            and self.offered(machine, other)
            and self.free(other, stock_name) != 0
        )

    def bury(self, vm: Vm) -> None:
        """Remember a deleted VM for as long as a list may still show it."""
        now = self.world.clock.now()
        self.buried = [old for old in self.buried if (old.deleted_at or 0.0) > now - LONGEST_LAG_S]
        self.buried.append(vm)
