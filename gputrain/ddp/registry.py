"""The objects a run has registered: their state by name, and how saved state gets back into them."""

from __future__ import annotations

import sys
from typing import Any, Callable, List, Optional

from gputrain.ddp.errors import CheckpointError, SessionError
from gputrain.ddp.reshard import Like
from gputrain.ddp.shards import Path, is_spread, mapped, split


class Registry:
    """The objects whose state is saved and restored: by name, in place.

    An object has `state_dict()` and `load_state_dict()`, or is a dict or a list of plain data.
    A model wrapped for DDP is saved as the bare model, so that the weights load anywhere.
    """

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}

    def add(self, objects: dict[str, Any]) -> None:
        """Take objects in by name.

        Raises:
            SessionError: an object can neither give its state nor be changed in place.
        """
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
        """The state of everything registered, by name.

        Raises:
            CheckpointError: an optimizer spreads what has no parameter to be spread like at a resume.
        """
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
        """Put saved state back into the registered objects.

        Raises:
            CheckpointError: the checkpoint and the script do not hold the same names.
        """
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
