"""Checkpoints in a directory that all ranks share, written by `torch.distributed.checkpoint`.

Layout of the directory::

    step-000000000100/
        __0_0.distcp ...   what each rank wrote
        .metadata          torch's index of it, renamed into place last

A step counts once `.metadata` is there; pruning removes it first.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import shutil
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from gputrain.ddp.errors import CheckpointError
from gputrain.ddp.process_group import Peers
from gputrain.ddp.report import notice

Path = tuple[Any, ...]
"""Keys and indices from the root of a state to one value."""

MARKER = ".metadata"
SAVING, RESUMING = "saving", "resuming"
_STEP = re.compile(r"^step-(\d{12})$")


class Checkpoint(NamedTuple):
    """State read back: the step, what all ranks share, and this rank's own part.

    `own` is None when another number of ranks saved it.
    """

    step: int
    world_size: int
    shared: Any
    own: Any


class Checkpoints:
    """The checkpoints of one run in one directory, which every rank can reach.

    One run at a time uses a directory. `save`, `begin`, `wait` and `restore` are collective.
    One save is written at a time: the next one waits for it.

    Args:
        directory: made when the first checkpoint is saved.
        peers: the ranks of the run.
        beside: the same ranks over a group that nothing else uses, for saves beside training.
        keep: how many complete checkpoints stay, at least 1.
        seen_within_s: how long rank 0 waits for other nodes' files to show; gcsfuse caches for some seconds.

    Example:
        >>> import tempfile
        >>> saved = Checkpoints(tempfile.mkdtemp())
        >>> saved.save(10, {"weight": 1.5})
        >>> saved.restore().shared
        {'weight': 1.5}
    """

    def __init__(
        self,
        directory: str,
        peers: Peers | None = None,
        *,
        beside: Peers | None = None,
        keep: int = 2,
        seen_within_s: float = 15.0,
    ) -> None:
        _check_keep(keep)
        self.directory, self.keep, self._seen_within_s = directory, keep, seen_within_s
        self._peers = peers or Peers()
        self._beside = beside or self._peers
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def save(self, step: int, shared: Any, own: Any = None) -> None:
        """Save one step on all ranks; on return the checkpoint is complete and older ones are pruned.

        Args:
            step: how many steps are done.
            shared: what all ranks have in common, written by rank 0; of DTensors every rank writes its part.
            own: what belongs to this rank.

        Raises:
            CheckpointError: on every rank, if any could not write its part (earlier checkpoints are intact),
                or if the directory holds later steps, of a run that was not resumed.
            SessionError: not all ranks have come; nothing was written.
        """
        self._save(step, self._begun(shared, own), self._peers)

    def begin(self, step: int, shared: Any, own: Any = None) -> None:
        """As `save`, but copy the state and return; it is written beside the training.

        The copy takes as much of the host's memory as this rank writes. Torch before 2.9 cannot make one:
        there this is `save`.

        Raises:
            CheckpointError: what went wrong with the save before.
            SessionError: as for `save`.
        """
        try:
            from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
        except ImportError:
            self.save(step, shared, own)
            return
        stager = DefaultStager(StagingOptions(False, False, False, False))
        entries = stager.stage(self._begun(shared, own))

        def write() -> None:
            try:
                self._save(step, entries, self._beside)
            except BaseException as error:  # noqa: BLE001  # raised again by wait()
                self._error = error

        # Not dcp.async_save: Python waits for its thread at exit, and a stop may leave no time for that.
        self._thread = threading.Thread(target=write, name="gputrain-save", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the save under way; False if this rank is not done with it after `timeout_s`.

        Raises:
            CheckpointError: as for `save`, once.
        """
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                return False
        self._thread, error, self._error = None, self._error, None
        if error is not None:
            raise error
        return True

    def restore(
        self, *, allow_world_size_change: bool = False, into: Callable[[Path], Any] | None = None
    ) -> Checkpoint | None:
        """The newest complete checkpoint, the same one on every rank; None in a directory without any.

        Loading unpickles: restore only what you trust.

        Args:
            allow_world_size_change: take a checkpoint of another number of ranks as well.
            into: gives for the path of a tensor in `shared` one of the same shape, whose device and placement
                the loaded one gets; None loads the whole tensor on the CPU.

        Raises:
            CheckpointError: the checkpoint cannot be loaded, or the world's size has changed.
        """
        self.wait()
        step = self._peers.gather(self.latest() if self._peers.rank == 0 else None, RESUMING)[0]
        if step is None:
            return None
        path, found, failure, cause = self._path(step), None, None, None
        try:
            found = _load(step, path, self._peers, allow_world_size_change, into or (lambda _path: None))
        except Exception as error:  # noqa: BLE001  # every kind: raised again on all ranks
            failure, cause = (f"{type(error).__name__}: {error}", ""), error
            if isinstance(error, CheckpointError):
                failure = (error.what, error.fix)
        for rank, failed in enumerate(self._peers.gather(failure, RESUMING)):
            if failed is not None:
                raise CheckpointError(
                    f"step {step} cannot be resumed: {failed[0]}",
                    why=f"rank {rank} could not take it from {path}",
                    fix=failed[1] or f"remove {path} to resume from the step before it",
                ) from cause
        return found

    def latest(self) -> int | None:
        """The newest of `steps`; None without any."""
        return max(self.steps(), default=None)

    def steps(self) -> list[int]:
        """The complete steps, oldest first, as seen from this process."""
        return [step for step in self._folders() if os.path.exists(os.path.join(self._path(step), MARKER))]

    def prune(self, keep: int) -> None:
        """Keep the newest `keep` checkpoints, and remove what interrupted saves have left.

        Raises:
            CheckpointError: `keep` is less than 1.
        """
        _check_keep(keep)
        self.wait()
        self._prune(keep)

    def _begun(self, shared: Any, own: Any) -> dict[str, Any]:
        """What this rank gives to torch, once all have come: tensors by their paths, and rank 0 the rest."""
        self.wait()
        self._peers.barrier(SAVING)  # the save's own group would wait for one that leaves meanwhile
        tensors: dict[Path, Any] = {}

        def take(path: Path, value: Any) -> Any:
            if not _is_tensor(value):
                return value
            tensors[path] = value
            return None

        rest = mapped(shared, take)
        entries = {f"rank-{self._peers.rank}": own}
        if self._peers.rank == 0:
            entries["shared"] = (self._peers.world_size, list(tensors), rest)
        for path, value in tensors.items():
            if self._peers.rank == 0 or isinstance(value, _sharded()):
                entries[repr(path)] = value.detach()
        return entries

    def _save(self, step: int, entries: dict[str, Any], peers: Peers) -> None:
        import torch.distributed.checkpoint as dcp

        if self._agree(step, peers) == step:
            return
        try:
            _dcp("save")(
                entries,
                storage_writer=_writer(self._path(step), self._seen_within_s),
                planner=dcp.DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
                process_group=peers.group,
                no_dist=peers.group is None,
            )
        except dcp.CheckpointException as error:
            self._tell_failure(step, error, peers)
        if peers.rank == 0:
            self._prune(self.keep)

    def _agree(self, step: int, peers: Peers) -> int | None:
        """The newest step, once nothing is in the way of a save."""
        newest = None
        if peers.rank == 0:
            newest = self.latest()
            if newest is None or newest < step:
                shutil.rmtree(self._path(step), ignore_errors=True)  # what an interrupted save has left
        newest = peers.gather(newest, SAVING)[0]
        if newest is not None and newest > step:
            raise CheckpointError(
                f"step {step} cannot be saved: {self.directory} already holds step {newest}",
                why="a resume takes the newest step, and that belongs to a run which was not resumed here",
                fix="resume before you save, or choose another checkpoint directory",
            )
        return newest  # type: ignore[no-any-return]

    def _tell_failure(self, step: int, error: Any, peers: Peers) -> None:
        last = None
        if peers.rank == 0:
            self._remove(step)  # on a full disk, the room it takes is needed
            last = self.latest()
        last = peers.gather(last, SAVING)[0]
        intact = "there is no complete checkpoint yet"
        if last is not None:
            intact = f"step {last} is the last complete checkpoint and is intact"
        rank, (cause, _) = min(error.failures.items(), key=lambda failure: failure[0])
        raise CheckpointError(
            f"step {step} could not be saved",
            why=f"rank {rank}: {type(cause).__name__}: {cause}",
            fix=f"see that this job can write to {self.directory}, that it has room and that no other run "
            f"uses it, and run again; {intact}",
        ) from cause

    def _prune(self, keep: int) -> None:
        kept = self.steps()[-keep:]
        for step in self._folders():
            if step not in kept:
                self._remove(step)

    def _remove(self, step: int) -> None:
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._path(step), MARKER))
            shutil.rmtree(self._path(step))
        except FileNotFoundError:
            pass
        except OSError as error:
            notice(f"the checkpoint of step {step} could not be removed: {error}")

    def _folders(self) -> list[int]:
        """Steps that have a folder, complete or not, oldest first."""
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        return sorted(int(found.group(1)) for found in map(_STEP.match, names) if found)

    def _path(self, step: int) -> str:
        return os.path.join(self.directory, f"step-{step:012d}")


def mapped(state: Any, change: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """A state of new containers, each value replaced by `change(path, value)`."""
    import copy

    if isinstance(state, dict):
        fresh = copy.copy(state)  # keeps what a state_dict has beside its items: the versions of modules
        for key, value in state.items():
            fresh[key] = mapped(value, change, (*path, key))
        return fresh
    if type(state) in (list, tuple):
        return type(state)(mapped(value, change, (*path, index)) for index, value in enumerate(state))
    return change(path, state)


def _is_tensor(value: Any) -> bool:
    """Whether torch stores it as a tensor; others, such as sparse ones, are pickled."""
    import torch

    return isinstance(value, _sharded()) or (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and value.layout == torch.strided
        and not value.is_quantized
    )


def _sharded() -> Any:
    """torch's DTensor, which is public since torch 2.5."""
    try:
        from torch.distributed.tensor import DTensor
    except ImportError:
        from torch.distributed._tensor import DTensor
    return DTensor


def _dcp(name: str) -> Any:
    """torch's `save` or `load`; before torch 2.9 the older function, which takes `no_dist` already."""
    import torch.distributed.checkpoint as dcp

    for said in ("torch.distributed is disabled", ".*_state_dict` is", "TypedStorage is"):
        warnings.filterwarnings("ignore", message=said)
    function = getattr(dcp, name)
    takes_it = "no_dist" in inspect.signature(function).parameters
    return function if takes_it else getattr(dcp, f"{name}_state_dict")


def _load(
    step: int, path: str, peers: Peers, any_world_size: bool, into: Callable[[Path], Any]
) -> Checkpoint:
    """Read a step on this rank; torch moves nothing between ranks for it, each reads what it needs."""
    import torch
    import torch.distributed.checkpoint as dcp

    reader = dcp.FileSystemReader(path)
    saved = reader.read_metadata().state_dict_metadata

    def read(entries: dict[str, Any]) -> dict[str, Any]:
        planner = dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        try:
            _dcp("load")(entries, storage_reader=reader, planner=planner, no_dist=True)
        except dcp.CheckpointException as error:
            raise error.failures[0][0] from error
        return entries

    world_size, paths, rest = read({"shared": None})["shared"]
    if world_size != peers.world_size and not any_world_size:
        raise CheckpointError(
            f"{world_size} ranks saved it, this run has {peers.world_size}",
            fix=f"run with {world_size} ranks, or call resume(allow_world_size_change=True) first: "
            "the global batch changes with the number of ranks, and with it the loss curve",
        )
    targets: dict[str, Any] = {}
    for one in paths:
        facts, like = saved[repr(one)], into(one)
        kind = facts.properties.dtype
        if like is not None and like.shape == facts.size:
            targets[repr(one)] = torch.empty_like(like, dtype=kind, requires_grad=False)
        elif isinstance(like, _sharded()) and facts.size:  # an optimizer's counter of steps has no shape
            name, was, now = ".".join(map(str, one)), list(facts.size), list(like.shape)
            raise CheckpointError(
                f"{name} was saved as {was}, and is {now} here",
                fix="resume with the model that was saved, or choose another checkpoint directory",
            )
        else:
            targets[repr(one)] = torch.empty(facts.size, dtype=kind)
    if world_size == peers.world_size:
        targets[f"rank-{peers.rank}"] = None
    loaded = read(targets)
    tensors = {one: loaded[repr(one)] for one in paths}
    shared = mapped(rest, lambda one, value: tensors.get(one, value))
    return Checkpoint(step, world_size, shared, loaded.get(f"rank-{peers.rank}"))


def _writer(path: str, seen_within_s: float) -> Any:
    import torch.distributed.checkpoint as dcp

    class _Writer(dcp.FileSystemWriter):  # type: ignore[misc]  # torch is Any to mypy here
        """Writes `.metadata` only once rank 0 sees the files of all ranks."""

        def finish(self, metadata: Any, results: Any) -> None:
            give_up = time.monotonic() + seen_within_s
            for name in sorted({one.storage_data.relative_path for of_rank in results for one in of_rank}):
                while not os.path.exists(os.path.join(path, name)):
                    if time.monotonic() > give_up:
                        raise CheckpointError(f"{name} is missing, seen from rank 0; is {path} on all nodes?")
                    time.sleep(0.2)
            super().finish(metadata, results)

    return _Writer(path)


def check_torch() -> None:
    """CheckpointError for a torch whose checkpoints cannot hold a session's state."""
    import torch

    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 4):
        raise CheckpointError(
            f"a session's checkpoints need torch 2.4 or newer; this is {torch.__version__}",
            fix="use a newer image, or leave the checkpoint directory out",
        )


def _check_keep(keep: int) -> None:
    if keep < 1:
        raise CheckpointError(f"keep={keep} leaves nothing to resume from", fix="keep at least 1")
