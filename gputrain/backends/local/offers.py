"""What this machine can run, and what a spec may ask for that only a cloud has."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec

import attrs

from gputrain import catalog
from gputrain.catalog import Price
from gputrain.catalog.names import kind_of
from gputrain.code import folder_of
from gputrain.planning import Limit, Offer, Supply
from gputrain.runtime import packages

NAME = "local"
MACHINE = "this-machine"  # the place, too; which folder it is, `doctor` tells
MAX_CPU_NODES = 16
"""Enough to try any layout of nodes; each is two processes or more, so a slip in num_nodes stays cheap."""

_FREE = Price(usd_h=0.0, source="this machine", date="")


_QUERY = ("--query-gpu=index,uuid,name", "--format=csv,noheader,nounits")
_PATIENCE_S = 20.0


def supply(gpus: Sequence[LocalGpu]) -> Supply:
    """Each kind and count of GPU, most first: a spec without ``gpu`` gets them all; then CPU ranks."""
    numbers = Counter(gpu.kind for gpu in gpus)
    shapes = [
        (kind, count, number // count) for kind, number in numbers.items() for count in range(number, 0, -1)
    ]
    offers = tuple(
        Offer(
            gpu=kind, gpu_count=count, machine_type=MACHINE, provisioning_models=(), places=(MACHINE,),
            price_of=lambda _place, _model: _FREE, max_nodes=most,
        )
        for kind, count, most in (*shapes, (None, 0, MAX_CPU_NODES))
    )  # fmt: skip

    def find_gpu(kind: str) -> None:
        """Any card that is here or that some table knows may be asked for; another name is a slip."""
        if kind not in numbers and catalog.not_sold(kind) is None:
            catalog.find(kind)

    return Supply(backend=NAME, offers=offers, limits=LIMITS, find_gpu=find_gpu)


# fmt: off
LIMITS = (
    Limit(field="image", asks=lambda spec: spec.image is not None,
          why="jobs run in this machine's own Python, not in a container",
          fix="leave image out, or Trainer(VertexAI(...)) or Trainer(ComputeEngine(...))"),
    Limit(field="reservation", asks=lambda spec: spec.reservation is not None,
          why="nothing is reserved on a machine of one's own", fix="leave reservation out"),
    Limit(field="machine_type", asks=lambda spec: spec.machine_type not in (None, MACHINE),
          why="this machine is of no machine type of Google Cloud", fix="leave machine_type out"),
    Limit(field="provisioning_model", asks=lambda spec: bool(spec.provisioning_model),
          why="nothing is sold on a machine of one's own", fix="leave provisioning_model out"),
    Limit(field="min_nodes", asks=lambda spec: spec.min_nodes not in (None, spec.num_nodes),
          why="a node that is lost on this machine has room to start again",
          fix="leave min_nodes out: max_restarts starts all of them again"),
    Limit(field="secrets", asks=lambda spec: bool(spec.secrets),
          why="references to Secret Manager are resolved on Google Cloud only",
          fix="export the variable here and leave secrets out: ranks inherit this environment"),
    Limit(field="env['CUDA_VISIBLE_DEVICES']", asks=lambda spec: "CUDA_VISIBLE_DEVICES" in spec.env,
          why="the GPUs of this machine are shared out among nodes and jobs",
          fix="say how many with gpu=; to choose which, set it in the environment that submits"),
    *(Limit(field=field,
            asks=lambda spec, field=field: "://" in (getattr(spec, field) or ""),  # type: ignore[misc]
            why="ranks on this machine read and write its own file system",
            fix=f"{field}='./{field.removesuffix('_dir')}'")
      for field in ("checkpoint_dir", "output_dir", "source_dir")),
    Limit(field="requirements",
          asks=lambda spec: find_spec("pip") is None and bool(unmet(spec.requirements, folder_of(spec))),
          why="this Python does not have them all, and no pip to install them with beside it",
          fix=f"run `{shlex.quote(sys.executable)} -m ensurepip`"),
)
# fmt: on


@attrs.frozen(kw_only=True)
class LocalGpu:
    """One GPU of this machine."""

    index: int
    """Its place on the bus, as ``nvidia-smi`` counts."""
    uuid: str
    kind: str
    """The one word for it; for a card that no table knows, the name ``nvidia-smi`` gives."""


def find_gpus() -> tuple[LocalGpu, ...]:
    """The GPUs that a program may use which is started here; none where ``nvidia-smi`` does not tell."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        answer = subprocess.run([program, *_QUERY], capture_output=True, timeout=_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    gpus = [gpu for line in answer.stdout.decode(errors="replace").splitlines() for gpu in _read(line)]
    return visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))


def visible(gpus: Sequence[LocalGpu], value: str | None) -> tuple[LocalGpu, ...]:
    """Those of the GPUs that ``CUDA_VISIBLE_DEVICES`` shows, in its order.

    As CUDA does, it reads indices and beginnings of UUIDs, and stops at the first entry that names nothing.
    """
    if value is None:
        return tuple(gpus)
    shown: list[LocalGpu] = []
    for entry in value.split(","):
        named = [gpu for gpu in gpus if _is_named(gpu, entry.strip())]
        if len(named) != 1 or named[0] in shown:
            break
        shown += named
    return tuple(shown)


def _is_named(gpu: LocalGpu, entry: str) -> bool:
    return str(gpu.index) == entry or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))


def _read(line: str) -> list[LocalGpu]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != 3 or not cells[0].isdecimal() or not cells[1]:
        return []
    return [LocalGpu(index=int(cells[0]), uuid=cells[1], kind=kind_of(cells[2]))]


def unmet(requirements: Sequence[str], folder: str = "") -> tuple[str, ...]:
    """The requirements that this Python does not satisfy, and those that only pip itself can read.

    A ``.txt`` file is read in ``folder``; one that is not there asks for nothing: `resolve` refuses it.

    >>> unmet(["attrs>=1"])
    ()
    >>> unmet(["attrs>=1000"])
    ('attrs>=1000',)
    """
    return tuple(one for one in _each(requirements, folder) if not _is_satisfied(one))


def _each(requirements: Sequence[str], folder: str) -> Iterator[str]:
    if requirements[:1] != ("-r",):
        yield from requirements
        return
    try:
        lines = packages.read_file(os.path.join(folder, requirements[1])).splitlines()
    except OSError:
        return
    for line in lines:
        wanted = line.partition(" #")[0].strip()
        if wanted and not wanted.startswith("#"):
            yield wanted


def _is_satisfied(text: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return False
    if wanted.marker is not None and not wanted.marker.evaluate():
        return True
    try:
        version = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return False
    return wanted.url is None and wanted.specifier.contains(version, prereleases=True)
