"""A run's state: the objects it has registered, its random generators, and what a checkpoint may carry: what
loads without pickle's powers.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter, OrderedDict
from typing import Any, Callable, List, Optional

from gputrain.ddp.errors import CheckpointError, SessionError
from gputrain.ddp.shards import Like, Path, is_spread, mapped, split


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

    def __len__(self) -> int:
        return len(self._objects)

    def state(self) -> dict[str, Any]:
        """The state of everything registered, by name."""
        state = {name: _state_of(value) for name, value in self._objects.items()}
        for name, value in self._objects.items():
            _refuse_other_shapes(name, _parameters(value), state[name])
        return state

    def into(self) -> Callable[[Path], Any]:
        """Where spread tensors of a saved state belong: into the tensors that are there, by path.

        An optimizer has no state yet when a run begins; its state is spread as its parameters are.
        """
        state = {name: _state_of(value) for name, value in self._objects.items()}
        parameters = {name: _parameters(value) for name, value in self._objects.items()}

        def wanted(path: Path) -> Any:
            of_optimizer = parameters.get(path[0])
            try:
                if of_optimizer is not None:
                    return Like(of_optimizer[path[2]])  # ("adam", "state", index of the parameter, "exp_avg")
                found = state  # type: Any
                for key in path:
                    found = found[key]
                found.shape  # noqa: B018  # a number can take no shard
            except (KeyError, IndexError, TypeError, AttributeError):
                raise CheckpointError(
                    f"{'.'.join(map(str, path))} was spread over ranks, and there is nothing to load it into",
                    fix="make it before the run resumes, as in the run that saved",
                ) from None
            return found

        return wanted

    def load(self, state: dict[str, Any]) -> None:
        """Put saved state back into the registered objects."""
        if set(state) != set(self._objects):
            raise CheckpointError(
                f"the checkpoint holds {_names(state)} but this script registers {_names(self._objects)}",
                why="state under another name would be lost without a word",
                fix="register the same names as the run that saved, or use another checkpoint directory",
            )
        for name, value in self._objects.items():
            _load_into(value, _spread_like(value, state[name]))


def _names(mapping: dict[str, Any]) -> str:
    return ", ".join(sorted(mapping)) or "nothing"


def _bare(value: Any) -> Any:
    parallel = sys.modules.get("torch.nn.parallel")
    if parallel is not None and isinstance(value, parallel.DistributedDataParallel):
        return value.module
    return value


def _parameters(value: Any) -> Optional[List[Any]]:
    optim = sys.modules.get("torch.optim")
    if optim is None or not isinstance(value, optim.Optimizer):
        return None
    return [parameter for group in value.param_groups for parameter in group["params"]]


def _refuse_other_shapes(name: str, parameters: Optional[List[Any]], state: Any) -> None:
    if parameters is None:
        return
    for path, tensor in split(state)[1].items():
        if tensor.shape != parameters[path[1]].shape:
            raise CheckpointError(
                f"{name} spreads {path[-1]!r} in another shape than its parameter {path[1]}",
                why="at a resume nothing would say how to spread it",
                fix="use an optimizer whose state has the shape of its parameters",
            )


def _spread_like(value: Any, state: Any) -> Any:
    """A state that was saved whole, spread as the object that takes it is."""
    parameters = _parameters(value)
    likes = split(_state_of(value))[1]

    def spread(path: Path, saved: Any) -> Any:
        like = likes.get(path)  # type: Any
        if parameters is not None and path[0] == "state":
            like = parameters[path[1]]
        if not is_spread(like) or is_spread(saved) or getattr(saved, "shape", None) != like.shape:
            return saved
        from torch.distributed.tensor import distribute_tensor

        return distribute_tensor(saved.to(like.device), like.device_mesh, like.placements)

    return mapped(state, spread) if likes or parameters else state


def _state_of(value: Any) -> Any:
    return value if isinstance(value, (dict, list)) else _bare(value).state_dict()


def _load_into(value: Any, state: Any) -> None:
    if isinstance(value, dict):
        value.clear()
        value.update(state)
    elif isinstance(value, list):
        value[:] = state
    else:
        _bare(value).load_state_dict(state)


def refuse_unsafe(where: str, value: Any) -> None:
    """Refuse, while the run still has it, what `torch.load(weights_only=True)` would refuse at the resume.

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
    """Seed the generators of Python, torch on every device, and numpy where it is loaded."""
    import torch

    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state(device: Any) -> dict[str, Any]:
    """What `restore_random_state` takes, as tensors and plain values."""
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
