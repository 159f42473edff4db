"""Checkpoints of one process on a real disk: whole or not there."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


from gputrain.ddp import CheckpointError, Checkpoints  # noqa: E402  # after the skip


@pytest.fixture
def store(tmp_path: Path) -> Checkpoints:
    return Checkpoints(str(tmp_path / "checkpoints"))


def folder(store: Checkpoints, step: int) -> Path:
    return Path(store.directory) / f"step-{step:012d}"


def test_what_was_saved_comes_back(store: Checkpoints) -> None:
    store.save(7, {"weight": torch.arange(4.0), "names": ["a", ("b", 1)]}, {"mine": b"bytes"})
    found = store.restore()
    assert found is not None
    assert found.step == 7
    assert torch.equal(found.shared["weight"], torch.arange(4.0))
    assert found.shared["names"] == ["a", ("b", 1)]
    assert found.own == {"mine": b"bytes"}


def test_an_empty_or_missing_directory_has_nothing_to_resume(store: Checkpoints) -> None:
    assert store.restore() is None
    os.makedirs(store.directory)
    assert store.restore() is None


def lose_the_marker(path: Path) -> None:
    (path / ".metadata").unlink()


def test_a_step_without_its_marker_gives_way_to_the_one_before(store: Checkpoints) -> None:
    store.save(1, {"x": "first"})
    store.save(2, {"x": "second"})
    lose_the_marker(folder(store, 2))
    assert Checkpoints(store.directory).restore().shared == {"x": "first"}  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata"])
def test_a_run_does_not_start_over_silently_when_its_checkpoint_is_cut_short(
    store: Checkpoints, name: str
) -> None:
    store.save(1, {"x": torch.ones(100)})
    os.truncate(folder(store, 1) / name, 100)
    with pytest.raises(CheckpointError, match="step 1 cannot be resumed") as caught:
        Checkpoints(store.directory).restore()
    assert "to resume from the step before it" in caught.value.fix


def test_what_cannot_be_pickled_is_refused_while_saving(store: Checkpoints) -> None:
    with pytest.raises(CheckpointError, match="step 1 could not be saved"):
        store.save(1, {"x": threading.Lock()})
    assert store.restore() is None


def test_a_full_disk_is_told_and_the_last_checkpoint_stays(store: Checkpoints) -> None:
    store.save(1, {"x": torch.zeros(10)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(CheckpointError) as caught:
            store.save(2, {"x": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "step 1 is the last complete checkpoint and is intact" in caught.value.fix
    assert os.listdir(store.directory) == ["step-000000000001"]  # what was written in vain makes room
    found = Checkpoints(store.directory).restore()
    assert found is not None
    assert found.step == 1


def test_leftovers_of_a_cut_off_save_are_gone_after_the_next_one(store: Checkpoints) -> None:
    store.save(1, 1)
    store.save(5, 5)
    lose_the_marker(folder(store, 5))
    resumed = Checkpoints(store.directory)
    assert resumed.latest() == 1
    resumed.save(2, 2)
    assert sorted(os.listdir(store.directory)) == ["step-000000000001", "step-000000000002"]


def test_a_second_run_in_a_used_directory_is_refused_unless_it_resumes(store: Checkpoints) -> None:
    store.save(100, "an older run")
    with pytest.raises(CheckpointError, match="already holds step 100") as caught:
        Checkpoints(store.directory).save(10, "a new run")
    assert "resume before you save" in caught.value.fix
    assert store.steps() == [100]


def test_saving_a_step_twice_changes_nothing(store: Checkpoints) -> None:
    store.save(1, "first")
    store.save(1, "second")
    assert store.restore().shared == "first"  # type: ignore[union-attr]


def test_what_training_changes_after_a_save_began_is_not_in_it(store: Checkpoints) -> None:
    weight, history = torch.zeros(1_000_000), [1]
    store.begin(1, {"weight": weight, "history": history}, {"mine": history})
    weight.fill_(7.0)
    history.append(2)
    assert store.wait()
    found = store.restore()
    assert found is not None
    assert found.shared["weight"].sum() == 0
    assert (found.shared["history"], found.own) == ([1], {"mine": [1]})


def test_a_save_beside_that_fails_is_told_by_the_next_and_the_last_one_stays(store: Checkpoints) -> None:
    store.begin(1, {"x": 1})
    store.begin(2, {"x": lambda: None})
    with pytest.raises(CheckpointError, match="step 2 could not be saved"):
        store.begin(3, {"x": 3})
    assert store.latest() == 1
    store.begin(3, {"x": 3})
    assert store.wait()
    assert store.steps() == [1, 3]


def test_pruning_never_takes_the_last_one(store: Checkpoints) -> None:
    store.save(1, 1)
    with pytest.raises(CheckpointError, match="keep=0 leaves nothing"):
        store.prune(0)
    store.prune(1)
    assert store.steps() == [1]
