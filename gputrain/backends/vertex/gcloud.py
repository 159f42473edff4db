"""A job as `gcloud ai custom-jobs create` takes it, and a spec read from such a file. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import attrs

from gputrain import catalog
from gputrain.backends.vertex import render
from gputrain.errors import Fault, SpecError
from gputrain.spec import TrainingSpec
from gputrain.spec.faults import FaultCollector

VERTEX_RESTARTS = 3
"""Restarts that Vertex AI makes unless disableRetries is set. Source: its pages, 2026-11-20."""

_MODELS = {
    strategy: model.value
    for model, strategy in render.STRATEGIES.items()
    if model.value != "reservation-bound"
}
_MODELS |= {"ON_DEMAND": "standard", "LOW_COST": "spot"}  # deprecated names of the same


@attrs.frozen(kw_only=True)
class GcloudJob:
    """The file and the command; written together they make the job that we would make."""

    config: str
    """Content of ``config.yaml``: a ``CustomJobSpec``."""
    command: tuple[str, ...]
    """The words of the command; ``shlex.join`` makes a line of them."""


@attrs.frozen(kw_only=True)
class Imported:
    """What a ``config.yaml`` says: the job, and what belongs to the backend."""

    spec: TrainingSpec
    settings: Mapping[str, Any]
    """Further arguments of `VertexAI`."""


def to_gcloud(body: Mapping[str, Any]) -> GcloudJob:
    """The request of one custom job as a file and a command.

    Args:
        body: a request's body, ``{"parent": ..., "customJob": ...}``.
    """
    _, project, _, region = body["parent"].split("/")
    job = body["customJob"]
    labels = ",".join(f"{key}={value}" for key, value in sorted(job["labels"].items()))
    command = ["gcloud", "ai", "custom-jobs", "create", "--project", project, "--region", region]
    command += ["--display-name", job["displayName"], "--labels", labels, "--config", "config.yaml"]
    if "encryptionSpec" in job:
        command += ["--kms-key", job["encryptionSpec"]["kmsKeyName"]]
    return GcloudJob(config="\n".join(_yaml(job["jobSpec"])) + "\n", command=tuple(command))


def from_gcloud(config: str | Mapping[str, Any]) -> Imported:
    """Read a ``config.yaml`` of ``gcloud ai custom-jobs create``.

    Args:
        config: its text (YAML needs the package PyYAML; JSON does not), or what it holds. Both forms of
            ``workerPoolSpecs`` are read: the list, and the single mapping that Google's own pages print.

    Raises:
        SpecError: with everything in it that a spec cannot say.

    >>> pool = {"machineSpec": {"machineType": "g2-standard-24"}, "containerSpec":
    ...     {"imageUri": "us-docker.pkg.dev/p/r/i", "command": ["python3", "train.py"]}}
    >>> str(from_gcloud({"workerPoolSpecs": pool}).spec.gpu[0])
    'L4:2'
    """
    document = _camel(_parsed(config))
    faults = FaultCollector()
    pools = _pools(document.pop("workerPoolSpecs", None), faults)
    fields: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    if pools:
        _read_machine(pools[0].get("machineSpec") or {}, fields, faults)
        _read_container(pools[0], fields, faults)
        disk = pools[0].get("diskSpec") or {}
        settings |= _renamed(
            disk, {"bootDiskType": "disk_type", "bootDiskSizeGb": "disk_gib"}, "diskSpec", faults
        )
        fields["num_nodes"] = sum(int(pool.get("replicaCount") or 1) for pool in pools)
    _read_scheduling(document.pop("scheduling", {}), fields, faults)
    interface = document.pop("pscInterfaceConfig", {})
    settings |= _renamed(interface, {"networkAttachment": "network_attachment"}, "pscInterfaceConfig", faults)
    output = document.pop("baseOutputDirectory", {}).get("outputUriPrefix")
    if output:
        fields["output_dir"] = output
    settings |= _renamed(document, _TOP, "", faults)
    faults.raise_if_any()
    return Imported(spec=TrainingSpec(**fields), settings=settings)


_TOP = {
    "serviceAccount": "service_account",
    "network": "network",
    "tensorboard": "tensorboard",
    "persistentResourceId": "persistent_resource",
}


def _parsed(config: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(config, Mapping):
        return config
    try:
        document = json.loads(config)
    except ValueError:
        document = _parsed_yaml(config)
    if not isinstance(document, Mapping):
        raise _refused(
            "config", document, "a mapping with workerPoolSpecs", "see `gcloud ai custom-jobs create --help`"
        )
    return document


def _parsed_yaml(text: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]  # stubs are not worth a dependency
    except ModuleNotFoundError as error:
        raise _refused("config", "YAML", "JSON or a mapping, without PyYAML", "pip install pyyaml") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _refused("config", text[:40], "YAML", str(error).splitlines()[0]) from error


def _refused(field: str, value: object, allowed: str, fix: str) -> SpecError:
    fault = Fault(field=field, value=repr(value)[:80], allowed=allowed, fix=fix)
    return SpecError(f"{fault}", faults=(fault,))


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
        faults.add(
            "workerPoolSpecs",
            given,
            "pools with a containerSpec",
            "a list of pools; Python packages are not read",
        )
        return []
    alike = {json.dumps({**pool, "replicaCount": 0}, sort_keys=True) for pool in pools}
    if len(alike) > 1 or len(pools) > 2:
        faults.add(
            "workerPoolSpecs",
            len(pools),
            "a chief and workers that are alike",
            "VertexAI(reduction_server=...)",
        )
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
    if affinity.get("values"):
        fields["reservation"] = affinity["values"][0]
    _unknown(machine, "machineSpec.", faults)


def _read_container(pool: Mapping[str, Any], fields: dict[str, Any], faults: FaultCollector) -> None:
    container = dict(pool["containerSpec"])
    command = [*container.pop("command", ()), *container.pop("args", ())]
    fields["image"] = container.pop("imageUri", None)
    fields["env"] = {row["name"]: str(row.get("value", "")) for row in container.pop("env", ())}
    if render.loader() in command:
        faults.add(
            "containerSpec", "gputrain", "a file of your own", "keep the spec that it was written from"
        )
    elif not command:
        faults.add(
            "containerSpec.command",
            None,
            "the program and its arguments",
            "name what the image starts by itself",
        )
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


def _yaml(value: Any, indent: str = "") -> list[str]:
    """Block style, every text in JSON's quotes, which are YAML's too: nothing in it is taken for syntax."""
    lines: list[str] = []
    if isinstance(value, Mapping):
        for key, one in value.items():
            lines += _entry(f"{indent}{key}:", one, indent)
    else:
        for one in value:
            if isinstance(one, (Mapping, list)) and one:
                first, *rest = _yaml(one, indent + "  ")
                lines += [f"{indent}- {first.lstrip()}", *rest]
            else:
                lines.append(f"{indent}- {json.dumps(one)}")
    return lines


def _entry(head: str, one: Any, indent: str) -> list[str]:
    if isinstance(one, (Mapping, list)) and one:
        return [head, *_yaml(one, indent + "  ")]
    return [f"{head} {json.dumps(one)}"]
