"""Reads jobs written for ``gcloud ai custom-jobs create`` or ``aiplatform.CustomJob``."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from gputrain import catalog
from gputrain.catalog import ANY_RESERVATION, ProvisioningModel
from gputrain.fields import Errors, Field, instance, invalid, reader

STRATEGIES = {
    ProvisioningModel.STANDARD: "STANDARD",
    ProvisioningModel.SPOT: "SPOT",
    ProvisioningModel.FLEX_START: "FLEX_START",
    ProvisioningModel.RESERVATION_BOUND: "STANDARD",  # the reservation affinity binds it
}
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
    "stagingBucket": "bucket", "encryptionSpecKeyName": "kms_key", "enableWebAccess": "enable_web_access",
}  # fmt: skip
"""Keys of a job, or of the call that makes it -> arguments of `VertexAI`."""

# How the values of a message are read; a message is a mapping of its keys to these

# fmt: off
_TEXT = Field(instance(str), "text", "")
_SWITCH = Field(instance(bool), "true or false", "")
_WHOLE = Field(
    reader(lambda one: type(one) is int or (isinstance(one, str) and one.isdecimal()), int),
    "a whole number", "")
_TEXTS = Field(  # numbers are text too
    reader(lambda of: isinstance(of, list) and not any(isinstance(one, (bool, list, dict)) for one in of),
           lambda of: list(map(str, of))),
    "a list of texts", "[python3, train.py]")
_SECONDS = Field(
    reader(lambda one: isinstance(one, str) and bool(re.fullmatch(r"0*[1-9]\d{0,8}(\.\d+)?s", one)),
           lambda one: timedelta(seconds=int(one[:-1].partition(".")[0]))),
    "seconds", "3600s")
_STRATEGY = Field(
    reader(lambda one: one in _MODELS, lambda one: _MODELS[one]), f"one of {', '.join(_MODELS)}", "STANDARD")
_IGNORED = Field(lambda one: one, "", "")
_POOL: Mapping[str, Any] = {
    "replicaCount": _WHOLE,
    "machineSpec": {
        "machineType": _TEXT, "acceleratorType": _TEXT, "acceleratorCount": _WHOLE,
        "reservationAffinity": {"reservationAffinityType": _TEXT, "key": _TEXT, "values": _TEXTS},
    },
    "diskSpec": {"bootDiskType": _TEXT, "bootDiskSizeGb": _WHOLE},
    "nfsMounts": [{"server": _TEXT, "path": _TEXT, "mountPoint": _TEXT}],
    "containerSpec": {
        "imageUri": _TEXT, "command": _TEXTS, "args": _TEXTS, "env": [{"name": _TEXT, "value": _TEXT}],
    },
    "pythonPackageSpec": _IGNORED,  # the missing containerSpec is the error
}
_JOB: Mapping[str, Any] = {
    "displayName": _TEXT,
    "labels": Field(instance(dict), "a mapping", ""),
    "encryptionSpec": {"kmsKeyName": _TEXT},
    "workerPoolSpecs": [_POOL],
    "scheduling": {
        "timeout": _SECONDS, "maxWaitDuration": _SECONDS, "strategy": _STRATEGY, "disableRetries": _SWITCH,
        "restartJobOnWorkerRestart": _SWITCH,  # gputrain restarts all workers together
    },
    "pscInterfaceConfig": {"networkAttachment": _TEXT},
    "baseOutputDirectory": {"outputUriPrefix": _TEXT},
    "baseOutputDir": _TEXT,
    **dict.fromkeys(_SETTINGS, _TEXT),
    "enableWebAccess": _SWITCH,
}
# fmt: on
_DESCRIBED_JOB = {**_JOB, **dict.fromkeys(_DESCRIBED, _IGNORED), "jobSpec": _JOB}


def read_config(config: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a `TrainingSpec` and the settings of a `VertexAI` that a job stands for.

    Args:
        config: a ``config.yaml``'s text, path or content, worker pools, or a job as `describe` prints it.

    Raises:
        SpecError: with everything in it that neither half can express, each with its path.
    """
    document = _parsed(config)
    if isinstance(document, list):
        document = {"workerPoolSpecs": document}
    elif isinstance(document, Mapping) and {"containerSpec", "container_spec"} & {*document}:
        document = {"workerPoolSpecs": [document]}
    errors = Errors("the job's config")
    is_described = isinstance(document, Mapping) and bool({"jobSpec", "job_spec"} & {*document})
    job = _read(document, _DESCRIBED_JOB if is_described else _JOB, "", errors)
    job |= job.get("jobSpec", {})
    at = "jobSpec.workerPoolSpecs" if is_described else "workerPoolSpecs"
    pools = [
        (f"{at}[{n}]", _read_pool(one, f"{at}[{n}]", errors))
        for n, one in enumerate(job.get("workerPoolSpecs") or ())
        if one
    ]
    for n, (where, one) in enumerate(pools):
        differ = sorted(key for key in one if key != "num_nodes" and one[key] != pools[0][1][key])
        problem = f"differs from the first pool in {', '.join(differ)}"
        fix = "VertexAI(reduction_server=...)" if n == 2 else "one job for each"
        errors.check(not differ, where, None, "", fix, problem=problem)
    if not pools:
        errors.check(bool(errors.faults), at, None, "pools with a containerSpec", _HELP)
    errors.raise_if_any()
    first = pools[0][1]
    settings = {ours: job.get(key) for key, ours in _SETTINGS.items()}
    settings["kms_key"] = settings["kms_key"] or job.get("encryptionSpec", {}).get("kmsKeyName")
    settings["network_attachment"] = job.get("pscInterfaceConfig", {}).get("networkAttachment")
    settings |= {name: first.pop(name) for name in ("disk_type", "disk_gib", "nfs_mounts")}
    scheduling, output = job.get("scheduling", {}), job.get("baseOutputDirectory", {})
    title = re.sub(r"[^a-z0-9]+", "-", job.get("displayName", "").lower()).strip("-")[:49].strip("-")
    fields = {
        **first,
        "num_nodes": sum(one["num_nodes"] for _, one in pools),
        "name": title if title[:1].isalpha() else None,
        "labels": job.get("labels"),
        "output_dir": output.get("outputUriPrefix") or job.get("baseOutputDir"),
        "max_run_duration": scheduling.get("timeout"),
        "max_wait_duration": scheduling.get("maxWaitDuration"),
        "provisioning_model": scheduling.get("strategy", "standard"),
        "max_restarts": 0 if scheduling.get("disableRetries") else VERTEX_RESTARTS,
    }
    fields, settings = (
        {name: one for name, one in half.items() if one is not None} for half in (fields, settings)
    )
    return fields, settings


def _read(value: Any, form: Any, at: str, errors: Errors) -> Any:
    """A value as it is read, keys of messages in camelCase; an error for each part that cannot be."""
    if isinstance(form, Field):
        key = at.rpartition(".")[2]
        fix = f"{key}: [{', '.join(value.split())}]" if form is _TEXTS and isinstance(value, str) else ""
        return errors.parse(at, value, form.read, form.expected, fix or (form.fix and f"{key}: {form.fix}"))
    if isinstance(form, list):
        given = [value] if isinstance(value, Mapping) else value
        if isinstance(given, list):
            return [_read(one or {}, form[0], f"{at}[{n}]", errors) for n, one in enumerate(given)]
        return errors.add(at, value, "a list", f"{at.rpartition('.')[2]}: [...]")
    if not isinstance(value, Mapping):
        errors.add(at or "config", value, "a mapping", _HELP)
        return {}
    found = {}
    for name, one in value.items():
        key = re.sub(r"_([a-z])", lambda found: found[1].upper(), str(name))
        where = f"{at}.{key}" if at else key
        if one is None:
            continue
        if key in form:
            found[key] = _read(one, form[key], where, errors)
        elif near := difflib.get_close_matches(key, form, n=1, cutoff=0.8):
            errors.add(where, one, "", f"did you mean {near[0]}?", problem="unknown key")
        else:
            errors.add(where, one, "", "leave it out", problem="not supported by gputrain")
    return found


def _read_pool(pool: Mapping[str, Any], at: str, errors: Errors) -> dict[str, Any]:
    """Fields and settings of one worker pool."""
    machine, disk = pool.get("machineSpec", {}), pool.get("diskSpec", {})
    kind, gpu = machine.get("machineType"), machine.get("acceleratorType")
    shapes = catalog.shapes(machine_type=kind) if kind and not gpu else ()
    of_machine = f"{shapes[0].gpu.kind}:{shapes[0].gpu_count}" if len(shapes) == 1 else None
    affinity = machine.get("reservationAffinity", {})
    is_any = affinity.get("reservationAffinityType") == "ANY_RESERVATION"  # NO_RESERVATION is our default
    named = next(iter(affinity.get("values") or ()), None)
    if "containerSpec" not in pool:
        fix = "a containerSpec; Python packages are not supported"
        errors.add(f"{at}.containerSpec", None, "", fix)
    container = pool.get("containerSpec", {})
    program = container.get("command") or []
    if program[:2] == ["python3", "-c"] and "gputrain" in " ".join(program[2:]):
        fix, problem = "the spec that it was written from", "this file was written by gputrain"
        errors.add(f"{at}.containerSpec.command", None, "", fix, problem=problem)
    return {
        "num_nodes": pool.get("replicaCount") or 1,
        "machine_type": kind,
        "gpu": f"{gpu}:{machine.get('acceleratorCount') or 1}" if gpu else of_machine,
        "reservation": named or (ANY_RESERVATION if is_any else None),
        "disk_type": disk.get("bootDiskType"),
        "disk_gib": disk.get("bootDiskSizeGb"),
        "nfs_mounts": [
            {"server": one.get("server"), "path": one.get("path"), "mount_point": one.get("mountPoint")}
            for one in pool.get("nfsMounts") or ()
            if one
        ]
        or None,
        "image": container.get("imageUri"),
        "env": {one.get("name") or "": one.get("value") or "" for one in container.get("env") or () if one},
        "entrypoint": program,
        "args": container.get("args") or [],
    }


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
