"""Reads jobs written for ``gcloud ai custom-jobs create`` or ``aiplatform.CustomJob``."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import attrs

from gputrain import catalog
from gputrain.catalog import ANY_RESERVATION, ProvisioningModel
from gputrain.fields import Errors, invalid

STRATEGIES: Mapping[ProvisioningModel, str] = MappingProxyType(
    {
        ProvisioningModel.STANDARD: "STANDARD",
        ProvisioningModel.SPOT: "SPOT",
        ProvisioningModel.FLEX_START: "FLEX_START",
        ProvisioningModel.RESERVATION_BOUND: "STANDARD",  # the reservation affinity binds it
    }
)
"""Vertex AI's names of the provisioning models. Source: aiplatform_v1 Scheduling.Strategy, 2.7.0."""
VERTEX_RESTARTS = 3
"""Restarts that Vertex AI makes unless disableRetries is set. Source: its pages, 2026-11-20."""

_MODELS = {"STANDARD": "standard", "SPOT": "spot", "FLEX_START": "flex-start"}
_MODELS |= {"ON_DEMAND": "standard", "LOW_COST": "spot"}  # deprecated names
_HELP = "see `gcloud ai custom-jobs create --help`"
_DESCRIBED = ("name", "state", "createTime", "startTime", "endTime", "updateTime", "error", "webAccessUris",
              "satisfiesPzs", "satisfiesPzi")  # fmt: skip
"""What `describe` prints beside the job: output of the service."""
_SETTINGS = {
    "serviceAccount": "service_account", "network": "network", "tensorboard": "tensorboard",
    "persistentResourceId": "persistent_resource", "experiment": "experiment",
    "experimentRun": "experiment_run", "project": "project", "location": "region",
    "stagingBucket": "bucket", "encryptionSpecKeyName": "kms_key",
}  # fmt: skip
"""Texts of a job, or of the call that makes it -> arguments of `VertexAI`."""


@attrs.frozen(kw_only=True)
class Config:
    """A job in two halves."""

    fields: Mapping[str, Any]
    """Of `TrainingSpec`."""
    settings: Mapping[str, Any]
    """Of `VertexAI`."""


class _Message:
    """One message: keys are taken one by one, in snake_case or camelCase; what is left is an error."""

    def __init__(self, value: object, at: str, errors: Errors) -> None:
        self._at, self._errors, self._known = at, errors, set[str]()
        if not isinstance(value, Mapping):
            errors.add(at or "config", value, "a mapping", _HELP)
            value = {}
        self._left = {
            re.sub(r"_([a-z])", lambda found: found[1].upper(), str(key)): one
            for key, one in value.items()
            if one is not None
        }

    def path(self, key: str) -> str:
        return f"{self._at}.{key}" if self._at else key

    def refuse(self, key: str, value: object, expected: str, fix: str, problem: str = "") -> None:
        self._errors.add(self.path(key), value, expected, fix, problem=problem)

    def has(self, key: str) -> bool:
        return key in self._left

    def take(self, key: str, kind: type = str) -> Any:
        """The value of a key: text, a whole number (also as text), True or False; None where it lacks."""
        value = self._pop(key)
        if kind is int and isinstance(value, str) and value.isdecimal():
            return int(value)
        if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            expected = {str: "text", int: "a whole number", bool: "true or false"}.get(kind, "a mapping")
            return self.refuse(key, value, expected, "")
        return value

    def take_texts(self, key: str) -> list[str]:
        """A list of texts; numbers are text too."""
        value = self._pop(key) or []
        if not isinstance(value, list) or any(isinstance(one, (bool, list, dict)) for one in value):
            words = value.split() if isinstance(value, str) else ["python3", "train.py"]
            self.refuse(key, value, "a list of texts", f"{key}: [{', '.join(words)}]")
            return []
        return [str(one) for one in value]

    def take_message(self, key: str) -> _Message:
        value = self._pop(key)
        return _Message({} if value is None else value, self.path(key), self._errors)

    def take_messages(self, key: str) -> list[_Message]:
        """A list of messages, or one without its list; empty ones are left out."""
        value = self._pop(key) or []
        given = [value] if isinstance(value, Mapping) else value
        if not isinstance(given, list):
            self.refuse(key, value, "a list", f"{key}: [...]")
            return []
        return [_Message(one, f"{self.path(key)}[{n}]", self._errors) for n, one in enumerate(given) if one]

    def close(self) -> None:
        """An error for every key that was not taken."""
        for key, value in self._left.items():
            near = difflib.get_close_matches(key, self._known, n=1, cutoff=0.8)
            if near:
                self.refuse(key, value, "", f"did you mean {near[0]}?", "unknown key")
            else:
                self.refuse(key, value, "", "leave it out", "not supported by gputrain")

    def _pop(self, key: str) -> Any:
        self._known.add(key)
        return self._left.pop(key, None)


def read_config(config: object) -> Config:
    """Read a job: a ``config.yaml``'s text, path or content, worker pools, or a job as `describe` prints it.

    Raises:
        SpecError: with everything in it that neither half can express, each with its path.
    """
    document = _parsed(config)
    if isinstance(document, list):
        document = {"workerPoolSpecs": document}
    elif isinstance(document, Mapping) and {"containerSpec", "container_spec"} & {*document}:
        document = {"workerPoolSpecs": [document]}
    errors = Errors("the job's config")
    job = _Message(document, "", errors)
    fields: dict[str, Any] = {}
    settings: dict[str, Any] = {"kms_key": job.take_message("encryptionSpec").take("kmsKeyName")}
    title = re.sub(r"[^a-z0-9]+", "-", (job.take("displayName") or "").lower()).strip("-")[:49].strip("-")
    fields["name"] = title if title[:1].isalpha() else None
    fields["labels"] = job.take("labels", dict)
    for key in _DESCRIBED if job.has("jobSpec") else ():
        job.take(key, object)
    for message in [job.take_message("jobSpec"), job] if job.has("jobSpec") else [job]:
        _read_job(message, fields, settings)
    if "entrypoint" not in fields and not errors.faults:
        errors.add("workerPoolSpecs", None, "pools with a containerSpec", _HELP)
    errors.raise_if_any()
    return Config(fields=_given(fields), settings=_given(settings))


def _read_job(job: _Message, fields: dict[str, Any], settings: dict[str, Any]) -> None:
    settings.update({ours: job.take(key) for key, ours in _SETTINGS.items() if job.has(key)})
    if job.has("enableWebAccess"):
        settings["enable_web_access"] = job.take("enableWebAccess", bool)
    if job.has("workerPoolSpecs"):
        _read_pools(job, fields, settings)
        _read_scheduling(job.take_message("scheduling"), fields)
    interface = job.take_message("pscInterfaceConfig")
    settings["network_attachment"] = interface.take("networkAttachment") or settings.get("network_attachment")
    interface.close()
    output = job.take_message("baseOutputDirectory")
    place = output.take("outputUriPrefix") or job.take("baseOutputDir")
    fields["output_dir"] = place or fields.get("output_dir")
    output.close()
    job.close()


def _read_pools(job: _Message, fields: dict[str, Any], settings: dict[str, Any]) -> None:
    read = [_read_pool(pool) for pool in job.take_messages("workerPoolSpecs")]
    for number, one in enumerate(read):
        differ = sorted(key for key in one if key != "num_nodes" and one[key] != read[0][key])
        if differ:
            problem = f"differs from the first pool in {', '.join(differ)}"
            fix = "VertexAI(reduction_server=...)" if number == 2 else "one job for each"
            job.refuse(f"workerPoolSpecs[{number}]", None, "", fix, problem)
    if read:
        fields["num_nodes"] = sum(one.pop("num_nodes") for one in read)
        settings.update({name: read[0].pop(name) for name in ("disk_type", "disk_gib", "nfs_mounts")})
        fields.update(read[0])


def _read_pool(pool: _Message) -> dict[str, Any]:
    """Fields and settings of one worker pool."""
    found: dict[str, Any] = {"num_nodes": pool.take("replicaCount", int) or 1}
    machine = pool.take_message("machineSpec")
    kind, gpu = machine.take("machineType"), machine.take("acceleratorType")
    count = machine.take("acceleratorCount", int)
    shapes = catalog.shapes(machine_type=kind) if kind and not gpu else ()
    of_machine = f"{shapes[0].gpu.kind}:{shapes[0].gpu_count}" if len(shapes) == 1 else None
    affinity = machine.take_message("reservationAffinity")
    affinity.take("key")
    names, affinity_type = affinity.take_texts("values"), affinity.take("reservationAffinityType")
    any_one = ANY_RESERVATION if affinity_type == "ANY_RESERVATION" else None  # NO_RESERVATION is our default
    found |= {"machine_type": kind, "gpu": f"{gpu}:{count or 1}" if gpu else of_machine}
    found["reservation"] = names[0] if names else any_one
    disk = pool.take_message("diskSpec")
    found |= {"disk_type": disk.take("bootDiskType"), "disk_gib": disk.take("bootDiskSizeGb", int)}
    mounts = pool.take_messages("nfsMounts")
    rows = {"server": "server", "path": "path", "mountPoint": "mount_point"}
    found["nfs_mounts"] = [{ours: one.take(key) for key, ours in rows.items()} for one in mounts] or None
    if pool.has("containerSpec"):
        found |= _read_container(pool.take_message("containerSpec"))
    else:
        pool.refuse("containerSpec", None, "", "a containerSpec; Python packages are not supported")
        pool.take("pythonPackageSpec", dict)
    for one in (machine, affinity, disk, *mounts, pool):
        one.close()
    return found


def _read_container(container: _Message) -> dict[str, Any]:
    program, args = container.take_texts("command"), container.take_texts("args")
    env = container.take_messages("env")
    variables = {one.take("name") or "": one.take("value") or "" for one in env}
    found = {"image": container.take("imageUri"), "env": variables, "entrypoint": program, "args": args}
    if program[:2] == ["python3", "-c"] and "gputrain" in " ".join(program[2:]):
        fix, problem = "the spec that it was written from", "this file was written by gputrain"
        container.refuse("command", None, "", fix, problem)
    for one in (*env, container):
        one.close()
    return found


def _read_scheduling(scheduling: _Message, fields: dict[str, Any]) -> None:
    for key, name in (("timeout", "max_run_duration"), ("maxWaitDuration", "max_wait_duration")):
        value = scheduling.take(key)
        seconds = re.fullmatch(r"(\d{1,9})(?:\.\d+)?s", value or "")
        if seconds and int(seconds[1]):
            fields[name] = timedelta(seconds=int(seconds[1]))
        elif value is not None:
            scheduling.refuse(key, value, "seconds", f"{key}: 3600s")
    strategy = scheduling.take("strategy") or "STANDARD"
    if strategy in _MODELS:
        fields["provisioning_model"] = _MODELS[strategy]
    else:
        scheduling.refuse("strategy", strategy, f"one of {', '.join(_MODELS)}", "strategy: STANDARD")
    fields["max_restarts"] = 0 if scheduling.take("disableRetries", bool) else VERTEX_RESTARTS
    scheduling.take("restartJobOnWorkerRestart", bool)  # gputrain restarts all workers together
    scheduling.close()


def _given(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not None}


def _parsed(config: Any) -> Any:
    """The document of a text, of a file's path, or as it is."""
    is_path = isinstance(config, str) and re.fullmatch(r"[^\n{]*\.(?:ya?ml|json)", config)
    if isinstance(config, os.PathLike) or is_path:
        try:
            with open(config, encoding="utf-8") as file:
                return _parsed(file.read())
        except (OSError, UnicodeDecodeError) as error:
            what = error.strerror if isinstance(error, OSError) else "not a text"
            fix = f"check the path; it starts at {os.getcwd()}"
            raise invalid("config", os.fspath(config), "", fix, problem=f"{config}: {what}") from error
    if not isinstance(config, str):
        return config
    try:
        return json.loads(config)
    except ValueError:
        pass
    try:
        import yaml  # type: ignore[import-untyped]  # stubs are not worth a dependency
    except ModuleNotFoundError:
        fix = "python -m pip install pyyaml"
        raise invalid("config", config[:40], "JSON, as PyYAML is not installed", fix) from None
    try:
        return yaml.safe_load(config)
    except yaml.YAMLError as error:
        raise invalid("config", config[:40], "YAML", str(error).splitlines()[0]) from error
