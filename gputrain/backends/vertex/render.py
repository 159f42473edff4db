"""The request that makes one custom job. Pure: the same spec gives the same JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

import attrs

from gputrain.backends.base import Start
from gputrain.backends.google import RESERVATION_KEY, shape_of
from gputrain.backends.results import as_word, of_agents, of_code
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.backends.vertex.states import LABEL_REGION
from gputrain.catalog import ANY_RESERVATION, ProvisioningModel, Service, Shape, image_faults, nccl_defaults
from gputrain.catalog.images import release
from gputrain.entrypoint import contract
from gputrain.errors import Fault, SpecError
from gputrain.fields import refused
from gputrain.gcp import LABEL_GANG, LABEL_HOME, our_labels
from gputrain.gcp.buckets import BucketPrefix
from gputrain.keeper import texts
from gputrain.planning import Candidate
from gputrain.spec import TrainingSpec
from gputrain.spec.gcloud import STRATEGIES


def custom_job(start: Start, settings: VertexSettings, addresses: Mapping[str, str]) -> dict[str, Any]:
    """A ``CustomJob`` in the REST API's own JSON.

    Args:
        start: what, where, under which name, and the code.
        settings: the project's choices.
        addresses: where the container finds Cloud Storage and Secret Manager.
    """
    spec, candidate, job_id = start.spec, start.candidate, start.job_id
    asked = {LABEL_GANG: start.nonce, LABEL_HOME: settings.home_label}
    body: dict[str, Any] = {
        "displayName": job_id,
        "labels": {**our_labels(job_id, spec.labels), **_region_labels(settings), **_told(asked)},
        "jobSpec": {
            "workerPoolSpecs": _pools(start, settings, addresses),
            "scheduling": _scheduling(spec, candidate),
            **_network(settings),
        },
    }
    job_spec = body["jobSpec"]
    output = _base_output(candidate, job_id, settings)
    if output:
        job_spec["baseOutputDirectory"] = {"outputUriPrefix": output}
    for field, value in (
        ("serviceAccount", settings.service_account),
        ("tensorboard", settings.tensorboard),
        ("persistentResourceId", settings.persistent_resource),
        ("experiment", settings.experiment),
        ("experimentRun", settings.experiment_run),
        ("enableWebAccess", settings.enable_web_access or None),
    ):
        if value is not None:
            job_spec[field] = value
    if settings.kms_key is not None:
        body["encryptionSpec"] = {"kmsKeyName": settings.kms_key}
    return body


def with_images(body: Mapping[str, Any], known: Callable[[str], str]) -> dict[str, Any]:
    """The body with the trainers' images as they are known today; the reduction server's is Google's own."""
    job = body["customJob"]
    pools = [_with_image(pool, known) for pool in job["jobSpec"]["workerPoolSpecs"]]
    return {**body, "customJob": {**job, "jobSpec": {**job["jobSpec"], "workerPoolSpecs": pools}}}


def image_of(body: Mapping[str, Any]) -> str:
    """What the ranks of a body run in."""
    image: str = body["customJob"]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"]
    return image


def _with_image(pool: Mapping[str, Any], known: Callable[[str], str]) -> Mapping[str, Any]:
    container = pool["containerSpec"]
    if "args" not in container:
        return pool
    return {**pool, "containerSpec": {**container, "imageUri": known(container["imageUri"])}}


def _told(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if value}


def _region_labels(settings: VertexSettings) -> dict[str, str]:
    """Where a watcher that knows nothing but the job's name may look for it, and may make it again."""
    places = settings.regions if len(settings.regions) > 1 else ()
    return {f"{LABEL_REGION}{number}": place for number, place in enumerate(places)}


def folder_of(bucket: BucketPrefix, job_id: str) -> str:
    """The ``gs://`` folder that belongs to one job; ends in ``/``."""
    return bucket.uri("jobs", job_id, "")


def lock_of(bucket: BucketPrefix, job_id: str) -> str:
    """The object that only one job of the same id can create."""
    return bucket.object_name("jobs", job_id, "lock")


@cache
def loader() -> str:
    """The constant lines that a container runs first, without comments."""
    return "".join(line for line in texts.loader().splitlines(keepends=True) if not line.startswith("#"))


def _pools(start: Start, settings: VertexSettings, addresses: Mapping[str, str]) -> list[dict[str, Any]]:
    """The chief, the workers where there are any, and the reduction server where one is wanted."""
    candidate = start.candidate
    pool = {
        "machineSpec": _machine(start.spec, candidate),
        "diskSpec": _disk(candidate, settings),
        "containerSpec": _container(start, settings, addresses),
        **_mounts(settings),
    }
    pools = [{**pool, "replicaCount": "1"}]
    if candidate.num_nodes > 1:
        pools.append({**pool, "replicaCount": str(candidate.num_nodes - 1)})
        server = settings.reduction_server
        if server is not None:
            pools.append(
                {
                    "machineSpec": {"machineType": server.machine_type},
                    "replicaCount": str(server.replicas),
                    "containerSpec": {"imageUri": server.image},
                }
            )
    return pools


def _mounts(settings: VertexSettings) -> dict[str, Any]:
    shares = [
        {"server": one.server, "path": one.path, "mountPoint": one.mount_point} for one in settings.nfs_mounts
    ]
    return {"nfsMounts": shares} if shares else {}


def _machine(spec: TrainingSpec, candidate: Candidate) -> dict[str, Any]:
    shape = shape_of(candidate, Service.VERTEX)
    machine: dict[str, Any] = {
        "machineType": shape.machine_type,
        "acceleratorType": shape.gpu.vertex_accelerator_type,
        "acceleratorCount": int(shape.gpu_count),
    }
    reserves = (ProvisioningModel.STANDARD, ProvisioningModel.RESERVATION_BOUND)
    if spec.reservation == ANY_RESERVATION and candidate.provisioning_model in reserves:
        machine["reservationAffinity"] = {"reservationAffinityType": "ANY_RESERVATION"}
    elif spec.reservation is not None and candidate.provisioning_model in reserves:
        machine["reservationAffinity"] = {
            "reservationAffinityType": "SPECIFIC_RESERVATION",
            "key": RESERVATION_KEY,
            "values": [spec.reservation],
        }
    return machine


def _disk(candidate: Candidate, settings: VertexSettings) -> dict[str, Any]:
    sold = shape_of(candidate, Service.VERTEX).machine.boot_disk_types
    kind = settings.disk_type or ("pd-ssd" if "pd-ssd" in sold else "hyperdisk-balanced")
    return {"bootDiskType": kind, "bootDiskSizeGb": settings.disk_gib}


def _container(start: Start, settings: VertexSettings, addresses: Mapping[str, str]) -> dict[str, Any]:
    spec, candidate, bucket = start.spec, start.candidate, settings.code_bucket
    shape = shape_of(candidate, Service.VERTEX)
    usual = {**nccl_defaults(shape), **({} if spec.image_name else OF_PREBUILT)}
    env = {**usual, **spec.env, **_environment(start, bucket)}
    apart = of_order(env)
    order = {**of_code(spec, start.bundle, bucket.name, addresses), "lock": lock_of(bucket, start.job_id)}
    return {
        "imageUri": image_for(spec.image_name, shape),
        "command": ["python3", "-c", loader()],
        "args": [as_word({**order, "env": apart} if apart else order)],
        "env": [{"name": name, "value": env[name]} for name in sorted(env) if name not in apart],
    }


def of_order(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that a container does not get as they are: $(NAME) in them is another one's value there.

    Source: aiplatform v1 protos, ``EnvVar.value``, read 2026-11-23. They travel in the order.
    """
    return {name: value for name, value in env.items() if "$" in value}


def _environment(start: Start, bucket: BucketPrefix) -> dict[str, str]:
    """What the node agent reads; where the nodes are it finds out from Vertex AI's own variables."""
    spec, folder = start.spec, folder_of(bucket, start.job_id)
    return {
        contract.JOB_ID: start.job_id,
        contract.NPROC_PER_NODE: str(start.candidate.nproc_per_node),
        **of_agents(spec),
        contract.CHECKPOINT_DIR: _mounted(spec.checkpoint_dir or f"{folder}checkpoints/"),
        contract.OUTPUT_DIR: _mounted(spec.output_dir or f"{folder}model/"),
    }


def _mounted(place: str) -> str:
    """Where a container sees a bucket. Source: Vertex AI code requirements, read 2026-11-20."""
    return "/gcs/" + place.removeprefix("gs://") if place.startswith("gs://") else place


def _base_output(candidate: Candidate, job_id: str, settings: VertexSettings) -> str:
    """Only for a job in the bucket's own region: Vertex AI refuses any other."""
    return folder_of(settings.code_bucket, job_id) if candidate.place == settings.home else ""


def _scheduling(spec: TrainingSpec, candidate: Candidate) -> dict[str, Any]:
    model = candidate.provisioning_model or ProvisioningModel.STANDARD
    scheduling: dict[str, Any] = {
        "timeout": _seconds(candidate.max_run_duration),
        "strategy": STRATEGIES[model],
    }
    if spec.max_restarts == 0:
        scheduling["disableRetries"] = True
    else:
        scheduling["restartJobOnWorkerRestart"] = True  # a gang cannot take one worker back by itself
    if model is ProvisioningModel.FLEX_START:
        scheduling["maxWaitDuration"] = _seconds(spec.longest_queue)
    return scheduling


def _seconds(duration: timedelta) -> str:
    return f"{int(duration.total_seconds())}s"


def _network(settings: VertexSettings) -> dict[str, Any]:
    if settings.network is not None:
        return {"network": settings.network}
    if settings.network_attachment is not None:
        return {"pscInterfaceConfig": {"networkAttachment": settings.network_attachment}}
    return {}


@attrs.frozen(kw_only=True)
class Prebuilt:
    """One container image with Python and PyTorch."""

    uri: str
    torch: str
    python: str
    cuda: str


PREBUILT: tuple[Prebuilt, ...] = (
    Prebuilt(
        uri="us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest",
        torch="2.4", python="3.10", cuda="12.4",
    ),
)  # fmt: skip
"""Newest first. Source: Vertex AI's list of prebuilt containers, by general knowledge, not re-read."""


OF_PREBUILT = {"USE_TORCH_XLA": "0"}
"""What the prebuilt ones need: some bring torch_xla, by which transformers and accelerate then train, and are
slow or end with SIGABRT on GPUs; both obey this. Source: two public projects that remove it from 2-2, read
2026-11-22; whether 2-4 has it is not known."""


def image_for(image: str | None, shape: Shape) -> str:
    """The image to run: the user's own, or the newest prebuilt one that knows the GPU.

    Raises:
        SpecError: the user's image cannot run this GPU, or no prebuilt one can.
    """
    if image is not None:
        certain = [fault for fault in image_faults(image, shape) if fault.is_certain]
        if certain:
            raise refused("image", image, certain[0].why, certain[0].fix, what=certain[0].what)
        return image
    for one in PREBUILT:
        fits_cpu = shape.machine.cpu_architecture == "x86_64"
        if fits_cpu and release(one.cuda) >= release(shape.gpu.min_cuda):
            return one.uri
    allowed = f"an image with CUDA {shape.gpu.min_cuda} or newer for {shape.machine.cpu_architecture}"
    fix = "image='REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE@sha256:...'"
    missing = Fault(field="image", value="None", allowed=allowed, fix=fix)
    raise SpecError(f"no prebuilt container runs {shape.gpu.kind}: {missing}", faults=(missing,))
