"""The request that makes one gang of VMs. Pure: the same spec gives the same JSON, looked at in golden tests.

A request is Google's own JSON. For N VMs it is one ``bulkInsert`` with names of our choice and ``minCount``
= N: all or none. What may wait in Google's flex-start queue is asked for otherwise: one VM by ``insert``,
which alone takes ``requestValidForDuration``, and a gang by a resize request for all its names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from gputrain.backends.base import Start
from gputrain.backends.compute import fabrics, images, waiting
from gputrain.backends.compute.names import LABEL_ATTEMPT, JobObjects, vm_names
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.backends.google import RESERVATION_KEY, shape_of
from gputrain.backends.results import of_agents, of_code
from gputrain.catalog import (
    ANY_RESERVATION,
    CompactPlacement,
    Fabric,
    ProvisioningModel,
    Service,
    Shape,
    nccl_defaults,
)
from gputrain.entrypoint import contract
from gputrain.fields import refused
from gputrain.gcp import LABEL_GANG, LABEL_HOME, our_labels, reservations
from gputrain.keeper import texts
from gputrain.planning import Candidate
from gputrain.spec import TrainingSpec

MODELS: Mapping[ProvisioningModel, str] = {
    ProvisioningModel.STANDARD: "STANDARD",
    ProvisioningModel.SPOT: "SPOT",
    ProvisioningModel.FLEX_START: "FLEX_START",
    ProvisioningModel.RESERVATION_BOUND: "RESERVATION_BOUND",
}
"""Google's words. Source: google-cloud-compute 1.56.0, ``Scheduling.ProvisioningModel``, read 2026-11-20."""

SHORTEST_LIMIT_S = 30
"""The least ``maxRunDuration`` that Compute Engine takes; the guest keeps shorter limits by itself."""

SHORTEST_QUEUED_S = 600
"""The same of VMs that come by a resize request. Source: gcloud reference, read 2026-11-22."""

LONGEST_QUEUE_S = 7200
"""The longest that a flex-start VM waits for capacity (``requestValidForDuration``); seen in threads."""

SPOT_NOTICE_S = 120
"""Between the metadata server's word and the power button, for Spot VMs. Source: release notes 2026-09-30."""

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
JOB_KEY = "gputrain-job"
KEEPER_KEY = "gputrain-keeper"
"""Where the startup script finds the keeper; the text is the same for every job."""


_startup, _keeper = cache(texts.startup), cache(texts.vm)

SCHEMA = 1
JOIN_S = 600
"""How long nodes may take to meet beyond the wait for the driver: images come, requirements are installed.

A node that died on the way holds the others no longer than that; the agent's own patience is half an hour.
"""
BOOT_S = 300
"""How long a node waits for the first word of another: all VMs of a gang run before any of them counts."""


def body(start: Start, settings: ComputeSettings, addresses: Mapping[str, str]) -> dict[str, Any]:
    """What one gang is made from.

    Args:
        start: what, where, under which name, and the code.
        settings: the project's choices.
        addresses: where the guest finds Cloud Storage, Compute Engine and Secret Manager.

    Returns:
        ``job``: the document that every VM reads; ``properties``: Google's ``InstanceProperties``;
        ``queue_s``: how long Google may let it wait, 0 unless flex-start.
    """
    spec, candidate, job_id = start.spec, start.candidate, start.job_id
    shape = shape_of(candidate, Service.COMPUTE)
    choice = fabrics.choose(shape, settings, candidate.num_nodes, spec.image_name, candidate.place)
    choice.check()
    queues = candidate.provisioning_model is ProvisioningModel.FLEX_START
    labels = {
        **our_labels(job_id, spec.labels),
        LABEL_ATTEMPT: str(start.attempt),
        LABEL_GANG: start.nonce,
        LABEL_HOME: settings.home_label,
    }
    told = {
        **_document(start, settings, addresses, choice.fabric),
        "attempt": start.attempt,
        "names": list(vm_names(job_id, start.attempt, candidate.num_nodes)),
        "max_run_s": int(candidate.max_run_duration.total_seconds()),
    }
    waits_s = int(spec.longest_queue.total_seconds())
    return {
        "zone": candidate.place,
        "queue_s": min(waits_s, LONGEST_QUEUE_S) if queues else 0,
        "properties": {**_properties(spec, candidate, job_id, settings, choice.fabric), "labels": labels},
        "job": told,
    }


def call(draft: Mapping[str, Any]) -> dict[str, Any]:
    """The one write that makes a gang: its zone, the method of Compute Engine's ``instances``, and its JSON.

    Args:
        draft: what `body` returned, with what only the cloud knows.
    """
    names = draft["job"]["names"]
    properties = {**draft["properties"], "metadata": {"items": _metadata(draft["job"])}}
    if len(names) > 1 and properties["scheduling"]["provisioningModel"] == "FLEX_START":
        return {"zone": draft["zone"], "method": "resizeRequests", **waiting.gang(properties, names, draft)}
    if draft["queue_s"]:
        method, resource = "insert", waiting.alone(properties, names[0], draft)
    else:
        method = "bulkInsert"
        resource = {
            "count": str(len(names)),
            "minCount": str(len(names)),
            "instanceProperties": properties,
            "perInstanceProperties": {name: {} for name in names},
        }
    return {"zone": draft["zone"], "method": method, "resource": resource}


def _metadata(told: Mapping[str, Any]) -> list[dict[str, str]]:
    values = {
        "startup-script": _startup(),
        KEEPER_KEY: _keeper(),
        JOB_KEY: json.dumps(told, sort_keys=True),
        "enable-oslogin": "TRUE" if told["os_login"] else "FALSE",
        "block-project-ssh-keys": "TRUE",
        "serial-port-enable": "FALSE",
        images.INSTALL_DRIVER: "True",
    }
    return [{"key": key, "value": value} for key, value in values.items()]


def _properties(
    spec: TrainingSpec, candidate: Candidate, job_id: str, settings: ComputeSettings, fabric: Fabric | None
) -> dict[str, Any]:
    shape = shape_of(candidate, Service.COMPUTE)
    properties: dict[str, Any] = {
        "description": f"gputrain job {job_id}",
        "machineType": shape.machine_type,
        "scheduling": _scheduling(candidate),
        "disks": [_boot_disk(spec, shape, job_id, settings, fabric)],
        "networkInterfaces": fabrics.interfaces(fabric, settings, candidate.place),
        "serviceAccounts": [{"email": settings.service_account, "scopes": [SCOPE]}],
        "shieldedInstanceConfig": {
            "enableSecureBoot": settings.secure_boot,
            "enableVtpm": True,
            "enableIntegrityMonitoring": True,
        },
        "reservationAffinity": _reservation(spec, candidate),
    }
    if shape.is_attached:
        count = int(shape.gpu_count)
        kind = shape.gpu.accelerator_type
        properties["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": count}]
    if settings.network_tags:
        properties["tags"] = {"items": list(settings.network_tags)}
    policy = _placement(shape, candidate, settings)
    if policy:
        properties["resourcePolicies"] = [policy]
    return properties


def _is_queued_gang(candidate: Candidate) -> bool:
    return candidate.provisioning_model is ProvisioningModel.FLEX_START and candidate.num_nodes > 1


def _scheduling(candidate: Candidate) -> dict[str, Any]:
    model = candidate.provisioning_model or ProvisioningModel.STANDARD
    shortest_s = SHORTEST_QUEUED_S if _is_queued_gang(candidate) else SHORTEST_LIMIT_S
    limit_s = max(int(candidate.max_run_duration.total_seconds()), shortest_s)
    scheduling: dict[str, Any] = {
        "provisioningModel": MODELS[model],
        "maxRunDuration": {"seconds": str(limit_s)},
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",  # no machine with a GPU migrates live
        "automaticRestart": False,  # a gang cannot take one VM back by itself
    }
    if model is ProvisioningModel.SPOT:
        scheduling["preemptionNoticeDuration"] = {"seconds": str(SPOT_NOTICE_S)}
    return scheduling


def _boot_disk(
    spec: TrainingSpec, shape: Shape, job_id: str, settings: ComputeSettings, fabric: Fabric | None
) -> dict[str, Any]:
    sold = shape.machine.boot_disk_types
    if settings.disk_type is not None and settings.disk_type not in sold:
        allowed = f"{' or '.join(sold)} on {shape.machine_type}"
        raise refused("disk_type", settings.disk_type, allowed, "leave it out")
    return {
        "boot": True,
        "autoDelete": True,
        "initializeParams": {
            "sourceImage": images.choose(
                shape, settings, spec.image_name, fabric.networking if fabric else None
            ),
            "diskType": settings.disk_type or sold[0],
            "diskSizeGb": str(settings.disk_gib),
            "labels": our_labels(job_id, spec.labels),
        },
    }


def _reservation(spec: TrainingSpec, candidate: Candidate) -> dict[str, Any]:
    takes = (ProvisioningModel.STANDARD, ProvisioningModel.RESERVATION_BOUND)
    if candidate.provisioning_model not in takes:
        return {"consumeReservationType": "NO_RESERVATION"}
    if spec.reservation in (None, ANY_RESERVATION):  # one that is open bills, whether somebody uses it or not
        return {"consumeReservationType": "ANY_RESERVATION"}
    return {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": RESERVATION_KEY,
        "values": [reservations.in_a_vm(spec.reservation)],
    }


def _placement(shape: Shape, candidate: Candidate, settings: ComputeSettings) -> str:
    """The policy that keeps the gang together, where one is named and the family takes one."""
    wants = shape.machine.family.placement
    if (
        candidate.num_nodes > 1
        and wants is CompactPlacement.NVLINK_DOMAIN
        and settings.placement_policy is None
    ):
        raise refused(
            "placement_policy",
            None,
            "a compact policy with a GPU topology: without one the VMs share no NVLink",
            "gcloud compute resource-policies create group-placement NAME --collocation collocated"
            " --gpu-topology 1x72 --region REGION; then placement_policy='NAME'",
        )
    if candidate.num_nodes == 1 or wants is CompactPlacement.BY_RESERVATION:
        return ""
    return settings.placement_policy or ""


def _document(
    start: Start, settings: ComputeSettings, addresses: Mapping[str, str], fabric: Fabric | None
) -> dict[str, Any]:
    """The document that the guest reads. Nothing in it is a secret: whoever may see the VM may read it."""
    spec, candidate, job_id = start.spec, start.candidate, start.job_id
    shape = shape_of(candidate, Service.COMPUTE)
    bucket = settings.bucket
    objects = JobObjects(bucket=bucket, job_id=job_id)
    return {
        "schema": SCHEMA,
        "job_id": job_id,
        "nonce": start.nonce,
        "zone": candidate.place,
        "project": settings.project,
        "gpus": shape.api_gpu_count,
        "driver_wait_s": settings.driver_wait_s,
        "boot_wait_s": BOOT_S,
        "is_queued": _is_queued_gang(candidate),
        "image": spec.image_name,
        "fabric": fabrics.document(fabric, settings),
        "python": settings.python,
        "os_login": settings.os_login,
        "storage": addresses["storage"],
        "compute": addresses["compute"],
        "bucket": bucket.name,
        "folder": objects.attempts,
        "cancel": objects.cancel,
        "checkpoints": spec.checkpoint_dir or objects.place("checkpoints"),
        "output": spec.output_dir or objects.place("output"),
        "order": of_code(spec, start.bundle, bucket.name, addresses),
        "env": {
            contract.JOIN_TIMEOUT: str(settings.driver_wait_s + JOIN_S),
            **nccl_defaults(shape),
            **({contract.NCCL_NET: fabric.net} if fabric is not None else {}),
            **spec.env,
            contract.JOB_ID: job_id,
            contract.NUM_NODES: str(candidate.num_nodes),
            contract.NPROC_PER_NODE: str(candidate.nproc_per_node),
            **of_agents(spec),
        },
    }
