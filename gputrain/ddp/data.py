"""Data in a fixed order that can be resumed in the middle: the sampler and the loader."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from gputrain.ddp.errors import SessionError
from gputrain.ddp.state import seed_everything


class ResumableSampler:
    """Indices of one rank in an order that depends on seed and epoch alone, from any point of the epoch on.

    All ranks draw the same order and take every n-th index of it.
    All get equally many: the end is padded with indices from the start, or cut off with `drop_last`.

    Example:
        >>> sampler = ResumableSampler(5, rank=1, world_size=2, shuffle=False)
        >>> list(sampler)
        [1, 3, 0]
        >>> sampler.start_at(epoch=0, index=2)
        >>> list(sampler)
        [0]
    """

    def __init__(
        self,
        length: int,
        *,
        rank: int = 0,
        world_size: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if length < 1 or (drop_last and length < world_size):
            raise SessionError(f"a dataset of {length} items is too small for {world_size} ranks")
        self._length, self._rank, self._world_size = length, rank, world_size
        self._shuffle, self._seed, self._drop_last = shuffle, seed, drop_last
        self.epoch = 0
        self._start = 0

    def __len__(self) -> int:
        whole, rest = divmod(self._length, self._world_size)
        return whole if self._drop_last or not rest else whole + 1

    def __iter__(self) -> Iterator[int]:
        order = list(range(self._length))
        if self._shuffle:
            import torch

            generator = torch.Generator().manual_seed(_mixed(self._seed, self.epoch))
            order = torch.randperm(self._length, generator=generator).tolist()
        wanted = len(self) * self._world_size
        order = (order * -(-wanted // self._length))[:wanted]
        start, self._start = self._start, 0
        return iter(order[self._rank :: self._world_size][start:])

    def set_epoch(self, epoch: int) -> None:
        """Take the order of another epoch, from its start."""
        self.start_at(epoch, 0)

    def start_at(self, epoch: int, index: int) -> None:
        """Let the next iteration begin at this rank's `index`-th item of an epoch."""
        self.epoch, self._start = epoch, index


def make_loader(
    dataset: Any, batch_size: int, sampler: ResumableSampler, *, exact: bool, options: dict[str, Any]
) -> Any:
    """A DataLoader over one rank's share, with a random generator of its own.

    Without one, every `iter(loader)` draws a seed from the global generator and changes all that follows.
    """
    import torch
    from torch.utils.data import DataLoader

    if exact and options.get("num_workers"):
        if options.get("persistent_workers"):
            raise SessionError(
                "persistent workers cannot be resumed exactly",
                why="they keep their random state from one epoch to the next",
                fix="leave persistent_workers out, or exact_resume",
            )
        dataset = ItemSeeded(dataset)
    return DataLoader(dataset, batch_size, sampler=sampler, generator=torch.Generator(), **options)


def batches(loader: Any, seed: int, epoch: int, done: int) -> Iterator[Any]:
    """The batches of one epoch after the first `done`."""
    sampler: Any = getattr(loader, "sampler", None)
    skip = done
    if isinstance(sampler, ResumableSampler):
        sampler.start_at(epoch, done * (loader.batch_size or 1))
        skip = 0
        if loader.generator is not None:
            loader.generator.manual_seed(_mixed(seed, epoch))
    elif hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)
    iterator: Iterator[Any] = iter(loader)
    for _ in range(skip):
        next(iterator, None)
    return iterator


class ItemSeeded:
    """A dataset whose worker processes seed their generators for each item."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        from torch.utils.data import get_worker_info

        worker = get_worker_info()
        if worker is not None:
            seed_everything(_mixed(worker.seed - worker.id, index))
        return self._dataset[index]


def _mixed(seed: int, salt: int) -> int:
    # Neighbouring seeds give unrelated streams, and (1, 2) another one than (2, 1).
    return random.Random(f"{seed}/{salt}").getrandbits(63)  # noqa: S311  # nothing secret
