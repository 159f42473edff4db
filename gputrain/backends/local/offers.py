"""What this machine can run, and what a spec may ask for that only a cloud has."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Container, Sequence
from importlib.util import find_spec

from gputrain import catalog, staging
from gputrain.backends.local import requirements
from gputrain.backends.local.gpus import LocalGpu
from gputrain.catalog import Price, ProvisioningModel
from gputrain.planning import Limit, Offer, Supply
from gputrain.spec import TrainingSpec

NAME = "local"
MACHINE = "this-machine"  # the place, too; which folder it is, `doctor` tells
MAX_CPU_NODES = 16
"""Enough to try any layout of nodes; each is two processes or more, so a slip in num_nodes stays cheap."""

_FREE = Price(usd_h=0.0, source="this machine", date="")


def supply(gpus: Sequence[LocalGpu]) -> Supply:
    """Each kind and count of GPU, most first: a spec without ``gpu`` gets them all; then CPU ranks."""
    offers = [
        _offer(kind, count, number // count)
        for kind, number in Counter(gpu.kind for gpu in gpus).items()
        for count in range(number, 0, -1)
    ]
    offers.append(_offer(None, 0, MAX_CPU_NODES))
    own = {gpu.kind for gpu in gpus}
    return Supply(
        backend=NAME, offers=tuple(offers), limits=LIMITS, find_gpu=lambda kind: _find_gpu(kind, own)
    )


def _find_gpu(kind: str, own: Container[str]) -> None:
    """Any card that is here or that some table knows may be asked for; another name is a slip of the pen."""
    if kind not in own and catalog.not_sold(kind) is None:
        catalog.find(kind)


def _offer(kind: str | None, count: int, max_nodes: int) -> Offer:
    return Offer(
        gpu=kind,
        gpu_count=count,
        machine_type=MACHINE,
        provisioning_models=(),
        places=(MACHINE,),
        price_of=_free,
        max_nodes=max_nodes,
    )


def _free(_place: str, _model: ProvisioningModel | None) -> Price:
    return _FREE


def _on_cloud_storage(path: str | None) -> bool:
    return path is not None and "://" in path


def _cannot_install(spec: TrainingSpec) -> bool:
    missing = requirements.missing(spec.requirements, staging.folder_of(spec))
    return bool(missing) and find_spec("pip") is None


LIMITS = (
    Limit(
        field="image",
        asks=lambda spec: spec.image is not None,
        why="jobs run in this machine's own Python, not in a container",
        fix="leave image out, or use VertexAI or ComputeEngine",
    ),
    Limit(
        field="reservation",
        asks=lambda spec: spec.reservation is not None,
        why="nothing is reserved on a machine of one's own",
        fix="leave reservation out",
    ),
    Limit(
        field="machine_type",
        asks=lambda spec: spec.machine_type not in (None, MACHINE),
        why="this machine is of no machine type of Google Cloud",
        fix="leave machine_type out",
    ),
    Limit(
        field="provisioning_model",
        asks=lambda spec: bool(spec.provisioning_model),
        why="nothing is sold on a machine of one's own",
        fix="leave provisioning_model out",
    ),
    Limit(
        field="secrets",
        asks=lambda spec: bool(spec.secrets),
        why="references to Secret Manager are resolved on Google Cloud only",
        fix="export the variable here and leave secrets out: ranks inherit this environment",
    ),
    Limit(
        field="env['CUDA_VISIBLE_DEVICES']",
        asks=lambda spec: "CUDA_VISIBLE_DEVICES" in spec.env,
        why="the GPUs of this machine are shared out among nodes and jobs",
        fix="say how many with gpu=; to choose which, set it in the environment that submits",
    ),
    *(
        Limit(
            field=field,
            asks=lambda spec, field=field: _on_cloud_storage(getattr(spec, field)),  # type: ignore[misc]
            why="ranks on this machine read and write its own file system",
            fix=f"{field}='./{field.removesuffix('_dir')}'",
        )
        for field in ("checkpoint_dir", "output_dir", "source_dir")
    ),
    Limit(
        field="keep_outputs",
        asks=lambda spec: spec.keep_outputs and not spec.output_dir,
        why="there is no folder for results on this machine unless it is named",
        fix="output_dir='./output', or leave keep_outputs out: the files stay where they are",
    ),
    Limit(
        field="requirements",
        asks=_cannot_install,
        why="this Python does not have them all, and no pip to install them with beside it",
        fix=f"run `{sys.executable} -m ensurepip`",
    ),
)
