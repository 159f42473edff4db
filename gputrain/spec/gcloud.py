"""A job as the ``config.yaml`` of ``gcloud ai custom-jobs create`` says it. Reads it; writes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import attrs

from gputrain import catalog
from gputrain.catalog import ANY_RESERVATION, ProvisioningModel
from gputrain.errors import SpecError
from gputrain.fields import FaultCollector, refused

STRATEGIES: Mapping[ProvisioningModel, str] = MappingProxyType(
    {
        ProvisioningModel.STANDARD: "STANDARD",
        ProvisioningModel.SPOT: "SPOT",
        ProvisioningModel.FLEX_START: "FLEX_START",
        ProvisioningModel.RESERVATION_BOUND: "STANDARD",  # what binds it is the reservation affinity
    }
)
"""Vertex AI's words for the provisioning models. Source: aiplatform_v1 Scheduling.Strategy, 2.7.0."""

VERTEX_RESTARTS = 3
"""Restarts that Vertex AI makes unless disableRetries is set. Source: its pages, 2026-11-20."""

_MODELS = {
    strategy: model.value
    for model, strategy in STRATEGIES.items()
    if model is not ProvisioningModel.RESERVATION_BOUND
}
_MODELS |= {"ON_DEMAND": "standard", "LOW_COST": "spot"}  # deprecated names of the same


@attrs.frozen(kw_only=True)
class Config:
    """What such a file says, in two halves."""

    fields: Mapping[str, Any]
    """Fields of `TrainingSpec`."""
    settings: Mapping[str, Any]
    """What is no part of a spec: further arguments of `VertexAI`."""


def read_config(config: str | Mapping[str, Any]) -> Config:
    """Read a ``config.yaml`` of ``gcloud ai custom-jobs create``.

    Args:
        config: its text (YAML needs the extra ``gcloud``; JSON does not), or what it holds. Both forms of
            ``workerPoolSpecs`` are read: the list, and the single mapping that Google's own pages print.

    Raises:
        SpecError: with everything in it that neither half can say, or the first part of another shape.
    """
    document = _camel(_parsed(config))
    try:
        return _read(document)
    except SpecError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        fix = "compare it with `gcloud ai custom-jobs create --help`"
        allowed = f"each part in the shape that gcloud takes ({type(error).__name__}: {error})"
        raise refused("config", document, allowed, fix) from error


def _read(document: dict[str, Any]) -> Config:
    faults = FaultCollector("the spec")
    pools = _pools(document.pop("workerPoolSpecs", None), faults)
    fields: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    if pools:
        _read_machine(pools[0].get("machineSpec") or {}, fields, faults)
        _read_container(pools[0], fields, faults)
        settings |= _renamed(pools[0].get("diskSpec") or {}, _DISK, "diskSpec", faults)
        settings |= _mounts(pools[0].get("nfsMounts") or ())
        fields["num_nodes"] = sum(int(pool.get("replicaCount") or 1) for pool in pools)
    _read_scheduling(document.pop("scheduling", {}), fields, faults)
    interface = document.pop("pscInterfaceConfig", {})
    settings |= _renamed(interface, {"networkAttachment": "network_attachment"}, "pscInterfaceConfig", faults)
    output = document.pop("baseOutputDirectory", {})
    fields |= _renamed(output, {"outputUriPrefix": "output_dir"}, "baseOutputDirectory", faults)
    settings |= _renamed(document, _TOP, "", faults)
    faults.raise_if_any()
    return Config(fields=fields, settings=settings)


_DISK = {"bootDiskType": "disk_type", "bootDiskSizeGb": "disk_gib"}
_TOP = {
    "serviceAccount": "service_account",
    "network": "network",
    "tensorboard": "tensorboard",
    "persistentResourceId": "persistent_resource",
    "experiment": "experiment",
    "experimentRun": "experiment_run",
    "enableWebAccess": "enable_web_access",
}


def _mounts(given: Any) -> dict[str, Any]:
    names = {"server": "server", "path": "path", "mountPoint": "mount_point"}
    found = [{names.get(key, key): value for key, value in one.items()} for one in given]
    return {"nfs_mounts": found} if found else {}


def _parsed(config: str | Mapping[str, Any]) -> Mapping[str, Any]:
    document: Any = config
    if isinstance(config, str):
        try:
            document = json.loads(config)
        except ValueError:
            document = _parsed_yaml(config)
    if not isinstance(document, Mapping):
        fix = "the text of a file, Path('config.yaml').read_text(); see `gcloud ai custom-jobs create --help`"
        raise refused("config", document, "a mapping with workerPoolSpecs", fix)
    return document


def _parsed_yaml(text: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]  # stubs are not worth a dependency
    except ModuleNotFoundError as error:
        allowed, fix = "JSON, as PyYAML is not installed", "pip install 'gputrain[gcloud]'"
        raise refused("config", text[:40], allowed, fix) from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise refused("config", text[:40], "YAML", str(error).splitlines()[0]) from error


def _camel(value: Any) -> Any:
    """Both spellings of a key are one; the values of env and of labels are rows, not keys."""
    if isinstance(value, Mapping):
        return {
            re.sub(r"_([a-z])", lambda m: m[1].upper(), str(key)): _camel(one) for key, one in value.items()
        }
    return [_camel(one) for one in value] if isinstance(value, list) else value


def _pools(given: Any, faults: FaultCollector) -> list[dict[str, Any]]:
    if isinstance(given, Mapping):
        given = [given]
    pools = [pool for pool in given or () if pool]
    if not pools or not all(isinstance(pool, dict) and "containerSpec" in pool for pool in pools):
        fix = "a list of pools; Python packages are not read"
        faults.add("workerPoolSpecs", given, "pools with a containerSpec", fix)
        return []
    alike = {json.dumps({**pool, "replicaCount": 0}, sort_keys=True) for pool in pools}
    if len(alike) > 1 or len(pools) > 2:
        fix = "VertexAI(reduction_server=...)"
        faults.add("workerPoolSpecs", len(pools), "a chief and workers that are alike", fix)
    return pools


def _read_machine(machine: dict[str, Any], fields: dict[str, Any], faults: FaultCollector) -> None:
    kind, gpu = machine.pop("machineType", None), machine.pop("acceleratorType", None)
    count = machine.pop("acceleratorCount", None)
    affinity = machine.pop("reservationAffinity", {})
    fields["machine_type"] = kind
    if gpu is None:
        shapes = catalog.shapes(machine_type=kind) if kind else ()
        fields["gpu"] = f"{shapes[0].gpu.kind}:{shapes[0].gpu_count}" if len(shapes) == 1 else None
    else:
        fields["gpu"] = f"{gpu}:{count or 1}"
    if affinity.get("reservationAffinityType") == "ANY_RESERVATION":
        fields["reservation"] = ANY_RESERVATION
    if affinity.get("values"):
        fields["reservation"] = affinity["values"][0]
    _unknown(machine, "machineSpec.", faults)


def _read_container(pool: Mapping[str, Any], fields: dict[str, Any], faults: FaultCollector) -> None:
    container = dict(pool["containerSpec"])
    command = [*container.pop("command", ()), *container.pop("args", ())]
    fields["image"] = container.pop("imageUri", None)
    fields["env"] = {row["name"]: str(row.get("value", "")) for row in container.pop("env", ())}
    if command[:2] == ["python3", "-c"] and "gputrain" in command[2]:
        fix = "keep the spec that it was written from"
        faults.add("containerSpec", "gputrain", "a file of your own", fix)
    elif not command:
        fix = "name what the image starts by itself"
        faults.add("containerSpec.command", None, "the program and its arguments", fix)
    fields["command"] = command
    _unknown(container, "containerSpec.", faults)


def _read_scheduling(scheduling: dict[str, Any], fields: dict[str, Any], faults: FaultCollector) -> None:
    for name, field in (("timeout", "max_run_duration"), ("maxWaitDuration", "max_wait_duration")):
        value = scheduling.pop(name, None)
        found = re.fullmatch(r"(\d+)(?:\.\d+)?s", str(value)) if value is not None else None
        if found:
            fields[field] = timedelta(seconds=int(found[1]))
        elif value is not None:
            faults.add(f"scheduling.{name}", value, "seconds such as 3600s", "3600s")
    strategy = scheduling.pop("strategy", "STANDARD")
    if strategy in _MODELS:
        fields["provisioning_model"] = _MODELS[strategy]
    else:
        faults.add("scheduling.strategy", strategy, ", ".join(_MODELS), "STANDARD")
    fields["max_restarts"] = 0 if scheduling.pop("disableRetries", False) else VERTEX_RESTARTS
    scheduling.pop("restartJobOnWorkerRestart", None)
    _unknown(scheduling, "scheduling.", faults)


def _renamed(
    given: Mapping[str, Any], names: Mapping[str, str], where: str, faults: FaultCollector
) -> dict[str, Any]:
    left = {key: value for key, value in given.items() if key not in names}
    _unknown(left, f"{where}." if where else "", faults)
    found = {names[key]: value for key, value in given.items() if key in names}
    return {name: int(value) if name == "disk_gib" else value for name, value in found.items()}


def _unknown(left: Mapping[str, Any], where: str, faults: FaultCollector) -> None:
    for key, value in left.items():
        faults.add(f"{where}{key}", value, "not something that a spec can say", "leave it out")
