"""How long things take in the emulated Compute Engine, and the choices that Google does not document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

LONGEST_S = 1e9
"""The clock cannot go further."""


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
    operation_retention_s: float = 14 * 86400.0
    """How long a finished operation can be read (unverified)."""
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
        """Set some of them; none where one of them is not to be had.

        Raises:
            LookupError: there is no such setting.
            ValueError: a switch is neither True nor False, or a time or a count is no number from 0 on.
        """
        for name, value in values.items():
            if name not in {field.name for field in fields(self)}:
                raise LookupError(f"no such setting: {name}")
            is_switch = isinstance(getattr(self, name), bool)
            if is_switch != isinstance(value, bool) or not (is_switch or _is_number(value)):
                raise ValueError(f"{name} is {'True or False' if is_switch else 'a number from 0 on'}")
        for name, value in values.items():
            setattr(self, name, value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= LONGEST_S
