"""The fields of a spec by name and type, as type checkers see them, and their closed sets of words."""

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
    """The node agent: one process a rank, with the environment that torchrun gives."""
    TENSORFLOW = "tensorflow"
    """The node agent: one process a node, with ``TF_CONFIG``."""
    NONE = "none"
    """The command itself: one process a node, run as it is."""


class EntryKind(enum.Enum):
    """What is run."""

    SCRIPT = "script"
    MODULE = "module"
    COMMAND = "command"
    FUNCTION = "function"


FilePath = str | os.PathLike[str]
Duration = str | timedelta
"""``"90m"``, ``"12h"``, or a timedelta."""
Gpu = str | int | GpuRequest
Model = ProvisioningModel | Literal["standard", "spot", "flex-start", "reservation-bound"]
LauncherWord = Launcher | Literal["torchrun-env", "tensorflow", "none"]


class PointFields(TypedDict, total=False):
    """What the jobs of an experiment have in common: it has its own name, and its own limit of costs."""

    script: FilePath | None
    module: str | None
    command: Sequence[str] | None
    function: Callable[..., object] | None
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
    min_nodes: int | None
    labels: Mapping[str, str] | None
    launcher: LauncherWord | None


class SpecFields(PointFields, total=False):
    """What `TrainingSpec` is made of, for those who hand its fields on; a test holds both equal."""

    max_cost: float | None
    name: str | None


NAMES = tuple(SpecFields.__annotations__)
DEFAULTS: SpecFields = {
    "args": (),
    "num_nodes": 1,
    "requirements": (),
    "keep_outputs": False,
    "max_run_duration": "1d",
    "max_restarts": 0,
}
"""All others are None."""
