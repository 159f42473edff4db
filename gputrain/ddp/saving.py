"""One save by all ranks: parts, then hashes, then the marker; a failure on any rank is told on all."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from gputrain.ddp import folder, shards
from gputrain.ddp.errors import CheckpointError
from gputrain.ddp.folder import SHARED, Marker, rank_file
from gputrain.ddp.peers import Peers
from gputrain.ddp.report import notice
from gputrain.ddp.shelf import Shelf
from gputrain.ddp.state import refuse_unsafe


class Parts(NamedTuple):
    """What one rank writes of a step: its plain files by name, and its parts of what is spread."""

    plain: Dict[str, Any]
    spread: Optional[shards.OwnShards]


def parts_of(rank: int, shared: Any, own: Any, *, copy: bool) -> Parts:
    """This rank's parts of a state.

    Args:
        copy: training goes on while they are written; they take as much of the host's memory again.
    """
    keep = shards.copied if copy else _as_it_is  # type: Callable[[Any], Any]
    plain, spread = shards.split(shared)
    files = {rank_file(rank): keep(own)}
    if rank == 0:
        files[SHARED] = keep({"plain": plain, "spread": list(spread)} if spread else plain)
    return Parts(files, shards.stage(spread, copy=copy) if spread else None)


class Saving:
    """Saves steps into a directory, one after the other, among peers that nothing else uses meanwhile."""

    def __init__(self, shelf: Shelf, peers: Peers, keep: int, seen_within_s: float) -> None:
        self._shelf, self._peers, self._keep = shelf, peers, keep
        self._directory = shelf.directory
        self._seen_within_s = seen_within_s

    def save(self, step: int, parts: Parts) -> None:
        """See `Checkpoints.save`."""
        newest = self._peers.share(self._shelf.latest() if self._peers.rank == 0 else None)
        if newest == step:
            return
        if newest is not None and newest > step:
            raise CheckpointError(
                f"step {step} cannot be saved: {self._directory} already holds step {newest}",
                why="a resume takes the newest step, and that belongs to a run which was not resumed here",
                fix="resume before you save, or choose another checkpoint directory",
            )
        self._together(step, lambda: self._clear(step))
        written = self._together(step, lambda: self._write(step, parts.plain))
        if parts.spread is not None:
            staged, path = parts.spread, folder.step_path(self._directory, step)
            written += self._together(step, lambda: shards.write(path, staged, self._peers.group))
        files = {name: facts for of_rank in written for name, facts in of_rank.items()}
        marker = Marker(step, self._peers.world_size, files)
        self._together(step, lambda: self._commit(marker))
        self._shelf.rejected.pop(step, None)
        if self._peers.rank == 0:
            self._prune()

    def _together(self, step: int, action: Callable[[], Any]) -> List[Any]:
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
            fix=f"{outcome.failure.fix or 'make room in ' + self._directory}, and run again; {intact}",
        ) from outcome.cause

    def _last_after_failure(self, step: int) -> Optional[int]:
        try:
            folder.remove_step(self._directory, step)  # on a full disk, the room it takes is wanted
        except OSError as error:
            notice(f"what was written of step {step} could not be removed: {error}")
        return self._shelf.latest()

    def _clear(self, step: int) -> None:
        if self._peers.rank == 0:
            folder.remove_step(self._directory, step)

    def _write(self, step: int, files: Dict[str, Any]) -> Dict[str, Tuple[int, str]]:
        path = folder.make_step(self._directory, step)
        for part, state in files.items():
            refuse_unsafe(part[: -len(".pt")], state)
        return {part: folder.write_state(path, part, state) for part, state in files.items()}

    def _commit(self, marker: Marker) -> None:
        if self._peers.rank != 0:
            return
        give_up = time.monotonic() + self._seen_within_s
        while True:
            missing = folder.first_difference(self._directory, marker)
            if missing is None:
                break
            if time.monotonic() > give_up:
                raise CheckpointError(
                    f"{missing}, seen from rank 0; is {self._directory} shared by all nodes?"
                )
            time.sleep(0.2)
        folder.write_marker(self._directory, marker)

    def _prune(self) -> None:
        try:
            self._shelf.prune(self._keep)
        except OSError as error:
            notice(f"old checkpoints could not be removed: {error}")


def _as_it_is(state: Any) -> Any:
    return state
