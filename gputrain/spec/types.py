"""The fields of a spec by name and type, as type checkers see them."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, Literal, TypedDict

from gputrain.catalog import ProvisioningModel
from gputrain.catalog.load import toml
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


@cache
def synonyms() -> dict[str, str]:
    """What other launchers call a field -> what to write here."""
    table = toml(__package__, "synonyms.toml")
    return {other: ours for ours, others in table.items() for other in others.split()}
