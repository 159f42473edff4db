"""Data in a fixed order: shared out fully, the same each time, and taken up in the middle."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, strategies as st

from gputrain.ddp import SessionError
from gputrain.ddp.data import ResumableSampler, batches, make_loader


class Noisy(torch.utils.data.Dataset):
    """Items with random augmentation, from two generators."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[int, float, float]:
        return index, float(torch.rand(())), random.random()


@given(
    length=st.integers(1, 60),
    world_size=st.integers(1, 7),
    shuffle=st.booleans(),
    epoch=st.integers(0, 3),
    seed=st.integers(0, 9),
)
def test_together_the_ranks_see_every_item_and_each_equally_many(
    length: int, world_size: int, shuffle: bool, epoch: int, seed: int
) -> None:
    shares = []
    for rank in range(world_size):
        sampler = ResumableSampler(length, rank=rank, world_size=world_size, shuffle=shuffle, seed=seed)
        sampler.set_epoch(epoch)
        shares.append(list(sampler))
        assert len(shares[-1]) == len(sampler)
    assert len({len(share) for share in shares}) == 1
    assert {index for share in shares for index in share} == set(range(length))


@given(length=st.integers(7, 60), world_size=st.integers(1, 7))
def test_drop_last_repeats_nothing(length: int, world_size: int) -> None:
    shares = [
        list(ResumableSampler(length, rank=rank, world_size=world_size, drop_last=True))
        for rank in range(world_size)
    ]
    seen = [index for share in shares for index in share]
    assert len(seen) == len(set(seen)) == length // world_size * world_size


@given(start=st.integers(0, 10), epoch=st.integers(0, 2))
def test_an_epoch_taken_up_in_the_middle_is_the_rest_of_it(start: int, epoch: int) -> None:
    sampler = ResumableSampler(20, rank=1, world_size=2, seed=3)
    sampler.set_epoch(epoch)
    whole = list(sampler)
    sampler.start_at(epoch, start)
    assert list(sampler) == whole[start:]
    assert list(sampler) == whole  # the next iteration is a whole epoch again


def test_a_dataset_smaller_than_the_world_is_refused_with_drop_last() -> None:
    with pytest.raises(SessionError, match="3 items is too small for 4 ranks"):
        ResumableSampler(3, world_size=4, drop_last=True)


def loader(**options: object) -> object:
    return make_loader(Noisy(), 2, ResumableSampler(12), exact=True, options=dict(options))


@pytest.mark.parametrize("done", [0, 1, 3, 6])
def test_worker_processes_give_the_same_items_after_a_resume(done: int) -> None:
    def read(skip: int) -> list[list[object]]:
        return [[part.tolist() for part in batch] for batch in batches(loader(num_workers=2), 7, 0, skip)]

    assert read(done) == read(0)[done:]


def test_an_iterable_without_a_sampler_is_read_up_to_its_place() -> None:
    assert list(batches(["a", "b", "c"], 0, 0, 2)) == ["c"]


def test_a_loader_of_your_own_with_an_epoch_aware_sampler_is_told_the_epoch() -> None:
    sampler = torch.utils.data.DistributedSampler(list(range(8)), num_replicas=1, rank=0, seed=2)
    own = torch.utils.data.DataLoader(list(range(8)), sampler=sampler)
    first = [int(item) for item in batches(own, 0, 1, 0)]
    assert sampler.epoch == 1
    assert [int(item) for item in batches(own, 0, 1, 3)] == first[3:]


def test_persistent_workers_are_refused_where_bits_must_agree() -> None:
    with pytest.raises(SessionError, match="persistent workers"):
        loader(num_workers=1, persistent_workers=True)
