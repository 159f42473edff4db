"""Reads what was spread over ranks back, on any number of them, into tensors spread in any way.

torch's `.metadata` is a pickle, so it is read by an unpickler that knows torch's own records and no more.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, Callable, Dict, NamedTuple

from gputrain.ddp import folder
from gputrain.ddp.errors import CheckpointError
from gputrain.ddp.shards import Path, failures_of_this_rank

_RECORDS = {
    "torch.distributed.checkpoint.metadata": (
        "Metadata",
        "TensorStorageMetadata",
        "TensorProperties",
        "ChunkStorageMetadata",
        "MetadataIndex",
        "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    ),
    "torch.distributed.checkpoint.filesystem": ("_StorageInfo",),
    "torch.serialization": ("_get_layout",),
    "torch": ("Size",),
    "pathlib": ("PosixPath",),
    "pathlib._local": ("PosixPath",),
}
"""What `.metadata` is made of, besides dtypes (torch 2.13, read 2026-11-22)."""


class Like(NamedTuple):
    """A wish for a new tensor spread as this one is, in the dtype that was saved."""

    tensor: Any


class Resharding:
    """Reads what was spread, each rank what it wants of it.

    Args:
        path: the folder of the step.
        names: the files of the checkpoint; no other is opened.
        spread: the paths of what was spread.
    """

    def __init__(self, path: str, names: Any, spread: Any) -> None:
        self._path, self._names, self._spread = path, names, [tuple(one) for one in spread]
        self._metadata: Any = None

    def look(self) -> None:
        """Read which parts there are.

        Raises:
            CheckpointError: `.metadata` is not that of this checkpoint.
        """
        self._metadata = _read_metadata(self._path, self._names)
        if set(self._metadata.state_dict_metadata) != {repr(one) for one in self._spread}:
            raise CheckpointError(f"{folder.METADATA} and {folder.SHARED} do not name the same tensors")

    def targets(self, wanted: Callable[[Path], Any]) -> Dict[Path, Any]:
        """What to load into, by path.

        Args:
            wanted: the tensor to load into, a `Like`, or None for the whole tensor.

        Raises:
            CheckpointError: a tensor has another shape than the one that was saved.
        """
        saved = self._metadata.state_dict_metadata
        return {one: _target(one, wanted(one), saved[repr(one)]) for one in self._spread}

    def load(self, targets: Dict[Path, Any], group: Any) -> None:
        """Fill the targets. Collective over `group`."""
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner

        metadata = self._metadata

        class _Files(dcp.FileSystemReader):  # type: ignore[misc]  # torch is Any to mypy here
            def read_metadata(self, *_args: Any, **_options: Any) -> Any:
                return metadata

        with failures_of_this_rank(group):
            dcp.load(
                {repr(path): tensor for path, tensor in targets.items()},
                storage_reader=_Files(self._path),
                planner=DefaultLoadPlanner(flatten_state_dict=False),
                process_group=group,
                no_dist=group is None,
            )


def _target(path: Path, wanted: Any, saved: Any) -> Any:
    import torch

    if wanted is None:
        return torch.empty(saved.size, dtype=saved.properties.dtype)
    like = wanted.tensor if isinstance(wanted, Like) else wanted
    if like.shape != saved.size:
        raise CheckpointError(
            f"{'.'.join(map(str, path))} was saved as {list(saved.size)}, and is {list(like.shape)} here",
            fix="resume with the model that was saved, or choose another checkpoint directory",
        )
    with torch.no_grad():
        return torch.empty_like(like, dtype=saved.properties.dtype) if like is not wanted else like.detach()


def _read_metadata(path: str, names: Any) -> Any:
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    with open(os.path.join(path, folder.METADATA), "rb") as file:
        metadata = _Records(file).load()
    kinds = {type(of_tensor) for of_tensor in metadata.state_dict_metadata.values()}
    files = {info.relative_path for info in metadata.storage_data.values()}
    if kinds != {TensorStorageMetadata} or not files <= set(names):
        # Anything else would be unpickled freely by torch, or is a file that no marker vouches for.
        raise CheckpointError(".metadata tells of more than the tensors of this checkpoint")
    return metadata


class _Records(pickle.Unpickler):
    """Reads torch's records of a checkpoint; anything else that a pickle can name is refused."""

    def find_class(self, module: str, name: str) -> Any:
        import torch

        dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if not dtype and name not in _RECORDS.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a checkpoint")
        return super().find_class(module, name)
