"""A run's state: the objects it has registered, and its random generators."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

from gputrain.ddp.errors import CheckpointError, SessionError


class Registry:
    """The objects whose state is saved and restored: by name, in place.

    An object has `state_dict()` and `load_state_dict()`, or is a dict or a list of plain data.
    A model wrapped for DDP is saved as the bare model, so that the weights load anywhere.
    """

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}

    def add(self, objects: dict[str, Any]) -> None:
        """Take objects in by name."""
        for name, value in objects.items():
            known = hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
            if not known and not isinstance(value, (dict, list)):
                raise SessionError(
                    f"{name!r} cannot be registered",
                    why=f"a {type(value).__name__} has no state_dict() and cannot be restored in place",
                    fix=f"put it into a dict and register the dict: {name}={{...}}",
                )
            self._objects[name] = value

    def state(self) -> dict[str, Any]:
        """The state of everything registered, by name."""
        return {
            name: value if isinstance(value, (dict, list)) else _bare(value).state_dict()
            for name, value in self._objects.items()
        }

    def like(self, path: tuple[Any, ...]) -> Any:
        """The tensor of the registered objects that is placed as the one at `path` of `state()`, or None.

        An optimizer has no state yet when a run begins; its state is placed as its parameters are.
        """
        optim, found = sys.modules.get("torch.optim"), self._objects.get(path[0])
        try:
            if optim is not None and isinstance(found, optim.Optimizer):
                # ("adam", "state", index of the parameter, "exp_avg")
                return [one for group in found.param_groups for one in group["params"]][path[2]]
            found = self.state()
            for key in path:
                found = found[key]
        except (KeyError, IndexError, TypeError):
            return None
        return found if hasattr(found, "shape") else None

    def load(self, state: dict[str, Any]) -> None:
        """Put saved state back into the registered objects."""
        if set(state) != set(self._objects):
            saved, registered = (", ".join(sorted(names)) or "nothing" for names in (state, self._objects))
            raise CheckpointError(
                f"the checkpoint holds {saved} but this script registers {registered}",
                fix="register the same names as the run that saved, or use another checkpoint directory",
            )
        for name, value in self._objects.items():
            if isinstance(value, dict):
                value.clear()
                value.update(state[name])
            elif isinstance(value, list):
                value[:] = state[name]
            else:
                _bare(value).load_state_dict(state[name])


def _bare(value: Any) -> Any:
    parallel = sys.modules.get("torch.nn.parallel")
    is_wrapped = parallel is not None and isinstance(value, parallel.DistributedDataParallel)
    return value.module if is_wrapped else value


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, torch on every device, and numpy where it is loaded."""
    import torch

    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state(device: Any) -> dict[str, Any]:
    """What `restore_random_state` takes."""
    import torch

    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state()
    if device.type in ("cuda", "mps"):
        state[device.type] = getattr(torch, device.type).get_rng_state()
    return state


def restore_random_state(state: dict[str, Any], device: Any) -> None:
    """Put this rank's random generators back to where they were saved."""
    import torch

    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy

        numpy.random.set_state(state["numpy"])
    if device.type in state:
        getattr(torch, device.type).set_rng_state(state[device.type])


def use_deterministic_kernels(device: Any) -> None:
    """Choose kernels that give the same bits each time; torch warns about an operation that has none."""
    import torch

    if device.type == "cuda":
        # cuBLAS reads it at its first use. Source: PyTorch, notes on reproducibility, read 2026-11-20.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True, warn_only=True)
