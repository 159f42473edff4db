"""How far a run is: its step, its place in the data, and the going on from there."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Iterator, Optional, Tuple

from gputrain.ddp import data, state
from gputrain.ddp.checkpoints import Checkpoints
from gputrain.ddp.errors import CheckpointError, SessionError
from gputrain.ddp.peers import Peers, Stop
from gputrain.ddp.report import beat, notice
from gputrain.entrypoint import contract

NO_DIRECTORY = f"set {contract.CHECKPOINT_DIR} or session(checkpoint_dir=...)"


class Run:
    """Position, state and checkpoints of one training run.

    The place in the data is counted in items of all ranks together: it means the same for any batch size.
    """

    def __init__(
        self,
        peers: Peers,
        device: Any,
        stop: Stop,
        checkpoints: Optional[Checkpoints],
        seed: int,
        exact: bool,
        beside: bool,
        stop_within_s: float,
    ) -> None:
        self._peers, self._device, self._stop = peers, device, stop
        self.checkpoints = checkpoints
        self._seed, self._exact = seed, exact
        self._beside, self._stop_within_s = beside, stop_within_s
        self.registry = state.Registry()
        self.step = self._epoch = self._items = 0
        self.total_steps: Optional[int] = None
        """How many steps there will be; None: nobody knows."""
        self._saved_step: Optional[int] = None
        self._resumed = self._stepped = False
        self._generators: Any = None
        self._stop_at: Optional[float] = None
        self._given_up = False

    def resume(self, allow_world_size_change: bool) -> int:
        """See `Session.resume`."""
        is_elastic = bool(os.environ.get("GPUTRAIN_MIN_NODES")) and not self._exact
        allow_world_size_change = allow_world_size_change or is_elastic
        if allow_world_size_change and self._exact:
            raise SessionError(
                "another number of ranks never gives the same bits", fix="leave out exact_resume"
            )
        self._resumed = True
        found = None
        if self.checkpoints is not None:
            into = self.registry.into()
            found = self.checkpoints.restore(
                allow_world_size_change=allow_world_size_change,
                # what is spread lies below the names of the registry, in what `save` calls "objects"
                into=lambda path: into(path[1:]),
            )
        if found is None:
            return 0
        if not isinstance(found.shared, dict) or set(found.shared) != {"objects", "epoch", "items"}:
            raise CheckpointError(
                f"step {found.step} was not saved by a session's save()",
                fix="restore it with session.checkpoints.restore(), or choose another checkpoint directory",
            )
        self.registry.load(found.shared["objects"])
        self._epoch, self._items = found.shared["epoch"], found.shared["items"]
        self.step = self._saved_step = found.step
        self._generators = found.own["generators"] if found.own is not None else None
        self._restore_generators()
        if self._peers.rank == 0:
            notice(f"resumed from step {found.step}")
        return found.step

    def save(self, step: Optional[int]) -> None:
        """See `Session.save`."""
        self.step = self.step if step is None else step
        if self.step == self._saved_step:
            return
        if self._stop.agreed and not self.finish():
            return  # the save under way goes first: it is nearer to being whole than the step in hand
        if self.checkpoints is not None:
            shared = {"objects": self.registry.state(), "epoch": self._epoch, "items": self._items}
            own = {"generators": state.random_state(self._device)}
            (self.checkpoints.begin if self._beside else self.checkpoints.save)(self.step, shared, own)
        elif self._saved_step is None and self._peers.rank == 0:
            notice("nothing is saved: " + NO_DIRECTORY)
        self._saved_step = self.step

    def steps(
        self, loader: Any, epochs: Optional[int], max_steps: Optional[int], save_every: int
    ) -> Iterator[Tuple[int, Any]]:
        """See `Session.steps`."""
        while (epochs is None or self._epoch < epochs) and self.step != max_steps:
            fresh, first_step = self._items == 0, self.step
            for batch in self._rest_of_epoch(loader):
                self.step += 1
                beat()
                self._items += self._items_per_step(loader)
                yield self.step, batch
                if self.step == max_steps:
                    break
                if self._stop.should_stop(self.step):
                    self.save(None)
                    return
                if save_every and self.step % save_every == 0:
                    self.save(None)
            else:
                if fresh and self.step == first_step:
                    raise SessionError(
                        "the loader gave no batch", fix="use a smaller batch_size, or drop_last=False"
                    )
                self._epoch, self._items = self._epoch + 1, 0
        if save_every:
            self.save(None)

    def finish(self) -> bool:
        """Wait for the save under way; False, on all ranks, where a stop left it no time on one of them."""
        if self.checkpoints is None or not self._beside:
            return True
        if self._given_up or not self._stop.agreed:
            return not self._given_up and self.checkpoints.wait()
        self._stop_at = self._stop_at or time.monotonic() + self._stop_within_s
        done = self.checkpoints.wait(max(0.0, self._stop_at - time.monotonic()))
        self._given_up = self._peers.any(not done, "waiting for the save under way")
        if self._given_up and self._peers.rank == 0:
            last = self.checkpoints.latest()
            kept = (
                "there is no complete checkpoint" if last is None else f"step {last} is the last complete one"
            )
            notice(f"the stop left no time to save: {kept}")
        return not self._given_up

    def begin(self, loader: Any, epochs: Optional[int], max_steps: Optional[int]) -> None:
        """Check what `steps` is asked for, resume unless that is done, count the steps to come."""
        if epochs is None and max_steps is None:
            raise SessionError("steps() does not know where to end", fix="pass epochs=, max_steps= or both")
        if self._stepped:
            raise SessionError(
                "steps() is there once in a session",
                why="a checkpoint knows one place in the data",
                fix="go through the data in one loop, or iterate over the second loader itself",
            )
        self._stepped = True
        if not self._resumed:
            self.resume(False)
        if max_steps is not None and self.step > max_steps:
            raise SessionError(
                f"the checkpoint has {self.step} steps done, more than max_steps={max_steps}",
                fix="raise max_steps, or choose another checkpoint directory",
            )
        self.total_steps = max_steps
        with contextlib.suppress(TypeError, NotImplementedError):  # not every loader knows its length
            if epochs is not None:
                left = (epochs - self._epoch) * len(loader) - self._items // self._items_per_step(loader)
                in_all = self.step + max(0, left)
                self.total_steps = in_all if max_steps is None else min(in_all, max_steps)

    def _rest_of_epoch(self, loader: Any) -> Iterator[Any]:
        done = self._items // self._items_per_step(loader)
        rest = data.batches(loader, self._seed + self._peers.rank, self._epoch, done)
        self._restore_generators()  # once more: going through the loader may have drawn from them
        self._generators = None
        return rest

    def _items_per_step(self, loader: Any) -> int:
        return (getattr(loader, "batch_size", None) or 1) * self._peers.world_size

    def _restore_generators(self) -> None:
        if self._generators is not None:
            state.restore_random_state(self._generators, self._device)
