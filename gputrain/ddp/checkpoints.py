"""Checkpoints that are whole or not there: files by every rank, then one marker that makes them count.

Layout of the directory::

    step-000000000100/
        shared.pt      written by rank 0: what all ranks have in common
        rank-0.pt ...  written by each rank: what is its own
        COMPLETE       JSON: sizes and sha256 of all files; written last, flushed, then renamed into place

A folder without its marker does not exist for a resume.
On object stores behind a file system (gcsfuse) a set of objects is never atomic, so one small object decides.
`torch.distributed.checkpoint` commits alike: its `.metadata` is renamed last (torch 2.13).
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Optional, Tuple, Type

from gputrain.ddp import folder
from gputrain.ddp.errors import CheckpointError
from gputrain.ddp.folder import SHARED, Marker, rank_file
from gputrain.ddp.peers import Peers
from gputrain.ddp.report import notice
from gputrain.ddp.state import refuse_unsafe


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

    One run at a time uses a directory: leftovers of an interrupted save are removed by the next one.
    `save` and `restore` are collective.

    Args:
        directory: made when the first checkpoint is saved.
        peers: the ranks of the run.
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
        self, directory: str, peers: Optional[Peers] = None, *, keep: int = 2, seen_within_s: float = 15.0
    ) -> None:
        if keep < 1:
            raise CheckpointError(f"keep={keep} leaves nothing to resume from", fix="keep at least 1")
        self.directory = directory
        self.keep = keep
        self._seen_within_s = seen_within_s
        self._peers = peers or Peers()
        self._rejected: dict[int, bool] = {}  # step -> whether it once was complete

    def save(self, step: int, shared: Any, own: Any = None) -> None:
        """Save one step on all ranks; on return the checkpoint is complete and older ones are pruned.

        Args:
            step: how many steps are done.
            shared: what all ranks have in common; only rank 0's is written. Tensors and plain data.
            own: what belongs to this rank.

        Raises:
            CheckpointError: on every rank, if any could not write its part (earlier checkpoints are intact),
                or if the directory holds later steps, of a run that was not resumed.
        """
        newest = self._peers.share(self.latest() if self._peers.rank == 0 else None)
        if newest == step:
            return
        if newest is not None and newest > step:
            raise CheckpointError(
                f"step {step} cannot be saved: {self.directory} already holds step {newest}",
                why="a resume takes the newest step, and that belongs to a run which was not resumed here",
                fix="resume before you save, or choose another checkpoint directory",
            )
        self._step_together(step, lambda: self._clear(step))
        written = self._step_together(step, lambda: self._write(step, shared, own))
        files = {name: facts for of_rank in written for name, facts in of_rank.items()}
        marker = Marker(step, self._peers.world_size, files)
        self._step_together(step, lambda: self._commit(marker))
        self._rejected.pop(step, None)
        if self._peers.rank == 0:
            self._prune()

    def restore(self, *, allow_world_size_change: bool = False) -> Optional[Checkpoint]:
        """The newest checkpoint that is whole, the same one on every rank; None in a directory without any.

        Every rank compares size and sha256 of what it is about to load; if one of them finds a difference,
        all go back to the checkpoint before, and rank 0 says why.

        Raises:
            CheckpointError: there are checkpoints but none can be used, or the world's size has changed.
        """
        while True:
            marker = self._peers.share(self._newest() if self._peers.rank == 0 else None)
            if marker is None:
                self._refuse_silent_restart()
                return None
            self._check_world_size(marker, allow_world_size_change)
            checkpoint = self._read_together(marker)
            if checkpoint is not None:
                return checkpoint

    def latest(self) -> Optional[int]:
        """The newest step whose marker and sizes hold, as seen from this process; None without any."""
        return max(self.steps(), default=None)

    def steps(self) -> list[int]:
        """The steps whose marker and sizes hold, oldest first, as seen from this process."""
        return [step for step in folder.steps_in(self.directory) if self._is_complete(step)]

    def prune(self, keep: int) -> None:
        """Keep the newest `keep` checkpoints; markers of the others go first, so no half of one counts."""
        kept = self.steps()[-keep:] if keep else []
        for step in folder.steps_in(self.directory):
            if step not in kept:
                folder.remove_step(self.directory, step)

    def _is_complete(self, step: int) -> bool:
        return step not in self._rejected and not isinstance(folder.read_marker(self.directory, step), str)

    def _step_together(self, step: int, action: Any) -> list[Any]:
        outcome = self._peers.together(action, (OSError, RuntimeError))
        if outcome.failure is None:
            return outcome.values
        last = self._peers.share(self._last_after_failure(step) if self._peers.rank == 0 else None)
        intact = "there is no complete checkpoint yet"
        if last is not None:
            intact = f"step {last} is the last complete checkpoint and is intact"
        raise CheckpointError(
            f"step {step} could not be saved",
            why=f"rank {outcome.failure.rank}: {outcome.failure.why}",
            fix=f"{outcome.failure.fix or 'make room in ' + self.directory}, and run again; {intact}",
        ) from outcome.cause

    def _last_after_failure(self, step: int) -> Optional[int]:
        try:
            folder.remove_step(self.directory, step)  # on a full disk, the room it takes is wanted
        except OSError as error:
            notice(f"what was written of step {step} could not be removed: {error}")
        return self.latest()

    def _clear(self, step: int) -> None:
        if self._peers.rank == 0:
            folder.remove_step(self.directory, step)

    def _write(self, step: int, shared: Any, own: Any) -> dict[str, tuple[int, str]]:
        path = folder.make_step(self.directory, step)
        parts = {rank_file(self._peers.rank): own}
        if self._peers.rank == 0:
            parts[SHARED] = shared
        for part, state in parts.items():
            refuse_unsafe(part[: -len(".pt")], state)
        return {part: folder.write_state(path, part, state) for part, state in parts.items()}

    def _commit(self, marker: Marker) -> None:
        if self._peers.rank != 0:
            return
        give_up = time.monotonic() + self._seen_within_s
        while True:
            missing = folder.first_difference(self.directory, marker)
            if missing is None:
                break
            if time.monotonic() > give_up:
                raise CheckpointError(
                    f"{missing}, seen from rank 0; is {self.directory} shared by all nodes?"
                )
            time.sleep(0.2)
        folder.write_marker(self.directory, marker)

    def _newest(self) -> Optional[Marker]:
        for step in reversed(folder.steps_in(self.directory)):
            if step in self._rejected:
                continue
            marker = folder.read_marker(self.directory, step)
            if isinstance(marker, Marker):
                return marker
            self._reject(step, marker, once_complete=folder.has_marker(self.directory, step))
        return None

    def _reject(self, step: int, why: str, once_complete: bool = True) -> None:
        self._rejected[step] = once_complete
        if self._peers.rank == 0:
            notice(f"checkpoint of step {step} is not used: {why}")

    def _refuse_silent_restart(self) -> None:
        rejected = self._peers.share(sorted(step for step, once in self._rejected.items() if once))
        if rejected:
            raise CheckpointError(
                f"none of the checkpoints in {self.directory} can be used",
                why="steps {} are damaged, see the notices above".format(", ".join(map(str, rejected))),
                fix="put the files back, or choose another directory to start from the beginning",
            )

    def _check_world_size(self, marker: Marker, allowed: bool) -> None:
        if marker.world_size != self._peers.world_size and not allowed:
            raise CheckpointError(
                f"{marker.world_size} ranks saved step {marker.step}, this run has {self._peers.world_size}",
                why="the global batch would change with the number of ranks, and with it the loss curve",
                fix=f"run with {marker.world_size} ranks, or call resume(allow_world_size_change=True) first",
            )

    def _read_together(self, marker: Marker) -> Optional[Checkpoint]:
        path = folder.step_path(self.directory, marker.step)
        own_part = rank_file(self._peers.rank)
        parts = [SHARED, own_part] if marker.world_size == self._peers.world_size else [SHARED]
        loaded: dict[str, Any] = {}

        def read() -> None:
            for part in parts:
                folder.verify(path, part, marker.files[part])
                loaded[part] = folder.read_state(path, part)

        outcome = self._peers.together(read, _unreadable())
        if outcome.failure is None:
            return Checkpoint(marker.step, marker.world_size, loaded[SHARED], loaded.get(own_part))
        self._reject(marker.step, f"rank {outcome.failure.rank}: {outcome.failure.why}")
        return None

    def _prune(self) -> None:
        try:
            self.prune(self.keep)
        except OSError as error:
            notice(f"old checkpoints could not be removed: {error}")


def _unreadable() -> Tuple[Type[BaseException], ...]:
    # What torch.load raises over bytes that are no checkpoint, depending on where they break (torch 2.13).
    from pickle import UnpicklingError

    return (RuntimeError, UnpicklingError, EOFError, ValueError, KeyError, OSError)
