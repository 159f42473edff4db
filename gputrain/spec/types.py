"""The fields of a spec by name and type, as type checkers see them."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict

from gputrain.catalog import ProvisioningModel
from gputrain.spec.gpu import GpuRequest
from gputrain.spec.image import Image


class Launcher(enum.Enum):
    """Who starts the ranks of a node."""

    TORCHRUN_ENV = "torchrun-env"
    """gputrain: one process per rank, with torchrun's environment variables."""
    TENSORFLOW = "tensorflow"
    """gputrain: one process per node, with ``TF_CONFIG``."""
    NONE = "none"
    """The command itself: one process per node, run as it is."""


class EntryKind(enum.Enum):
    """What is run."""

    SCRIPT = "script"
    MODULE = "module"
    COMMAND = "command"
    FUNCTION = "function"
    ENTRYPOINT = "entrypoint"
    """The image as it is."""


FilePath = str | os.PathLike[str]
Duration = str | timedelta
"""``"90m"``, ``"12h"``, or a timedelta."""
Gpu = str | int | GpuRequest
Model = ProvisioningModel | Literal["standard", "spot", "flex-start", "reservation-bound"]
LauncherWord = Launcher | Literal["torchrun-env", "tensorflow", "none"]


class PointFields(TypedDict, total=False):
    """What the jobs of an experiment share; the experiment has its own name and cost limit."""

    script: FilePath | None
    module: str | None
    command: Sequence[str] | None
    function: Callable[..., object] | None
    entrypoint: Sequence[str] | None
    args: Sequence[str]
    gpu: Gpu | Sequence[Gpu] | None
    num_nodes: int
    nproc_per_node: int | None
    provisioning_model: Model | Sequence[Model] | None
    reservation: str | None
    machine_type: str | None
    image: FilePath | Image | Mapping[str, Any] | None
    env: Mapping[str, str] | None
    secrets: Mapping[str, str] | None
    source_dir: FilePath | None
    requirements: FilePath | Sequence[str]
    checkpoint_dir: FilePath | None
    output_dir: FilePath | None
    keep_outputs: bool
    max_run_duration: Duration
    max_wait_duration: Duration | None
    hang_timeout: Duration | None
    max_restarts: int
    price_per_hour: float | None
    min_nodes: int | None
    labels: Mapping[str, str] | None
    launcher: LauncherWord | None


class SpecFields(PointFields, total=False):
    """The arguments of `TrainingSpec`; a test holds both equal."""

    max_cost: float | None
    name: str | None


_OTHER_NAMES = {
    "gpu='H100:2', which is the GPU and how many per node": "gpus num_gpus ngpus gpu_count gpu_type"
    " gpus_per_node accelerator accelerators accelerator_type accelerator_count",
    "num_nodes": "nodes nnodes num_machines machines replica_count node_count",
    "nproc_per_node": "nproc num_processes num_procs ranks ranks_per_node processes_per_node",
    "provisioning_model='spot'": "spot use_spot preemptible",
    "provisioning_model": "strategy capacity_type",
    "machine_type": "instance_type instance machine vm_type",
    "max_run_duration": "timeout time time_limit max_runtime max_duration walltime",
    "max_wait_duration": "max_wait queue_timeout",
    "max_restarts": "retries max_retries restarts",
    "max_cost": "budget max_price cost",
    "image": "container docker_image container_image image_uri",
    "command": "cmd",
    "script": "file entry_script train_script entry_point",
    "args": "arguments script_args argv",
    "env": "envs environment env_vars environment_variables",
    "secrets": "secret secret_env",
    "source_dir": "workdir working_dir code code_dir",
    "requirements": "packages pip_packages dependencies requirements_file",
    "output_dir": "outputs output base_output_dir base_output_directory",
    "checkpoint_dir": "checkpoints checkpoint",
    "labels": "label tags",
    "name": "job_name display_name",
    "region of a backend, as in VertexAI('my-project', 'us-central1')": "region regions zone zones location",
    "project of a backend, as in VertexAI('my-project', 'us-central1')": "project project_id",
    "bucket of a backend, as in VertexAI(..., bucket='gs://my-bucket')": "bucket staging_bucket",
}
SYNONYMS = {other: ours for ours, others in _OTHER_NAMES.items() for other in others.split()}
"""What other launchers call a field -> what to write here. The command line uses the same table."""
