"""The request that makes the VMs of an attempt, and how they differ from those of another.

An attempt's id is in the name of every VM, in its label, and in the folder where its guests write. So a VM
is never taken for one of another attempt, however late it came. Names are chosen before
anything exists, so the address of node 0 is known when the first VM boots.

A request is Google's own JSON. For N VMs it is one ``bulkInsert`` with names of our choice and ``minCount``
= N: all or none. What may wait in Google's flex-start queue is asked for otherwise: one VM by ``insert``,
which alone takes ``requestValidForDuration``, and a group by a resize request for all its names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

import attrs

from gputrain.backends.agent_reports import of_agents, of_code
from gputrain.backends.base import Bundle
from gputrain.backends.compute import images, networking
from gputrain.backends.compute.settings import ComputeSettings
from gputrain.backends.google import RESERVABLE, RESERVATION_KEY, check_image, shape_of
from gputrain.catalog import (
    ANY_RESERVATION,
    CompactPlacement,
    Fabric,
    ProvisioningModel,
    Service,
    Shape,
    nccl_defaults,
)
from gputrain.fields import invalid
from gputrain.google import LABEL_ATTEMPT, LABEL_OWNER, our_labels
from gputrain.google.compute_lists import affinity_value
from gputrain.jobstore import Attempt, RecordError
from gputrain.planning import Candidate
from gputrain.runtime import contract, zipapp
from gputrain.spec import TrainingSpec

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
CODE_KEY = "gputrain-code"
"""Where the startup script reads what to fetch first: the address of the job's code, and its hash."""

_startup = cache(zipapp.startup)

JOIN_S = 600
"""How long nodes may take to meet beyond the wait for the driver: images come, requirements are installed.

A node that died on the way holds the others no longer than that; the agent's own patience is half an hour.
"""
BOOT_S = 300
"""How long a node waits for the first word of another: all VMs of a job run before one of them counts."""

NOTE = re.compile(r"gputrain job=(?P<job>\S+) home=(?P<home>\S+) zone=(?P<zone>\S+) attempt=(?P<attempt>\S+)")
"""The description of what takes no labels: whose it is."""

_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")


@attrs.frozen(kw_only=True)
class AttemptVms:
    """The VMs of one attempt, as they are known before they are asked for."""

    job_id: str
    attempt: str
    """Its id."""
    zone: str
    names: tuple[str, ...]
    """By node rank."""
    is_queued: bool = False
    """They wait in Google's flex-start queue, and come all together."""

    @classmethod
    def of(cls, job_id: str, attempt: Attempt) -> AttemptVms:
        """Those of a record's attempt. RecordError: its place or names stand for nothing on Google Cloud."""
        zone, count = attempt.option.place, len(attempt.names)
        endings = [f"-{attempt.id}-{rank}" for rank in range(count)]
        is_ours = count and all(name.endswith(end) for name, end in zip(attempt.names, endings))
        if not is_ours or not all(map(_NAME.fullmatch, (zone, *attempt.names))):
            raise RecordError(
                f"the record of {job_id} names no VMs of gputrain",
                why=f"{', '.join(attempt.names)[:80]!r} in {zone[:40]!r}",
                fix="find out who can write to the bucket",
            )
        is_queued = attempt.option.model == "flex-start" and count > 1
        return cls(job_id=job_id, attempt=attempt.id, zone=zone, names=attempt.names, is_queued=is_queued)

    @property
    def queue(self) -> str:
        """The name of their template, group and request in the queue: what their names have in common."""
        return self.names[0].rpartition("-")[0]

    def are_of(self, vm: Mapping[str, Any]) -> bool:
        """Whether a VM was made for this attempt, by its name and its label."""
        return vm.get("name") in self.names and (vm.get("labels") or {}).get(LABEL_ATTEMPT) == self.attempt


def draft(
    settings: ComputeSettings, addresses: Mapping[str, str], job_id: str, spec: TrainingSpec,
    attempt: Attempt, candidate: Candidate, bundle: Bundle,
) -> dict[str, Any]:  # fmt: skip
    """What the VMs are made from. Pure: the same spec gives the same JSON, looked at in golden tests.

    Args:
        addresses: where the guest finds Cloud Storage, Compute Engine and Secret Manager.

    Returns:
        ``job``: the document that every VM reads; ``properties``: Google's ``InstanceProperties``;
        ``queue_s``: how long Google may let it wait, 0 unless flex-start.
    """
    shape, image = shape_of(candidate, Service.COMPUTE), spec.image_name
    if image is not None:
        check_image(image, shape, Service.COMPUTE)
    choice = networking.choose(shape, settings, candidate.num_nodes, image, candidate.place)
    if choice.lacks:
        what = "several machines would not reach each other"
        raise invalid("gpu_networking", None, choice.lacks, choice.fix, what=what)
    queues = candidate.provisioning_model is ProvisioningModel.FLEX_START
    longest_s = min(int(spec.longest_queue.total_seconds()), LONGEST_QUEUE_S)
    return {
        "zone": candidate.place,
        "queue_s": longest_s if queues else 0,
        "properties": _properties(settings, job_id, spec, attempt, candidate, shape, choice.fabric),
        "job": _document(settings, addresses, job_id, spec, attempt, candidate, bundle, shape, choice.fabric),
    }


def call(body: Mapping[str, Any]) -> dict[str, Any]:
    """The one write that makes the VMs: its zone, the method of Compute Engine's ``instances``, its JSON.

    Args:
        body: what `draft` returned, with what only the cloud knows.
    """
    job, zone = body["job"], body["zone"]
    names = job["names"]
    properties = {**body["properties"], "metadata": {"items": metadata(job)}}
    if job["is_queued"]:
        return {"zone": zone, "method": "resizeRequests", **_queued_group(properties, zone, job)}
    if body["queue_s"]:
        resource = _queued_vm(properties, zone, names[0], body["queue_s"])
        return {"zone": zone, "method": "insert", "resource": resource}
    resource = {
        "count": str(len(names)),
        "minCount": str(len(names)),
        "instanceProperties": properties,
        "perInstanceProperties": {name: {} for name in names},
    }
    return {"zone": zone, "method": "bulkInsert", "resource": resource}


def _queued_group(properties: Mapping[str, Any], zone: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """The template, the empty group and the request for all of its VMs by their names."""
    name, home = job["names"][0].rpartition("-")[0], properties["labels"][LABEL_OWNER]
    note = f"gputrain job={job['job_id']} home={home} zone={zone} attempt={job['attempt']}"  # as of `NOTE`
    both = {"name": name, "description": note}
    return {
        "template": {**both, "properties": dict(properties)},
        "group": {
            **both,
            "baseInstanceName": name,
            "versions": [{"instanceTemplate": f"global/instanceTemplates/{name}"}],
            "targetSize": 0,
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},  # a VM that left stays away
        },
        "resource": {
            **both,
            "instances": [{"name": one} for one in job["names"]],
            "requestedRunDuration": properties["scheduling"]["maxRunDuration"],
        },
    }


def _queued_vm(properties: Mapping[str, Any], zone: str, name: str, queue_s: int) -> dict[str, Any]:
    """``Instance`` of an insert: the same properties, with URLs where a template takes bare names."""
    scope, (disk,) = f"zones/{zone}", properties["disks"]
    init = disk["initializeParams"]
    init = {**init, "diskType": f"{scope}/diskTypes/{init['diskType']}"}
    instance = {
        **properties,
        "name": name,
        "machineType": f"{scope}/machineTypes/{properties['machineType']}",
        "disks": [{**disk, "initializeParams": init}],
        "params": {"requestValidForDuration": {"seconds": str(queue_s)}},
    }
    for gpus in properties.get("guestAccelerators", ()):
        kind = f"{scope}/acceleratorTypes/{gpus['acceleratorType']}"
        instance["guestAccelerators"] = [{**gpus, "acceleratorType": kind}]
    return instance


def metadata(job: Mapping[str, Any]) -> list[dict[str, str]]:
    """The items of a VM's metadata, by the document that it reads."""
    code = job["order"]
    place = f"{code['storage']}/storage/v1/b/{code['bucket']}/o/{quote(code['object'], safe='')}?alt=media"
    values = {
        "startup-script": _startup(),
        CODE_KEY: f"{place} {code['sha256']}",
        JOB_KEY: json.dumps(job, sort_keys=True),
        "enable-oslogin": "TRUE" if job["os_login"] else "FALSE",
        "block-project-ssh-keys": "TRUE",
        "serial-port-enable": "FALSE",
        images.INSTALL_DRIVER: "True",
    }
    return [{"key": key, "value": value} for key, value in values.items()]


def _properties(
    settings: ComputeSettings, job_id: str, spec: TrainingSpec, attempt: Attempt, candidate: Candidate,
    shape: Shape, fabric: Fabric | None,
) -> dict[str, Any]:  # fmt: skip
    reservation: dict[str, Any] = {"consumeReservationType": "NO_RESERVATION"}
    if candidate.provisioning_model in RESERVABLE:  # one that is open bills, whether somebody uses it or not
        reservation = {"consumeReservationType": "ANY_RESERVATION"}
        if spec.reservation not in (None, ANY_RESERVATION):
            named = {"key": RESERVATION_KEY, "values": [affinity_value(spec.reservation)]}
            reservation = {"consumeReservationType": "SPECIFIC_RESERVATION", **named}
    labels = our_labels(job_id, spec.labels)
    properties: dict[str, Any] = {
        "description": f"gputrain job {job_id}",
        "labels": {**labels, LABEL_ATTEMPT: attempt.id, LABEL_OWNER: settings.home_label},
        "machineType": shape.machine_type,
        "scheduling": _scheduling(candidate),
        "disks": [_boot_disk(spec, shape, labels, settings, fabric)],
        "networkInterfaces": networking.interfaces(fabric, settings, candidate.place),
        "serviceAccounts": [{"email": settings.service_account, "scopes": [SCOPE]}],
        "shieldedInstanceConfig": {
            "enableSecureBoot": settings.secure_boot,
            "enableVtpm": True,
            "enableIntegrityMonitoring": True,
        },
        "reservationAffinity": reservation,
    }
    if shape.is_attached:
        kind, count = shape.gpu.accelerator_type, int(shape.gpu_count)
        properties["guestAccelerators"] = [{"acceleratorType": kind, "acceleratorCount": count}]
    if settings.network_tags:
        properties["tags"] = {"items": list(settings.network_tags)}
    wants, policy = shape.machine.family.placement, settings.placement_policy
    if candidate.num_nodes > 1 and wants is CompactPlacement.NVLINK_DOMAIN and policy is None:
        raise invalid(
            "placement_policy",
            None,
            "a compact policy with a GPU topology: without one the VMs share no NVLink",
            "gcloud compute resource-policies create group-placement NAME --collocation collocated"
            " --gpu-topology 1x72 --region REGION; then placement_policy='NAME'",
        )
    if candidate.num_nodes > 1 and policy and wants is not CompactPlacement.BY_RESERVATION:
        properties["resourcePolicies"] = [policy]
    return properties


def _scheduling(candidate: Candidate) -> dict[str, Any]:
    model = candidate.provisioning_model or ProvisioningModel.STANDARD
    is_queued = candidate.provisioning_model is ProvisioningModel.FLEX_START and candidate.num_nodes > 1
    shortest_s = SHORTEST_QUEUED_S if is_queued else SHORTEST_LIMIT_S
    limit_s = max(int(candidate.max_run_duration.total_seconds()), shortest_s)
    scheduling: dict[str, Any] = {
        "provisioningModel": model.name,
        "maxRunDuration": {"seconds": str(limit_s)},
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",  # no machine with a GPU migrates live
        "automaticRestart": False,  # an attempt cannot take one VM back by itself
    }
    if model is ProvisioningModel.SPOT:
        scheduling["preemptionNoticeDuration"] = {"seconds": str(SPOT_NOTICE_S)}
    return scheduling


def _boot_disk(
    spec: TrainingSpec, shape: Shape, labels: Mapping[str, str], settings: ComputeSettings,
    fabric: Fabric | None,
) -> dict[str, Any]:  # fmt: skip
    sold, plugin = shape.machine.boot_disk_types, fabric.networking if fabric else None
    if settings.disk_type is not None and settings.disk_type not in sold:
        allowed = f"{' or '.join(sold)} on {shape.machine_type}"
        raise invalid("disk_type", settings.disk_type, allowed, "leave it out")
    return {
        "boot": True,
        "autoDelete": True,
        **({"diskEncryptionKey": {"kmsKeyName": settings.kms_key}} if settings.kms_key else {}),
        "initializeParams": {
            "sourceImage": images.choose(shape, settings, spec.image_name, plugin),
            "diskType": settings.disk_type or sold[0],
            "diskSizeGb": str(settings.disk_gib),
            "labels": dict(labels),
        },
    }


def _document(
    settings: ComputeSettings, addresses: Mapping[str, str], job_id: str, spec: TrainingSpec,
    attempt: Attempt, candidate: Candidate, bundle: Bundle, shape: Shape, fabric: Fabric | None,
) -> dict[str, Any]:  # fmt: skip
    """The document that the guest reads. Nothing in it is a secret: who may see the VM may read it."""
    bucket, own = settings.code_bucket, None
    if spec.runs_image:
        own = {"entrypoint": list(spec.entrypoint or ()), "args": list(spec.args)}
    return {
        "job_id": job_id,
        "attempt": attempt.id,
        "names": list(attempt.names),
        "record": bucket.object_name("records", f"{job_id}.json"),
        "folder": bucket.object_name("jobs", job_id, ""),
        "zone": candidate.place,
        "project": settings.project,
        "gpus": shape.api_gpu_count,
        "max_run_s": int(candidate.max_run_duration.total_seconds()),
        "driver_wait_s": settings.driver_wait_s,
        "boot_wait_s": BOOT_S,
        "is_queued": candidate.provisioning_model is ProvisioningModel.FLEX_START and candidate.num_nodes > 1,
        "image": spec.image_name,
        "as_it_is": own,
        "fabric": networking.document(fabric, settings),
        "python": settings.python,
        "os_login": settings.os_login,
        "storage": addresses["storage"],
        "compute": addresses["compute"],
        "bucket": bucket.name,
        "checkpoints": spec.checkpoint_dir or bucket.uri("jobs", job_id, "checkpoints"),
        "output": spec.output_dir or bucket.uri("jobs", job_id, "output"),
        "order": of_code(spec, bundle, bucket.name, addresses),
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
