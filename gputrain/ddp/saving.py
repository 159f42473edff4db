"""One save by all ranks: parts, then hashes, then the marker; a failure on any rank is told on all.

Below it: the steps that count already, and the one thread that saves beside the training.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from gputrain.ddp import folder, shards
from gputrain.ddp.errors import CheckpointError
from gputrain.ddp.folder import SHARED, Marker, rank_file
from gputrain.ddp.peers import TOLD_RANKS, Peers
from gputrain.ddp.report import notice
from gputrain.ddp.state import refuse_unsafe

_FIXES = {
    errno.ENOENT: "give every run a directory of its own: it seems that another one saves into {} as well",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "let this job write and remove files in {}"),
}
"""Of the system's errors that more room would not mend."""

SAVING = "saving"
"""What the ranks are at."""


class Beside:
    """A thread for work the training need not wait for; what fails there is raised where it is waited for."""

    def __init__(self) -> None:
        self._thread: Optional[threading.Thread] = None
        self._error: Optional[BaseException] = None

    def begin(self, action: Callable[[], Any]) -> None:
        """Start `action` once the one before has ended, whose error is raised here."""
        self.wait()
        # A daemon: a write that hangs must not keep a job that was told to stop.
        self._thread = threading.Thread(target=self._do, args=(action,), name="gputrain-save", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: Optional[float] = None) -> bool:
        """Wait until nothing is under way; False if it still is after `timeout_s`. Raises what it raised."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self._thread, error, self._error = None, self._error, None
        if error is not None:
            raise error
        return True

    def _do(self, action: Callable[[], Any]) -> None:
        _yield_to_training()
        try:
            action()
        except BaseException as error:  # noqa: BLE001  # every kind: it is raised anew by who waits
            self._error = error


def _yield_to_training() -> None:
    # Linux knows priorities of threads. Where all cores are taken, hashing and writing doubled the time of a
    # step, and at 10 took nothing that shows (2 cores, 16 MB tensors, 2026-11-22).
    if sys.platform == "linux" and hasattr(threading, "get_native_id"):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


class Shelf:
    """Which steps are whole: their marker and sizes hold, and nobody has found other bytes in them."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.rejected: Dict[int, bool] = {}
        """Steps this run has found unusable, and whether each was complete once."""

    def steps(self) -> list[int]:
        """The whole steps, oldest first."""
        return [step for step in folder.steps_in(self.directory) if self._is_whole(step)]

    def latest(self) -> Optional[int]:
        """The newest whole step; None without any."""
        return max(self.steps(), default=None)

    def prune(self, keep: int) -> None:
        """See `Checkpoints.prune`."""
        refuse_to_keep_nothing(keep)
        kept = self.steps()[-keep:]
        for step in folder.steps_in(self.directory):
            if step not in kept:
                folder.remove_step(self.directory, step)

    def _is_whole(self, step: int) -> bool:
        return step not in self.rejected and isinstance(folder.read_marker(self.directory, step), Marker)


def refuse_to_keep_nothing(keep: int) -> None:
    if keep < 1:
        raise CheckpointError(f"keep={keep} leaves nothing to resume from", fix="keep at least 1")


class Parts(NamedTuple):
    """What one rank writes of a step: its plain files by name, and its parts of what is spread."""

    plain: Dict[str, Any]
    spread: Optional[shards.OwnShards]


def parts_of(rank: int, shared: Any, own: Any, *, copy: bool) -> Parts:
    """This rank's parts of a state; copies where training goes on while they are written."""
    plain, spread = shards.split(shared)
    files = {rank_file(rank): own}
    if rank == 0:
        files[SHARED] = {"plain": plain, "spread": list(spread)} if spread else plain
    if copy:
        files = {name: shards.copied(state) for name, state in files.items()}
    return Parts(files, shards.stage(spread, copy=copy) if spread else None)


class Saving:
    """Saves steps, one after the other, among peers that nothing else uses meanwhile."""

    def __init__(self, shelf: Shelf, peers: Peers, keep: int, seen_within_s: float) -> None:
        self._shelf, self._peers, self._keep = shelf, peers, keep
        self._directory = shelf.directory
        self._seen_within_s = seen_within_s

    def save(self, step: int, parts: Parts) -> None:
        """See `Checkpoints.save`."""
        newest = self._agreed(step)
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

    def _agreed(self, step: int) -> Optional[int]:
        """The newest step, as rank 0 sees it, once all ranks are at the same save."""
        newest = self._shelf.latest() if self._peers.rank == 0 else None
        told = self._peers.gather((step, newest), SAVING)
        if len({one for one, _ in told}) > 1:
            asked = ", ".join(f"rank {rank} step {one}" for rank, (one, _) in enumerate(told[:TOLD_RANKS]))
            raise CheckpointError(
                f"the ranks do not agree on the step to save: {asked}" + ", ..." * (len(told) > TOLD_RANKS),
                why="a checkpoint is one step of all ranks; nothing was written",
                fix="call save() on all ranks after the same step",
            )
        return told[0][1]  # type: ignore[no-any-return]

    def _together(self, step: int, action: Callable[[], Any]) -> List[Any]:
        outcome = self._peers.together(lambda: self._told(action), (OSError, RuntimeError), SAVING)
        if outcome.failure is None:
            return outcome.values
        last = self._peers.share(self._last_after_failure(step) if self._peers.rank == 0 else None, SAVING)
        intact = "there is no complete checkpoint yet"
        if last is not None:
            intact = f"step {last} is the last complete checkpoint and is intact"
        raise CheckpointError(
            f"step {step} could not be saved",
            why=f"rank {outcome.failure.rank}: {outcome.failure.why}",
            fix=f"{outcome.failure.fix or 'make room in ' + self._directory}, and run again; {intact}",
        ) from outcome.cause

    def _told(self, action: Callable[[], Any]) -> Any:
        """Do it; where the folder itself is at fault, with what helps there."""
        try:
            return action()
        except OSError as error:
            fix = _FIXES.get(error.errno or 0)
            if fix is None:
                raise
            what = f"{type(error).__name__}: {error}"
            raise CheckpointError(what, fix=fix.format(self._directory)) from error

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
        path = folder.step_path(self._directory, step)
        os.makedirs(path, exist_ok=True)
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
