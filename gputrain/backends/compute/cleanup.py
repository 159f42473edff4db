"""VMs of ours that no living job needs: found by their labels, judged by the records of their own home."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from gputrain import catalog
from gputrain.backends.base import Orphan
from gputrain.backends.compute.calls import Calls, ours
from gputrain.backends.compute.look import Looks
from gputrain.backends.compute.names import LABEL_HOME, VmNames
from gputrain.backends.compute.official import Json
from gputrain.catalog import Price, ProvisioningModel
from gputrain.errors import GputrainError
from gputrain.gcp import LABEL_JOB, MissingError
from gputrain.records import Board

log = logging.getLogger("gputrain")

_MODELS = {
    "STANDARD": ProvisioningModel.STANDARD,
    "SPOT": ProvisioningModel.SPOT,
    "FLEX_START": ProvisioningModel.FLEX_START,
    "RESERVATION_BOUND": ProvisioningModel.RESERVATION_BOUND,
}


def orphans(calls: Calls, board: Board, looks: Looks, home: str) -> tuple[Orphan, ...]:
    """Our VMs of all zones, of one home, whose job has ended, is at another attempt, or has no record.

    One that is going down already is none.

    Args:
        home: the value of the label; VMs of another one are judged by records that are not ours to read.

    Raises:
        TransientError: some zones could not be listed.
    """
    listing = calls.all_instances(f"{ours()} AND labels.{LABEL_HOME}={home}")
    by_job: dict[str, list[Json]] = {}
    for vm in listing.whole("list the VMs of every zone"):
        by_job.setdefault(vm["labels"][LABEL_JOB], []).append(vm)
    found: list[Orphan] = []
    for job_id, vms in by_job.items():
        try:
            needed = _needed(board, looks, job_id)
        except GputrainError as error:  # what cannot be judged is not removed
            log.warning("%s could not be looked at: %s", job_id, error.what)
            continue
        unneeded = (vm for vm in vms if needed is None or not _is_of(needed, vm))
        # One that is going down is going already; where it only halts, the next look finds it.
        found += [_orphan(job_id, vm) for vm in unneeded if vm["status"] != "STOPPING"]
    return tuple(found)


def _needed(board: Board, looks: Looks, job_id: str) -> VmNames | None:
    """The gang whose VMs must stay; None: none of the job's must."""
    try:
        record = board.read(job_id)
    except MissingError:  # its home is gone, and nobody can say any more that the VM is needed
        return None
    if record is None or record.last is None or record.over or not record.is_open:
        return None
    seen = looks.observe(record)
    return None if seen.state is not None and seen.state.is_terminal else VmNames.of(record)


def _is_of(gang: VmNames, vm: Json) -> bool:
    return _zone(vm) == gang.zone and gang.owns(vm)


def _orphan(job_id: str, vm: Json) -> Orphan:
    zone = _zone(vm)
    return Orphan(name=vm["name"], place=zone, job_id=job_id, status=vm["status"], price=_price(vm, zone))


def _zone(vm: Json) -> str:
    return str(vm["zone"]).rpartition("/")[2]


def _price(vm: Mapping[str, Any], zone: str) -> Price | None:
    """Of one VM for an hour."""
    machine = str(vm.get("machineType", "")).rpartition("/")[2]
    model = _MODELS.get(vm.get("scheduling", {}).get("provisioningModel", ""))
    shapes = catalog.shapes(machine_type=machine) if machine else ()
    if model is None or len(shapes) != 1:
        return None
    return catalog.price(shapes[0], catalog.region_of(zone), model)
