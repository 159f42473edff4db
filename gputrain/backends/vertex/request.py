"""The request that makes one custom job. Pure: the same attempt gives the same JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

import attrs

from gputrain.backends.agent_reports import as_word, of_agents, of_code
from gputrain.backends.base import Bundle
from gputrain.backends.google import RESERVATION_KEY, check_image, shape_of
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.catalog import (
    ANY_RESERVATION,
    ProvisioningModel,
    Service,
    Shape,
    default_image,
    nccl_defaults,
)
from gputrain.entrypoint import contract
from gputrain.errors import FieldError, SpecError
from gputrain.google import LABEL_ATTEMPT, LABEL_OWNER, our_labels
from gputrain.google.storage import BucketPrefix
from gputrain.jobstore import Attempt
from gputrain.keeper import texts
from gputrain.planning import Candidate, GcloudJob
from gputrain.spec import TrainingSpec
from gputrain.spec.gcloud import STRATEGIES

_OF_RECORDS = (LABEL_ATTEMPT, LABEL_OWNER)
_RESERVABLE = (ProvisioningModel.STANDARD, ProvisioningModel.RESERVATION_BOUND)


@attrs.frozen(kw_only=True)
class CustomJob:
    """One attempt of a job, to be written as a ``CustomJob`` in the REST API's own JSON."""

    settings: VertexSettings
    spec: TrainingSpec
    candidate: Candidate
    job_id: str
    attempt: Attempt
    bundle: Bundle
    addresses: Mapping[str, str]
    """Where the container finds Cloud Storage and Secret Manager."""

    def body(self) -> dict[str, Any]:
        """``{"parent": ..., "customJob": ...}``."""
        settings = self.settings
        job: dict[str, Any] = {
            "displayName": self.attempt.names[0].removesuffix("-0"),
            "labels": {
                **our_labels(self.job_id, self.spec.labels),
                LABEL_ATTEMPT: self.attempt.id,
                LABEL_OWNER: settings.home_label,
            },
            "jobSpec": self._job_spec(),
        }
        if settings.kms_key is not None:
            job["encryptionSpec"] = {"kmsKeyName": settings.kms_key}
        return {"parent": f"projects/{settings.project}/locations/{self.candidate.place}", "customJob": job}

    def _job_spec(self) -> dict[str, Any]:
        settings = self.settings
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
        if self.candidate.place == settings.home:  # Vertex AI refuses the bucket of another region
            chosen["baseOutputDirectory"] = {"outputUriPrefix": self._folder}
        return {
            "workerPoolSpecs": self._pools(),
            "scheduling": self._scheduling(),
            **{name: value for name, value in chosen.items() if value is not None},
        }

    def _pools(self) -> list[dict[str, Any]]:
        """The chief, the workers where there are any, and the reduction server where one is wanted."""
        settings, nodes = self.settings, self.candidate.num_nodes
        pool: dict[str, Any] = {
            "machineSpec": self._machine(),
            "diskSpec": self._disk(),
            "containerSpec": self._container(),
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

    def _machine(self) -> dict[str, Any]:
        machine: dict[str, Any] = {
            "machineType": self._shape.machine_type,
            "acceleratorType": self._shape.gpu.vertex_accelerator_type,
            "acceleratorCount": int(self._shape.gpu_count),
        }
        reservation = self.spec.reservation
        if reservation is None or self.candidate.provisioning_model not in _RESERVABLE:
            return machine
        if reservation == ANY_RESERVATION:
            machine["reservationAffinity"] = {"reservationAffinityType": "ANY_RESERVATION"}
        else:
            machine["reservationAffinity"] = {
                "reservationAffinityType": "SPECIFIC_RESERVATION",
                "key": RESERVATION_KEY,
                "values": [reservation],
            }
        return machine

    def _disk(self) -> dict[str, Any]:
        sold = self._shape.machine.boot_disk_types
        kind = self.settings.disk_type or ("pd-ssd" if "pd-ssd" in sold else "hyperdisk-balanced")
        return {"bootDiskType": kind, "bootDiskSizeGb": self.settings.disk_gib}

    def _container(self) -> dict[str, Any]:
        if self.spec.runs_image:
            return self._image_as_it_is()
        env = {**nccl_defaults(self._shape), **self.spec.env, **self._environment()}
        order = of_code(self.spec, self.bundle, self._bucket.name, self.addresses)
        apart = in_the_order(env)
        return {
            "imageUri": image_for(self.spec.image_name, self._shape),
            "command": ["python3", "-c", loader()],
            "args": [as_word({**order, "env": apart} if apart else order)],
            "env": [{"name": name, "value": env[name]} for name in sorted(env) if name not in apart],
        }

    def _image_as_it_is(self) -> dict[str, Any]:
        """The image with its own entry point: nothing of ours is in it but where its results go."""
        env = {**nccl_defaults(self._shape), **self.spec.env, contract.JOB_ID: self.job_id, **self._places()}
        words = {"command": list(self.spec.entrypoint or ()), "args": list(self.spec.args)}
        return {
            "imageUri": image_for(self.spec.image_name, self._shape),
            **{name: value for name, value in words.items() if value},
            "env": [{"name": name, "value": env[name]} for name in sorted(env)],
        }

    def _places(self) -> dict[str, str]:
        return {
            contract.CHECKPOINT_DIR: _mounted(self.spec.checkpoint_dir or f"{self._folder}checkpoints/"),
            contract.OUTPUT_DIR: _mounted(self.spec.output_dir or f"{self._folder}output/"),
        }

    def _environment(self) -> dict[str, str]:
        """What the container's own code reads: its job, its record, and the claim of its attempt.

        Where the nodes are it finds out from Vertex AI's own variables.
        """
        return {
            contract.JOB_ID: self.job_id,
            contract.NPROC_PER_NODE: str(self.candidate.nproc_per_node),
            **of_agents(self.spec),
            **self._places(),
            contract.RECORD: self._bucket.object_name("records", f"{self.job_id}.json"),
            contract.ATTEMPT_ID: self.attempt.id,
            contract.CLAIM: claim_of(self._bucket, self.job_id, self.attempt.id),
        }

    def _scheduling(self) -> dict[str, Any]:
        model = self.candidate.provisioning_model or ProvisioningModel.STANDARD
        scheduling: dict[str, Any] = {
            "timeout": _seconds(self.candidate.max_run_duration),
            "strategy": STRATEGIES[model],
        }
        if self.spec.max_restarts == 0:
            scheduling["disableRetries"] = True
        else:
            scheduling["restartJobOnWorkerRestart"] = True  # nodes cannot take one of them back
        if model is ProvisioningModel.FLEX_START:
            scheduling["maxWaitDuration"] = _seconds(self.spec.longest_queue)
        return scheduling

    @property
    def _bucket(self) -> BucketPrefix:
        return self.settings.code_bucket

    @property
    def _folder(self) -> str:
        """The ``gs://`` folder of the job; ends in ``/``."""
        return self._bucket.uri("jobs", self.job_id, "")

    @property
    def _shape(self) -> Shape:
        return shape_of(self.candidate, Service.VERTEX)


def in_the_order(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that travel in the container's argument: Vertex AI replaces $(NAME) in all others.

    Source: aiplatform v1 protos, ``EnvVar.value``, read 2026-11-23.
    """
    return {name: value for name, value in env.items() if "$" in value}


@cache
def loader() -> str:
    """The constant lines that a container runs first, without comments."""
    return "".join(line for line in texts.loader().splitlines(keepends=True) if not line.startswith("#"))


def claim_of(bucket: BucketPrefix, job_id: str, attempt_id: str) -> str:
    """The object that only one of two jobs of the same attempt can create."""
    return bucket.object_name("jobs", job_id, attempt_id, "claim")


def _mounted(place: str) -> str:
    """Where a container sees a bucket. Source: Vertex AI code requirements, read 2026-11-20."""
    return "/gcs/" + place.removeprefix("gs://") if place.startswith("gs://") else place


def _seconds(duration: timedelta) -> str:
    return f"{int(duration.total_seconds())}s"


def with_images(body: Mapping[str, Any], known: Callable[[str], str]) -> dict[str, Any]:
    """The body with the trainers' images as they are known today; the reduction server's is Google's own."""
    job = body["customJob"]
    specs = job["jobSpec"]["workerPoolSpecs"]
    pools = [*(_with_image(pool, known) for pool in specs[:2]), *specs[2:]]
    return {**body, "customJob": {**job, "jobSpec": {**job["jobSpec"], "workerPoolSpecs": pools}}}


def image_of(body: Mapping[str, Any]) -> str:
    """What the ranks of a body run in."""
    image: str = body["customJob"]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"]
    return image


def _with_image(pool: Mapping[str, Any], known: Callable[[str], str]) -> Mapping[str, Any]:
    container = pool["containerSpec"]
    return {**pool, "containerSpec": {**container, "imageUri": known(container["imageUri"])}}


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
    missing = FieldError(field="image", value="None", expected=allowed, fix=fix)
    raise SpecError(f"no default image runs {shape.gpu.kind}: {missing}", faults=(missing,))


def to_gcloud(body: Mapping[str, Any]) -> GcloudJob:
    """The request of one custom job as a file and a command.

    Nothing in it names a record, as gcloud writes none: else the job would leave, or a clean-up end it.

    Args:
        body: as of `CustomJob.body`.
    """
    _, project, _, region = body["parent"].split("/")
    job = body["customJob"]
    kept = {name: job["labels"][name] for name in sorted(job["labels"]) if name not in _OF_RECORDS}
    labels = ",".join(f"{name}={value}" for name, value in kept.items())
    command = ["gcloud", "ai", "custom-jobs", "create", "--project", project, "--region", region]
    command += ["--display-name", job["displayName"], "--labels", labels, "--config", "config.yaml"]
    if "encryptionSpec" in job:
        command += ["--kms-key", job["encryptionSpec"]["kmsKeyName"]]
    pools = [_without_record(pool) for pool in job["jobSpec"]["workerPoolSpecs"]]
    config = "\n".join(_yaml({**job["jobSpec"], "workerPoolSpecs": pools}))
    return GcloudJob(config=config + "\n", command=tuple(command))


def _without_record(pool: Mapping[str, Any]) -> Mapping[str, Any]:
    container = pool["containerSpec"]
    if "env" not in container:
        return pool
    env = [one for one in container["env"] if one["name"] != contract.RECORD]
    return {**pool, "containerSpec": {**container, "env": env}}


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
                lines.append(f"{indent}- {_scalar(one)}")
    return lines


def _entry(head: str, one: Any, indent: str) -> list[str]:
    if isinstance(one, (Mapping, list)) and one:
        return [head, *_yaml(one, indent + "  ")]
    return [f"{head} {_scalar(one)}"]


def _scalar(one: Any) -> str:
    """JSON's way, but for letters beyond ASCII: YAML puts JSON's two halves of one together no more."""
    if not isinstance(one, str):
        return json.dumps(one)
    letters = (json.dumps(each)[1:-1] if each.isascii() else f"\\U{ord(each):08x}" for each in one)
    return '"' + "".join(letters) + '"'
