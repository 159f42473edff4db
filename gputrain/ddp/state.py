"""The random generators of a rank, and what a checkpoint may carry: what loads without pickle's powers."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter, OrderedDict
from typing import Any

from gputrain.ddp.errors import CheckpointError


def refuse_unsafe(where: str, value: Any) -> None:
    """Refuse, while the run still has it, what `torch.load(weights_only=True)` would refuse at the resume.

    Raises:
        CheckpointError: names the place and the type.

    Example:
        >>> refuse_unsafe("progress", {"best": 0.5})
    """
    import torch

    plain = (type(None), bool, int, float, complex, str, bytes, torch.Size, torch.dtype, torch.device)
    if type(value) in plain:
        return
    for name, item in getattr(value, "__dict__", {}).items():  # a tensor and an OrderedDict take theirs along
        refuse_unsafe(f"{where}.{name}", item)
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return
    if type(value) in (dict, OrderedDict, Counter):  # by its type: no other kind of dict is loaded again
        for key, item in value.items():
            refuse_unsafe(f"{where} key", key)
            refuse_unsafe(f"{where}[{key!r}]", item)
    elif type(value) in (list, tuple, set):
        for index, item in enumerate(value):
            refuse_unsafe(f"{where}[{index}]", item)
    else:
        raise CheckpointError(
            f"{where} is a {type(value).__module__}.{type(value).__qualname__}",
            why="a checkpoint holds tensors and plain Python values only, so that loading it can run no code",
            fix="convert it to a tensor, a number or a text before it is saved",
        )


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, numpy (if it is loaded) and torch on every device."""
    import torch

    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state(device: Any) -> dict[str, Any]:
    """The state of this rank's random generators, as tensors and plain values."""
    import torch

    version, words, gauss = random.getstate()
    state = {
        "python": {"version": version, "words": torch.tensor(words, dtype=torch.int64), "gauss": gauss},
        "torch": torch.get_rng_state(),
    }  # type: dict[str, Any]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, position, has_gauss, cached = numpy.random.get_state()
        state["numpy"] = {
            "kind": str(kind),
            "keys": torch.tensor(keys.tolist(), dtype=torch.int64),
            "rest": [int(position), int(has_gauss), float(cached)],
        }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_random_state(state: dict[str, Any], device: Any) -> None:
    """Put this rank's random generators back to where they were saved."""
    import torch

    python = state["python"]
    random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy

        saved = state["numpy"]
        keys = numpy.array(saved["keys"].tolist(), dtype=numpy.uint32)
        numpy.random.set_state((saved["kind"], keys, *saved["rest"]))
    if "cuda" in state and device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
    elif "mps" in state and device.type == "mps":
        torch.mps.set_rng_state(state["mps"])


def use_deterministic_kernels(device: Any) -> None:
    """Choose kernels that give the same bits each time; torch warns about an operation that has none."""
    import torch

    if device.type == "cuda":
        # cuBLAS reads it at its first use. Source: PyTorch, notes on reproducibility, read 2026-11-20.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True, warn_only=True)
