"""The GPUs of this machine, as ``nvidia-smi`` lists them and the caller may use them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence

import attrs

from gputrain.catalog.names import kind_of

_QUERY = ("--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader,nounits")
_PATIENCE_S = 20.0
_NONE = ("", "-1", "none", "NoDevFiles")


@attrs.frozen(kw_only=True)
class LocalGpu:
    """One GPU of this machine."""

    index: int
    """Its place on the bus, as ``nvidia-smi`` counts."""
    uuid: str
    kind: str
    """The one word for it; for a card that no table knows, the name ``nvidia-smi`` gives."""
    memory_mib: int


def find(environ: Mapping[str, str] = os.environ) -> tuple[LocalGpu, ...]:
    """The GPUs that a program with this environment may use; none where ``nvidia-smi`` is not to be found
    or does not answer.
    """
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if program is None:
        return ()
    try:
        answer = subprocess.run(
            [program, *_QUERY], capture_output=True, timeout=_PATIENCE_S, env=environ, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    if answer.returncode:
        return ()
    gpus = [gpu for line in answer.stdout.decode(errors="replace").splitlines() for gpu in _read(line)]
    return visible(gpus, environ.get("CUDA_VISIBLE_DEVICES"))


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
    if entry in _NONE:
        return False
    return str(gpu.index) == entry or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))


def _read(line: str) -> list[LocalGpu]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != 4 or not cells[0].isdecimal() or not cells[1]:
        return []
    memory = int(cells[3]) if cells[3].isdecimal() else 0
    return [LocalGpu(index=int(cells[0]), uuid=cells[1], kind=kind_of(cells[2]), memory_mib=memory)]
