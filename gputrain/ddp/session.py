"""`session()`: everything a training script needs from the job around it, in one `with` block."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

from gputrain.ddp import data, report, state, wrap
from gputrain.ddp.checkpoints import Checkpoints, check_torch
from gputrain.ddp.errors import CheckpointError, SessionError
from gputrain.ddp.process_group import ENTERING, Peers, Stop, checkpoint_dir_in, choose_device, join, place_in
from gputrain.runtime import contract

NO_DIRECTORY = f"set {contract.CHECKPOINT_DIR} or session(checkpoint_dir=...)"


class Session:
    """The job as one rank sees it, for a `with` block: process group, device, data, checkpoints, stops.

    A script calls it `session(...)`.

    Args:
        seed: seeds the order of the data and, plus the rank, the generators of Python, numpy and torch;
            None leaves the generators alone.
        device: "cpu" leaves the GPUs alone; None takes this rank's GPU if there is one, on a Mac if the rank
            is alone.
        checkpoint_dir: where state is saved; None takes GPUTRAIN_CHECKPOINT_DIR, then AIP_CHECKPOINT_DIR.
            Without any of them nothing is saved.
        keep: how many complete checkpoints stay.
        exact_resume: a resumed run has the same bits as an uninterrupted one; `wrap` tells the price.
        stop_every: the ranks agree on a stop at every n-th step (or question) only.
        timeout_s: how long ranks wait for each other.
        async_save: a save takes the time of a copy, and is written beside the training, one at a time.
        stop_within_s: with `async_save`, how long a stop waits for a save; the agent kills after 25 s, and a
            Spot VM is gone after 30.

    Attributes:
        rank: this process among all, from 0.
        local_rank: this process among those of its machine, from 0.
        world_size: how many ranks there are.
        is_main: True on rank 0.
        device: this rank's `torch.device`.

    Raises:
        SessionError: on entering, if the environment gives this rank no place, or ranks outnumber GPUs.

    Example:
        >>> with session(device="cpu") as s:
        ...     s.world_size
        1
    """

    def __init__(
        self,
        *,
        seed: int | None = 0,
        device: str | None = None,
        checkpoint_dir: str | None = None,
        keep: int = 2,
        exact_resume: bool = False,
        stop_every: int = 1,
        timeout_s: float = 1800.0,
        async_save: bool = False,
        stop_within_s: float = 20.0,
    ) -> None:
        if stop_every < 1:
            raise SessionError(f"stop_every={stop_every} is not a number of steps", fix="use 1 or more")
        self._seed, self._exact, self._stop_every = seed, exact_resume, stop_every
        self._async_save, self._stop_within_s = async_save, stop_within_s
        self._wanted_device, self._timeout_s = device, timeout_s
        self._directory, self._keep = checkpoint_dir, keep
        self._registry = state.Registry()
        self._checkpoints: Checkpoints | None = None
        self._step = self._epoch = 0
        self._items = 0
        """How far this epoch is, in items of all ranks together: it means the same for any batch size."""
        self._total_steps: int | None = None
        """How many steps there will be; None: that is not known."""
        self._saved_step: int | None = None
        self._is_resumed = self._has_stepped = False
        self._generators: Any = None
        self._stop_at: float | None = None
        self._has_given_up = False

    def __enter__(self) -> Session:
        place = place_in(os.environ)
        is_bare = "CLUSTER_SPEC" in os.environ and "LOCAL_RANK" not in os.environ
        self.device = choose_device(place, self._wanted_device, is_bare)
        self._has_joined = join(place, self.device, self._timeout_s)
        self._peers = peers = Peers.joined(self._timeout_s)
        self.rank, self.local_rank, self.world_size = peers.rank, place.local_rank, peers.world_size
        self.is_main = self.rank == 0
        directory = self._directory or checkpoint_dir_in(os.environ)
        settings = {"exact_resume": self._exact, "seed": self._seed, "stop_every": self._stop_every}
        settings.update(checkpoint_dir=bool(directory), async_save=self._async_save)
        peers.agree(settings, ENTERING)
        if self._seed is not None:
            state.seed_everything(self._seed + self.rank)
        if self._exact:
            state.use_deterministic_kernels(self.device)
        if directory:
            check_torch()
            beside = Peers.joined(self._timeout_s) if self._async_save else None
            self._checkpoints = Checkpoints(directory, peers, beside=beside, keep=self._keep)
        self._stop = Stop(peers, self._stop_every)
        self._stop.listen()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None and self._finish_save():
                self._peers.barrier("leaving the session")
                self._destroy_group()
        except BaseException:
            self._give_up()
            raise
        if kind is not None:
            self._give_up()
        elif self._stop.agreed:
            # Still listening: our own SIGTERM may come later than the agreement with those who got theirs.
            raise SystemExit(contract.STOPPED)
        else:
            self._stop.unlisten()

    def _give_up(self) -> None:
        """Leave without waiting: after an exception other ranks may be gone."""
        self._stop.unlisten()
        if self.world_size == 1:
            self._destroy_group()

    def _destroy_group(self) -> None:
        import torch.distributed as dist

        if self._has_joined and dist.is_initialized():
            dist.destroy_process_group()

    @property
    def step(self) -> int:
        """How many steps are done, the one in hand included: steps count from 1."""
        return self._step

    def wrap(self, model: Any, *, strategy: str = "ddp", **options: Any) -> Any:
        """The model on this rank's device, trained by all ranks together; all start from rank 0's weights.

        "ddp" is DistributedDataParallel. It lays its gradient buckets out anew after the first step, so a
        resumed run adds up its first step in another order (differences near 1e-7 with 4 ranks, torch 2.13).
        `exact_resume=True` keeps the first layout by `find_unused_parameters=True`, which walks the graph and
        agrees on unused parameters once a step.

        "fsdp" is FSDP2's `fully_shard`: parameters, gradients and optimizer are spread over the ranks, and
        each block is gathered while it computes. Make the optimizer after it.

        Args:
            options: DistributedDataParallel's or `fully_shard`'s own; with "fsdp" also `blocks`, the classes
                of modules to gather one at a time, by default the members of every ModuleList.

        Raises:
            SessionError: an unknown strategy, or static_graph=True together with exact_resume.
        """
        self._peers.barrier(wrap.WRAPPING)
        if strategy == "ddp":
            return wrap.replicated(model, self.device, options, exact=self._exact)
        if strategy == "fsdp":
            return wrap.sharded(model, self.device, self._peers, **options)
        raise SessionError(f"strategy={strategy!r} is not known", fix='use "ddp" or "fsdp"')

    def sampler(
        self, dataset: Any, *, shuffle: bool = True, drop_last: bool = False
    ) -> data.ResumableSampler:
        """This rank's share of a dataset, for a DataLoader of your own.

        Raises:
            SessionError: the dataset has fewer items than there are ranks.
            TypeError: it has no length; share it out by `s.rank` and `s.world_size` inside it.
        """
        place = {"rank": self.rank, "world_size": self.world_size}
        seed = self._seed or 0
        return data.ResumableSampler(len(dataset), **place, shuffle=shuffle, seed=seed, drop_last=drop_last)

    def loader(
        self, dataset: Any, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, **options: Any
    ) -> Any:
        """A DataLoader over this rank's share, in an order that resumes in the middle.

        Args:
            batch_size: items per rank and step.
            options: DataLoader's own.

        Raises:
            SessionError, TypeError: as `sampler`; or persistent workers together with exact_resume.
        """
        sampler = self.sampler(dataset, shuffle=shuffle, drop_last=drop_last)
        options["drop_last"] = drop_last
        return data.make_loader(dataset, batch_size, sampler, exact=self._exact, options=options)

    def register(self, **objects: Any) -> None:
        """Name what a checkpoint holds: model, optimizer, scheduler, scaler, dicts or lists of plain data.

        Raises:
            SessionError: an object has no `state_dict()` and cannot be changed in place.
        """
        self._registry.add(objects)

    def resume(self, *, allow_world_size_change: bool = False) -> int:
        """Restore the newest whole checkpoint into what is registered; returns how many steps are done.

        `steps()` calls it by itself; a loop of your own calls it after `register()`. Collective.

        Args:
            allow_world_size_change: resume on another number of ranks: weights and optimizer are restored,
                the data continues at the same item (rounded down to a batch), random generators start anew.

        Raises:
            CheckpointError: checkpoints exist but cannot be used, or another number of ranks saved them.
        """
        if allow_world_size_change and self._exact:
            raise SessionError(
                "another number of ranks never gives the same bits", fix="leave out exact_resume"
            )
        is_elastic = bool(os.environ.get(contract.MIN_NODES)) and not self._exact
        self._is_resumed = True
        found = (
            None
            if self._checkpoints is None
            else self._checkpoints.restore(
                allow_world_size_change=allow_world_size_change or is_elastic,
                into=lambda path: self._registry.like(path[1:]) if path[0] == "objects" else None,
            )
        )
        if found is None:
            return 0
        if not isinstance(found.shared, dict) or set(found.shared) != {"objects", "epoch", "items"}:
            raise CheckpointError(
                f"step {found.step} was not saved by a session's save()",
                fix="restore it with session.checkpoints.restore(), or choose another checkpoint directory",
            )
        self._registry.load(found.shared["objects"])
        self._epoch, self._items = found.shared["epoch"], found.shared["items"]
        self._step = self._saved_step = found.step
        self._generators = found.own["generators"] if found.own is not None else None
        self._restore_generators()
        if self.is_main:
            report.notice(f"resumed from step {found.step}")
        return found.step

    def save(self, step: int | None = None) -> None:
        """Save everything registered, the place in the data and the random generators. Collective.

        Args:
            step: how many steps are done; inside `steps()` it is known.

        Raises:
            CheckpointError: on every rank; the checkpoints before are intact.
            SessionError: not all ranks have come; nothing was written.
        """
        self._step = self._step if step is None else step
        if self._step == self._saved_step:
            return
        if self._stop.agreed and not self._finish_save():
            return  # the save under way goes first: it is nearer to being whole than the step in hand
        if self._checkpoints is not None:
            shared = {"objects": self._registry.state(), "epoch": self._epoch, "items": self._items}
            own = {"generators": state.random_state(self.device)}
            (self._checkpoints.begin if self._async_save else self._checkpoints.save)(self._step, shared, own)
        elif self._saved_step is None and self.is_main:
            report.notice(f"nothing is saved: {NO_DIRECTORY}")
        self._saved_step = self._step

    @property
    def checkpoints(self) -> Checkpoints:
        """The run's checkpoints: save, restore, latest, steps, prune.

        Raises:
            SessionError: no checkpoint directory is set.
        """
        if self._checkpoints is None:
            raise SessionError("there is no checkpoint directory", fix=NO_DIRECTORY)
        return self._checkpoints

    def should_stop(self) -> bool:
        """True on every rank once any was asked to stop; save and leave the block then. Collective."""
        report.beat()
        return self._stop.should_stop()

    def steps(
        self, loader: Any, *, epochs: int | None = None, max_steps: int | None = None, save_every: int = 0
    ) -> Iterator[tuple[int, Any]]:
        """Pairs (step, batch) from where the run stands to its end: resumes, saves and stops by itself.

        A step counts as done when its body has ended.
        On a stop the step in hand is saved, the loop ends, and leaving the block exits with code 75.

        Args:
            loader: from `loader()`, or any iterable that can be iterated anew each epoch.
            epochs: how often to go through the data; None with `max_steps` alone.
            max_steps: how many steps in all, those before a resume included.
            save_every: save after every n-th step and at the end; 0 saves on a stop only.

        Raises:
            SessionError: no end is given, or the loader gives nothing.
            CheckpointError: see `resume` and `save`.

        Example:
            >>> with session(device="cpu") as s:
            ...     [(step, batch) for step, batch in s.steps(["a", "b"], epochs=1)]
            [(1, 'a'), (2, 'b')]
        """
        self._begin(loader, epochs, max_steps)
        return self._steps(loader, epochs, max_steps, save_every)

    def report(self, *, step: int | None = None, **metrics: Any) -> None:
        """Let rank 0 print one line that `job.metrics()` reads; the other ranks do nothing.

        Reading a tensor waits for the GPU, so report every so many steps where steps are short.

        Args:
            step: the step the numbers belong to; None takes the one in hand.
            metrics: numbers, texts or tensors of one element; `time` and `total_steps`, which each line
                has of its own, are kept as `time_reported` and `total_steps_reported`.

        Raises:
            SessionError: a value is not one number.
        """
        report.beat()
        if self.is_main:
            is_count = step is None or step == self._step  # else it may count epochs
            total = self._total_steps if is_count else None
            step = self._step if step is None else step
            report.write_line(report.metric_line(step, metrics, time.time(), total))

    def log(self, text: str, *, all_ranks: bool = False) -> None:
        """Let rank 0 (or every rank) print a line at once."""
        if self.is_main or all_ranks:
            report.write_line(text)

    def barrier(self) -> None:
        """Wait until every rank is here. Raises SessionError where one does something else, or is gone."""
        self._peers.barrier("waiting at barrier()")

    def _begin(self, loader: Any, epochs: int | None, max_steps: int | None) -> None:
        """Check what `steps` is asked for, resume unless that is done, count the steps to come."""
        if epochs is None and max_steps is None:
            raise SessionError("steps() does not know where to end", fix="pass epochs=, max_steps= or both")
        if self._has_stepped:
            fix = "go through the data in one loop, or iterate over the second loader itself"
            raise SessionError("steps() is there once in a session", fix=fix)
        self._has_stepped = True
        if not self._is_resumed:
            self.resume()
        if max_steps is not None and self._step > max_steps:
            raise SessionError(
                f"the checkpoint has {self._step} steps done, more than max_steps={max_steps}",
                fix="raise max_steps, or choose another checkpoint directory",
            )
        self._total_steps = max_steps
        with contextlib.suppress(TypeError, NotImplementedError):  # not every loader knows its length
            if epochs is not None:
                left = (epochs - self._epoch) * len(loader) - self._items // self._items_per_step(loader)
                in_all = self._step + max(0, left)
                self._total_steps = in_all if max_steps is None else min(in_all, max_steps)

    def _steps(
        self, loader: Any, epochs: int | None, max_steps: int | None, save_every: int
    ) -> Iterator[tuple[int, Any]]:
        while (epochs is None or self._epoch < epochs) and self._step != max_steps:
            fresh, first_step = self._items == 0, self._step
            for batch in self._rest_of_epoch(loader):
                self._step += 1
                report.beat()
                self._items += self._items_per_step(loader)
                yield self._step, batch
                if self._step == max_steps:
                    break
                if self._stop.should_stop(self._step):
                    self.save(None)
                    return
                if save_every and self._step % save_every == 0:
                    self.save(None)
            else:
                if fresh and self._step == first_step:
                    raise SessionError(
                        "the loader gave no batch", fix="use a smaller batch_size, or drop_last=False"
                    )
                self._epoch, self._items = self._epoch + 1, 0
        if save_every:
            self.save(None)

    def _rest_of_epoch(self, loader: Any) -> Iterator[Any]:
        done = self._items // self._items_per_step(loader)
        rest = data.batches(loader, (self._seed or 0) + self.rank, self._epoch, done)
        self._restore_generators()  # once more: going through the loader may have drawn from them
        self._generators = None
        return rest

    def _items_per_step(self, loader: Any) -> int:
        return (getattr(loader, "batch_size", None) or 1) * self.world_size

    def _restore_generators(self) -> None:
        if self._generators is not None:
            state.restore_random_state(self._generators, self.device)

    def _finish_save(self) -> bool:
        """Wait for the save under way; False, on all ranks, where a stop left it no time on one of them."""
        if self._checkpoints is None or not self._async_save:
            return True
        if self._has_given_up or not self._stop.agreed:
            return not self._has_given_up and self._checkpoints.wait()
        self._stop_at = self._stop_at or time.monotonic() + self._stop_within_s
        done = self._checkpoints.wait(max(0.0, self._stop_at - time.monotonic()))
        self._has_given_up = self._peers.any(not done, "waiting for the save under way")
        if self._has_given_up and self.is_main:
            last = self._checkpoints.latest()
            kept = (
                "there is no complete checkpoint" if last is None else f"step {last} is the last complete one"
            )
            report.notice(f"the stop left no time to save: {kept}")
        return not self._has_given_up


session = Session
