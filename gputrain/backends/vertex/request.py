"""The request that makes one custom job. Pure: the same attempt gives the same JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from gputrain.backends.agent_reports import as_word, of_agents, of_code
from gputrain.backends.base import Bundle
from gputrain.backends.google import RESERVABLE, RESERVATION_KEY, check_image, shape_of
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.catalog import (
    ANY_RESERVATION,
    ProvisioningModel,
    Service,
    Shape,
    default_image,
    nccl_defaults,
)
from gputrain.fields import invalid
from gputrain.google import LABEL_ATTEMPT, LABEL_OWNER, our_labels
from gputrain.google.storage import BucketPrefix
from gputrain.jobstore import Attempt
from gputrain.planning import Candidate, GcloudJob
from gputrain.runtime import contract, zipapp
from gputrain.spec import TrainingSpec
from gputrain.spec.gcloud import STRATEGIES

_OF_RECORDS = (LABEL_ATTEMPT, LABEL_OWNER)
loader = cache(zipapp.loader)


def custom_job(
    settings: VertexSettings, spec: TrainingSpec, candidate: Candidate, job_id: str, attempt: Attempt,
    bundle: Bundle, addresses: Mapping[str, str], by_digest: Callable[[str], str] = lambda image: image,
) -> dict[str, Any]:  # fmt: skip
    """``{"parent": ..., "customJob": ...}`` of one attempt, in the REST API's own JSON.

    Args:
        addresses: where the container finds Cloud Storage and Secret Manager.
        by_digest: the name of an image by what its tag means today.

    Raises:
        SpecError: the image cannot run this GPU, or none is known that can.
    """
    shape = shape_of(candidate, Service.VERTEX)
    container = _container(settings, spec, candidate, job_id, attempt, bundle, addresses)
    container["imageUri"] = by_digest(image_for(spec.image_name, shape))
    chosen: dict[str, Any] = {
        "network": settings.network,
        "pscInterfaceConfig": settings.network_attachment
        and {"networkAttachment": settings.network_attachment},
        "serviceAccount": settings.service_account,
        "tensorboard": settings.tensorboard,
        "persistentResourceId": settings.persistent_resource,
        "experiment": settings.experiment,
        "experimentRun": settings.experiment_run,
        "enableWebAccess": settings.enable_web_access or None,
    }
    if candidate.place == settings.home:  # Vertex AI refuses the bucket of another region
        folder = settings.code_bucket.uri("jobs", job_id, "")
        chosen["baseOutputDirectory"] = {"outputUriPrefix": folder}
    labels = {LABEL_ATTEMPT: attempt.id, LABEL_OWNER: settings.home_label}
    job: dict[str, Any] = {
        "displayName": attempt.names[0].removesuffix("-0"),
        "labels": {**our_labels(job_id, spec.labels), **labels},
        "jobSpec": {
            "workerPoolSpecs": _pools(settings, spec, candidate, shape, container),
            "scheduling": _scheduling(spec, candidate),
            **{name: value for name, value in chosen.items() if value is not None},
        },
    }
    if settings.kms_key is not None:
        job["encryptionSpec"] = {"kmsKeyName": settings.kms_key}
    return {"parent": f"projects/{settings.project}/locations/{candidate.place}", "customJob": job}


def _pools(
    settings: VertexSettings, spec: TrainingSpec, candidate: Candidate, shape: Shape,
    container: Mapping[str, Any],
) -> list[dict[str, Any]]:  # fmt: skip
    """The chief, the workers where there are any, and the reduction server where one is wanted."""
    nodes, sold = candidate.num_nodes, shape.machine.boot_disk_types
    machine: dict[str, Any] = {
        "machineType": shape.machine_type,
        "acceleratorType": shape.gpu.vertex_accelerator_type,
        "acceleratorCount": int(shape.gpu_count),
    }
    if spec.reservation is not None and candidate.provisioning_model in RESERVABLE:
        named = {"key": RESERVATION_KEY, "values": [spec.reservation]}
        machine["reservationAffinity"] = (
            {"reservationAffinityType": "ANY_RESERVATION"}
            if spec.reservation == ANY_RESERVATION
            else {"reservationAffinityType": "SPECIFIC_RESERVATION", **named}
        )
    disk = settings.disk_type or ("pd-ssd" if "pd-ssd" in sold else "hyperdisk-balanced")
    pool: dict[str, Any] = {
        "machineSpec": machine,
        "diskSpec": {"bootDiskType": disk, "bootDiskSizeGb": settings.disk_gib},
        "containerSpec": container,
    }
    if settings.nfs_mounts:
        pool["nfsMounts"] = [
            {"server": one.server, "path": one.path, "mountPoint": one.mount_point}
            for one in settings.nfs_mounts
        ]
    pools = [{**pool, "replicaCount": "1"}]
    if nodes > 1:
        pools.append({**pool, "replicaCount": str(nodes - 1)})
    server = settings.reduction_server
    if nodes > 1 and server is not None:
        pools.append(
            {
                "machineSpec": {"machineType": server.machine_type},
                "replicaCount": str(server.replicas),
                "containerSpec": {"imageUri": server.image},
            }
        )
    return pools


def _container(
    settings: VertexSettings, spec: TrainingSpec, candidate: Candidate, job_id: str, attempt: Attempt,
    bundle: Bundle, addresses: Mapping[str, str],
) -> dict[str, Any]:  # fmt: skip
    """What runs, without its image. It reads its job, its record and the claim of its attempt from variables;
    where the nodes are it finds out from Vertex AI's own.
    """
    bucket, shape = settings.code_bucket, shape_of(candidate, Service.VERTEX)
    folder = bucket.uri("jobs", job_id, "")
    ours = {
        contract.JOB_ID: job_id,
        contract.CHECKPOINT_DIR: _mounted(spec.checkpoint_dir or f"{folder}checkpoints/"),
        contract.OUTPUT_DIR: _mounted(spec.output_dir or f"{folder}output/"),
    }
    env = {**nccl_defaults(shape), **spec.env, **ours}
    if spec.runs_image:  # with its own entry point: we add nothing but where its results go
        words = {"command": list(spec.entrypoint or ()), "args": list(spec.args)}
        return {**{name: value for name, value in words.items() if value}, "env": _env(env)}
    env |= {
        contract.NPROC_PER_NODE: str(candidate.nproc_per_node),
        **of_agents(spec),
        contract.RECORD: bucket.object_name("records", f"{job_id}.json"),
        contract.ATTEMPT_ID: attempt.id,
        contract.CLAIM: claim_of(bucket, job_id, attempt.id),
    }
    order, apart = of_code(spec, bundle, bucket.name, addresses), in_the_order(env)
    return {
        "command": ["python3", "-c", loader()],
        "args": [as_word({**order, "env": apart} if apart else order)],
        "env": _env({name: value for name, value in env.items() if name not in apart}),
    }


def _env(env: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": env[name]} for name in sorted(env)]


def _scheduling(spec: TrainingSpec, candidate: Candidate) -> dict[str, Any]:
    model = candidate.provisioning_model or ProvisioningModel.STANDARD
    scheduling: dict[str, Any] = {
        "timeout": _seconds(candidate.max_run_duration),
        "strategy": STRATEGIES[model],
    }
    if spec.max_restarts == 0:
        scheduling["disableRetries"] = True
    else:
        scheduling["restartJobOnWorkerRestart"] = True  # nodes cannot take one of them back
    if model is ProvisioningModel.FLEX_START:
        scheduling["maxWaitDuration"] = _seconds(spec.longest_queue)
    return scheduling


def in_the_order(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that travel in the container's argument: Vertex AI replaces $(NAME) in all others.

    Source: aiplatform v1 protos, ``EnvVar.value``, read 2026-11-23.
    """
    return {name: value for name, value in env.items() if "$" in value}


def claim_of(bucket: BucketPrefix, job_id: str, attempt_id: str) -> str:
    """The object that only one of two jobs of the same attempt can create."""
    return bucket.object_name("jobs", job_id, attempt_id, "claim")


def _mounted(place: str) -> str:
    """Where a container sees a bucket. Source: Vertex AI code requirements, read 2026-11-20."""
    return "/gcs/" + place.removeprefix("gs://") if place.startswith("gs://") else place


def _seconds(duration: timedelta) -> str:
    return f"{int(duration.total_seconds())}s"


def image_for(image: str | None, shape: Shape) -> str:
    """The image to run: the user's own, or the catalog's default for the GPU.

    Raises:
        SpecError: the user's image cannot run this GPU, or no default is known that can.
    """
    if image is not None:
        check_image(image, shape, Service.VERTEX)
        return image
    default = default_image(shape, Service.VERTEX)
    if default is not None:
        return default
    allowed = f"an image with CUDA {shape.gpu.min_cuda} or newer for {shape.machine.cpu_architecture}"
    fix = "image='REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE@sha256:...'"
    raise invalid("image", None, allowed, fix, what=f"no default image runs {shape.gpu.kind}")


def to_gcloud(body: Mapping[str, Any]) -> GcloudJob:
    """The request of one custom job as a file and a command.

    Nothing in it names a record, as gcloud writes none: else the job would leave, or a clean-up end it.

    Args:
        body: as of `custom_job`.
    """
    _, project, _, region = body["parent"].split("/")
    job = body["customJob"]
    labels = ",".join(
        f"{name}={job['labels'][name]}" for name in sorted(job["labels"]) if name not in _OF_RECORDS
    )
    command = ["gcloud", "ai", "custom-jobs", "create", "--project", project, "--region", region]
    command += ["--display-name", job["displayName"], "--labels", labels, "--config", "config.yaml"]
    if "encryptionSpec" in job:
        command += ["--kms-key", job["encryptionSpec"]["kmsKeyName"]]
    pools = [_without_record(pool) for pool in job["jobSpec"]["workerPoolSpecs"]]
    config = json.dumps({**job["jobSpec"], "workerPoolSpecs": pools}, indent=2, ensure_ascii=False) + "\n"
    plain = (one if one == "\n" or " " <= one <= "~" else f"\\U{ord(one):08x}" for one in config)
    return GcloudJob(config="".join(plain), command=tuple(command))  # JSON is YAML


def _without_record(pool: Mapping[str, Any]) -> Mapping[str, Any]:
    container = pool["containerSpec"]
    if "env" not in container:
        return pool
    env = [one for one in container["env"] if one["name"] != contract.RECORD]
    return {**pool, "containerSpec": {**container, "env": env}}
