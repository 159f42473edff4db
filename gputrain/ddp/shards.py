"""What is spread over the ranks: taken out of a state, copied, written by `torch.distributed.checkpoint`, and
read back on any number of ranks, into tensors spread in any way.

A DTensor anywhere in a state is spread (FSDP2, tensor parallel, a mesh of one's own); all else is plain.
torch's `.metadata` is a pickle, so it is read by an unpickler that knows torch's own records and no more.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, NamedTuple, Tuple

from gputrain.ddp import folder
from gputrain.ddp.errors import CheckpointError

Path = Tuple[Any, ...]
"""Keys and indices from the root of a state to one value."""


class OwnShards(NamedTuple):
    """This rank's parts of what is spread, ready to be written."""

    plan: Any
    parts: Dict[Any, Any]


def is_spread(value: Any) -> bool:
    """Whether a value is a DTensor; asking loads nothing."""
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return kind is not None and isinstance(value, kind)


def split(state: Any) -> Tuple[Any, Dict[Path, Any]]:
    """A state with None in place of what is spread, and what was there; the state itself where nothing is.

    Example:
        >>> split({"step": 3})
        ({'step': 3}, {})
    """
    spread = {}  # type: Dict[Path, Any]

    def keep(path: Path, value: Any) -> Any:
        if not is_spread(value):
            return value
        spread[path] = value
        return None

    plain = mapped(state, keep)
    return (plain, spread) if spread else (state, spread)


def join(plain: Any, spread: Dict[Path, Any]) -> Any:
    """The state that `split` took apart.

    Example:
        >>> join({"weights": [None, 1]}, {("weights", 0): "a shard"})
        {'weights': ['a shard', 1]}
    """
    return mapped(plain, lambda path, value: spread.get(path, value)) if spread else plain


def mapped(state: Any, change: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """A state of new containers, each value replaced by `change(path, value)`."""
    import copy

    if isinstance(state, dict):
        fresh = copy.copy(state)  # keeps what a state_dict carries beside its items: the modules' versions
        for key, value in state.items():
            fresh[key] = mapped(value, change, (*path, key))
        return fresh
    if type(state) in (list, tuple):
        return type(state)(mapped(value, change, (*path, index)) for index, value in enumerate(state))
    return change(path, state)


def copied(state: Any) -> Any:
    """A state on the CPU that shares no memory with the one in training; tied tensors stay tied."""
    import torch

    storages = {}  # type: Dict[int, Any]

    def copy_of(_path: Path, value: Any) -> Any:
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
            return value.clone() if isinstance(value, torch.Tensor) else value
        storage = value.untyped_storage()
        if storage.data_ptr() not in storages:
            fresh = storage.clone() if storage.device.type == "cpu" else storage.cpu()
            storages[storage.data_ptr()] = fresh
        view = torch.empty(0, dtype=value.dtype)
        return view.set_(storages[storage.data_ptr()], value.storage_offset(), value.shape, value.stride())

    with torch.no_grad():
        return mapped(state, copy_of)


def stage(spread: Dict[Path, Any], *, copy: bool) -> OwnShards:
    """This rank's parts on the CPU, and which part of which whole they are."""
    from torch.distributed.checkpoint import DefaultSavePlanner

    planner = DefaultSavePlanner(flatten_state_dict=False)
    planner.set_up_planner({repr(path): value for path, value in spread.items()}, is_coordinator=False)
    plan = planner.create_local_plan()
    parts = {item.index: planner.resolve_data(item).detach().to("cpu", copy=copy) for item in plan.items}
    return OwnShards(plan, parts)


def write(path: str, staged: OwnShards, group: Any) -> Dict[str, Tuple[int, str]]:
    """Write this rank's parts; size and sha256 of each file written here. Collective over `group`."""
    import torch.distributed.checkpoint as dcp

    writer = dcp.FileSystemWriter(path, sync_files=False, per_thread_copy_ahead=0)
    writer.fs = files = _hashing_files()
    with failures_of_this_rank(group):
        planner = _staged_planner(staged)
        dcp.save({}, storage_writer=writer, planner=planner, process_group=group, no_dist=group is None)
    return dict(files.facts)


@contextlib.contextmanager
def failures_of_this_rank(group: Any) -> Iterator[None]:
    """Raise what failed on this rank, and nothing for other ranks: `Peers.together` tells where it was.

    torch tells every rank of all failures, by an exception that is not even an Exception (torch 2.13).
    """
    import torch.distributed as dist
    from torch.distributed.checkpoint import CheckpointException

    warnings.filterwarnings("ignore", message="torch.distributed is disabled")  # a world of one
    try:
        yield
    except CheckpointException as error:
        own = error.failures.get(0 if group is None else dist.get_rank(group))
        if own is not None:
            is_told = isinstance(own[0], (OSError, CheckpointError))
            raise (own[0] if is_told else RuntimeError(repr(own[0]))) from error
        if not error.failures:
            raise RuntimeError(str(error)) from error


def _staged_planner(staged: OwnShards) -> Any:
    from torch.distributed.checkpoint import DefaultSavePlanner

    class _Planner(DefaultSavePlanner):  # type: ignore[misc]  # torch is Any to mypy here
        def create_local_plan(self) -> Any:
            self.plan = staged.plan
            return self.plan

        def resolve_data(self, write_item: Any) -> Any:
            return staged.parts[write_item.index]

    return _Planner(flatten_state_dict=False)


def _hashing_files() -> Any:
    from torch.distributed.checkpoint.filesystem import FileSystem

    class _HashedFiles(FileSystem):  # type: ignore[misc]  # torch is Any to mypy here
        def __init__(self) -> None:
            self.facts = {}  # type: Dict[str, Tuple[int, str]]

        @contextlib.contextmanager
        def create_stream(self, path: Any, _mode: str) -> Iterator[Any]:
            with folder.hashing(str(path)) as sink:
                yield sink
            name = os.path.basename(str(path))
            self.facts[name[: -len(".tmp")] if name.endswith(".tmp") else name] = sink.facts()

    return _HashedFiles()


_RECORDS = {
    "torch.distributed.checkpoint.metadata": (
        "Metadata", "TensorStorageMetadata", "TensorProperties", "ChunkStorageMetadata", "MetadataIndex",
        "StorageMeta", "_MEM_FORMAT_ENCODING",
    ),
    "torch.distributed.checkpoint.filesystem": ("_StorageInfo",),
    "torch.serialization": ("_get_layout",),
    "torch": ("Size",),
    "pathlib": ("PosixPath",),
    "pathlib._local": ("PosixPath",),
}  # fmt: skip
"""What `.metadata` is made of, besides dtypes (torch 2.13, read 2026-11-22)."""


class Like(NamedTuple):
    """A wish for a new tensor spread as this one is, in the dtype that was saved."""

    tensor: Any


class Resharding:
    """Reads what was spread back, each rank what it wants of it."""

    def __init__(self, path: str, names: Any, spread: Any) -> None:
        """Of a step's folder, the files of its marker (no other is opened), the paths of what was spread."""
        self._path, self._names, self._spread = path, names, [tuple(one) for one in spread]
        self._metadata: Any = None

    def look(self) -> None:
        """Read which parts there are."""
        self._metadata = _read_metadata(self._path, self._names)
        if set(self._metadata.state_dict_metadata) != {repr(one) for one in self._spread}:
            raise CheckpointError(f"{folder.METADATA} and {folder.SHARED} do not name the same tensors")

    def targets(self, wanted: Callable[[Path], Any]) -> Dict[Path, Any]:
        """What to load into, by path: `wanted` gives the tensor, a `Like`, or None for the whole tensor."""
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
