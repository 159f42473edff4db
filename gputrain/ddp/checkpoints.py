"""Checkpoints that are whole or not there: files by every rank, then one marker that makes them count.

Layout of the directory::

    step-000000000100/
        shared.pt      written by rank 0: what all ranks have in common
        rank-0.pt ...  written by each rank: what is its own
        __0_0.distcp, ..., .metadata
                       where something is spread over the ranks (a DTensor): each rank's parts, torch's map
        COMPLETE       JSON: sizes and sha256 of all files; written last, flushed, then renamed into place

A folder without its marker does not exist for a resume.
Behind gcsfuse a set of objects is never atomic, so one small object decides.
torch's own mark is `.metadata`, which tells nothing of sizes: a cut file would pass.
"""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any, Callable, NamedTuple, Optional

from gputrain.ddp import folder, shards
from gputrain.ddp.errors import CheckpointError
from gputrain.ddp.folder import SHARED, Marker, rank_file
from gputrain.ddp.peers import Peers
from gputrain.ddp.report import notice
from gputrain.ddp.saving import SAVING, Beside, Saving, Shelf, parts_of, refuse_to_keep_nothing

RESUMING = "resuming"


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
    `save`, `begin`, `wait` and `restore` are collective.
    At most one save is under way: whatever comes next waits for it.

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
        peers: Optional[Peers] = None,
        *,
        beside: Optional[Peers] = None,
        keep: int = 2,
        seen_within_s: float = 15.0,
    ) -> None:
        refuse_to_keep_nothing(keep)
        self.directory = directory
        self.keep = keep
        self._shelf = Shelf(directory)
        self._peers = peers or Peers()
        self._saving = Saving(self._shelf, beside or self._peers, keep, seen_within_s)
        self._beside = Beside()

    def save(self, step: int, shared: Any, own: Any = None) -> None:
        """Save one step on all ranks; on return the checkpoint is complete and older ones are pruned.

        Args:
            step: how many steps are done.
            shared: what all ranks have in common: tensors and plain data, written by rank 0;
                DTensors anywhere in it, of which every rank writes its part.
            own: what belongs to this rank; tensors and plain data.

        Raises:
            CheckpointError: on every rank, if any could not write its part (earlier checkpoints are intact),
                or if the directory holds later steps, of a run that was not resumed.
            SessionError: not all ranks have come; nothing was written.
        """
        self._meet()
        self._saving.save(step, parts_of(self._peers.rank, shared, own, copy=False))

    def begin(self, step: int, shared: Any, own: Any = None) -> None:
        """As `save`, but copy the state and return; it is written beside the training.

        The copy takes as much of the host's memory as this rank writes: on rank 0 all that is not spread.

        Raises:
            CheckpointError: what went wrong with the save before.
            SessionError: as for `save`.
        """
        self._meet()
        parts = parts_of(self._peers.rank, shared, own, copy=True)
        self._beside.begin(lambda: self._saving.save(step, parts))

    def wait(self, timeout_s: Optional[float] = None) -> bool:
        """Wait for the save under way; False if this rank is not done with it after `timeout_s`.

        Raises:
            CheckpointError: as for `save`, once.
        """
        return self._beside.wait(timeout_s)

    def restore(
        self, *, allow_world_size_change: bool = False, into: Optional[Callable[[shards.Path], Any]] = None
    ) -> Optional[Checkpoint]:
        """The newest checkpoint that is whole, the same one on every rank; None in a directory without any.

        Size and sha256 of every file are compared before it is loaded; where a rank finds a difference, all
        go back to the checkpoint before, and rank 0 says why.

        Args:
            allow_world_size_change: take a checkpoint of another number of ranks as well.
            into: gives for the path in `shared` of what was spread the tensor to load into, spread in any
                way; None loads the whole tensor on every rank.

        Raises:
            CheckpointError: there are checkpoints but none can be used, or the world's size has changed.
        """
        self.wait()
        while True:
            marker = self._peers.share(self._newest() if self._peers.rank == 0 else None, RESUMING)
            if marker is None:
                self._refuse_silent_restart()
                return None
            self._check_world_size(marker, allow_world_size_change)
            checkpoint = self._read_together(marker, into or (lambda _path: None))
            if checkpoint is not None:
                return checkpoint

    def latest(self) -> Optional[int]:
        """The newest of `steps`; None without any."""
        return self._shelf.latest()

    def steps(self) -> list[int]:
        """The steps whose marker and sizes hold, oldest first, as seen from this process."""
        return self._shelf.steps()

    def prune(self, keep: int) -> None:
        """Keep the newest `keep` checkpoints; markers of the others go first, so no half of one counts.

        Raises:
            CheckpointError: `keep` is less than 1.
        """
        self.wait()
        self._shelf.prune(keep)

    def _meet(self) -> None:
        """See that all ranks come: peers of the save's own would wait for one that leaves meanwhile."""
        self.wait()
        self._peers.barrier(SAVING)

    def _newest(self) -> Optional[Marker]:
        for step in reversed(folder.steps_in(self.directory)):
            if step in self._shelf.rejected:
                continue
            marker = folder.read_marker(self.directory, step)
            if isinstance(marker, Marker):
                return marker
            self._reject(step, marker, once_complete=folder.has_marker(self.directory, step))
        return None

    def _reject(self, step: int, why: str, once_complete: bool = True) -> None:
        self._shelf.rejected[step] = once_complete
        if self._peers.rank == 0:
            notice(f"checkpoint of step {step} is not used: {why}")

    def _refuse_silent_restart(self) -> None:
        rejected = self._peers.share(
            sorted(step for step, once in self._shelf.rejected.items() if once), RESUMING
        )
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

    def _read_together(self, marker: Marker, into: Callable[[shards.Path], Any]) -> Optional[Checkpoint]:
        path, rank = folder.step_path(self.directory, marker.step), self._peers.rank
        own_part = rank_file(rank)
        parts = [SHARED, own_part] if marker.world_size == self._peers.world_size else [SHARED]
        checked = {*parts, *marker.shards[rank :: self._peers.world_size], *marker.shards[:1]}
        loaded: dict[str, Any] = {}

        def read() -> None:
            for part in checked:
                folder.verify(path, part, marker.files[part])
            loaded.update((part, folder.read_state(path, part)) for part in parts)

        if not self._is_done(marker.step, read):
            return None
        if marker.shards:
            reader = shards.Resharding(path, marker.shards, loaded[SHARED]["spread"])
            if not self._is_done(marker.step, reader.look):
                return None
            targets = reader.targets(into)  # a fault of the script, and the same on every rank: it is raised
            if not self._is_done(marker.step, lambda: reader.load(targets, self._peers.group)):
                return None
            loaded[SHARED] = shards.join(loaded[SHARED]["plain"], targets)
        return Checkpoint(marker.step, marker.world_size, loaded[SHARED], loaded.get(own_part))

    def _is_done(self, step: int, read: Callable[[], None]) -> bool:
        # What torch.load raises over bytes that are no checkpoint, by where they break (torch 2.13).
        broken = RuntimeError, UnpicklingError, EOFError, ValueError, KeyError, OSError
        outcome = self._peers.together(read, broken, RESUMING)
        if outcome.failure is not None:
            self._reject(step, f"rank {outcome.failure.rank}: {outcome.failure.why}")
        return outcome.failure is None
