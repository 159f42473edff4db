"""Checkpoints of one process on a real disk: whole or not there."""

from __future__ import annotations

import json
import os
import resource
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from gputrain.ddp import CheckpointError, Checkpoints  # noqa: E402  # after the skip
from gputrain.ddp.saving import Beside  # noqa: E402
from tests.each import each  # noqa: E402


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


def test_only_as_many_as_asked_for_are_kept(store: Checkpoints) -> None:
    for step in (1, 2, 3):
        store.save(step, step)
    assert store.steps() == [2, 3]
    assert sorted(os.listdir(store.directory)) == ["step-000000000002", "step-000000000003"]


def test_the_marker_tells_size_and_hash_of_every_file(store: Checkpoints) -> None:
    store.save(1, {"x": 1})
    marker = json.loads((folder(store, 1) / "COMPLETE").read_text())
    assert sorted(marker["files"]) == ["rank-0.pt", "shared.pt"]
    for name, (size, digest) in marker["files"].items():
        assert (folder(store, 1) / name).stat().st_size == size
        assert len(digest) == 64


def shorten(path: Path) -> None:
    os.truncate(path / "shared.pt", 100)


def flip_one_bit(path: Path) -> None:
    data = bytearray((path / "shared.pt").read_bytes())
    data[len(data) // 2] ^= 1
    (path / "shared.pt").write_bytes(bytes(data))


def lose_a_rank(path: Path) -> None:
    (path / "rank-0.pt").unlink()


def tear_the_marker(path: Path) -> None:
    os.truncate(path / "COMPLETE", 40)


def empty_the_marker(path: Path) -> None:
    os.truncate(path / "COMPLETE", 0)


def lose_the_marker(path: Path) -> None:
    (path / "COMPLETE").unlink()


def put_a_link(path: Path) -> None:
    moved = path.parent / "elsewhere.pt"
    (path / "shared.pt").rename(moved)
    (path / "shared.pt").symlink_to(moved)


def claim_a_huge_world(path: Path) -> None:
    marker = json.loads((path / "COMPLETE").read_text())
    (path / "COMPLETE").write_text(json.dumps({**marker, "world_size": 10**12}))


DAMAGE = [
    shorten,
    flip_one_bit,
    lose_a_rank,
    tear_the_marker,
    empty_the_marker,
    lose_the_marker,
    put_a_link,
    claim_a_huge_world,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    store: Checkpoints, damage: object, capfd: pytest.CaptureFixture[str]
) -> None:
    store.save(1, {"x": "first"})
    store.save(2, {"x": "second"})
    damage(folder(store, 2))  # type: ignore[operator]
    found = Checkpoints(store.directory).restore()
    assert found is not None
    assert found.shared == {"x": "first"}
    assert "checkpoint of step 2 is not used: " in capfd.readouterr().err


def test_a_run_is_not_started_over_in_silence_when_every_checkpoint_is_damaged(store: Checkpoints) -> None:
    store.save(1, {"x": 1})
    flip_one_bit(folder(store, 1))
    with pytest.raises(CheckpointError, match="none of the checkpoints"):
        Checkpoints(store.directory).restore()


def test_a_save_that_was_cut_off_before_any_other_starts_from_the_beginning(store: Checkpoints) -> None:
    store.save(1, {"x": 1})
    lose_the_marker(folder(store, 1))
    assert Checkpoints(store.directory).restore() is None


def test_a_checkpoint_that_would_run_code_is_refused_even_with_a_fitting_hash(
    store: Checkpoints, tmp_path: Path
) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, ...]:
            return (os.mkdir, (str(tmp_path / "taken-over"),))

    import hashlib

    store.save(1, {"x": "good"})
    store.save(2, {"x": "bad"})
    torch.save({"objects": Hostile()}, folder(store, 2) / "shared.pt")
    marker = json.loads((folder(store, 2) / "COMPLETE").read_text())
    data = (folder(store, 2) / "shared.pt").read_bytes()
    marker["files"]["shared.pt"] = [len(data), hashlib.sha256(data).hexdigest()]
    (folder(store, 2) / "COMPLETE").write_text(json.dumps(marker))
    found = Checkpoints(store.directory).restore()
    assert found is not None
    assert found.shared == {"x": "good"}
    assert not (tmp_path / "taken-over").exists()


def test_what_could_not_be_loaded_again_is_refused_while_saving(store: Checkpoints) -> None:
    with pytest.raises(CheckpointError, match=r"shared\['path'\] is a pathlib") as caught:
        store.save(1, {"path": Path("x")})
    assert "convert it to a tensor, a number or a text" in caught.value.fix
    assert store.restore() is None


class Config(dict):  # type: ignore[type-arg]
    """As configuration libraries have them."""


def tagged(tag: object) -> torch.Tensor:
    made = torch.zeros(1)
    made.tag = tag
    return made


@pytest.mark.parametrize(
    "value",
    [Counter("aab"), OrderedDict(a=1), tagged("mine"), {(1, 2): {torch.float32}}, torch.nn.Parameter()],
)
def test_what_is_taken_comes_back_without_pickles_powers(store: Checkpoints, value: object) -> None:
    store.save(1, {"x": value})
    found = store.restore()
    assert found is not None
    assert type(found.shared["x"]) is type(value)


@each(
    "value",
    [
        {1: object()}, [{2}, {object()}], (1, [Path("x")]), torch.nn.Linear(1, 1), {"x": Config(a=1)},
        {"x": defaultdict(float)}, {Config: 1}, {"x": tagged(object())}, OrderedDict(x=frozenset()),
    ],
)  # fmt: skip
def test_unsafe_values_are_found_wherever_they_are(store: Checkpoints, value: object) -> None:
    with pytest.raises(CheckpointError, match="could not be saved"):
        store.save(1, value)


def test_a_full_disk_is_told_and_the_last_checkpoint_stays(store: Checkpoints) -> None:
    store.save(1, {"x": torch.zeros(10)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(CheckpointError) as caught:
            store.save(2, {"x": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "File too large" in caught.value.why
    assert "step 1 is the last complete checkpoint and is intact" in caught.value.fix
    assert os.listdir(store.directory) == ["step-000000000001"]  # what was written in vain makes room
    found = Checkpoints(store.directory).restore()
    assert found is not None
    assert found.step == 1


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (FileNotFoundError(2, "No such file or directory"), "another one saves into"),
        (PermissionError(13, "Permission denied"), "let this job write"),
        (OSError(30, "Read-only file system"), "let this job write"),
        (OSError(28, "No space left on device"), "make room in"),
    ],
)
def test_what_the_system_refuses_has_a_fix_that_helps(
    store: Checkpoints, monkeypatch: pytest.MonkeyPatch, error: OSError, fix: str
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, "rename", refuse)  # as when the marker is put into its place
    with pytest.raises(CheckpointError) as caught:
        store.save(1, {})
    assert fix in caught.value.fix
    assert str(error) in caught.value.why


def test_leftovers_of_a_cut_off_save_are_gone_after_the_next_one(store: Checkpoints) -> None:
    store.save(1, 1)
    store.save(5, 5)
    lose_the_marker(folder(store, 5))
    resumed = Checkpoints(store.directory)
    assert resumed.latest() == 1
    resumed.save(2, 2)
    assert sorted(os.listdir(store.directory)) == ["step-000000000001", "step-000000000002"]


def test_a_damaged_step_is_written_anew_when_the_run_comes_by_again(store: Checkpoints) -> None:
    store.save(1, "one")
    store.save(2, "two")
    flip_one_bit(folder(store, 2))
    resumed = Checkpoints(store.directory)
    assert resumed.restore().step == 1  # type: ignore[union-attr]
    resumed.save(2, "two again")
    assert Checkpoints(store.directory).restore().shared == "two again"  # type: ignore[union-attr]


def test_a_checkpoint_of_another_number_of_ranks_is_refused_by_name(store: Checkpoints) -> None:
    store.save(1, {"x": 1}, {"y": 1})
    path = folder(store, 1)
    marker = json.loads((path / "COMPLETE").read_text())
    (path / "rank-1.pt").write_bytes((path / "rank-0.pt").read_bytes())
    marker["files"]["rank-1.pt"] = marker["files"]["rank-0.pt"]
    (path / "COMPLETE").write_text(json.dumps({**marker, "world_size": 2}))
    with pytest.raises(CheckpointError, match="2 ranks saved step 1, this run has 1"):
        Checkpoints(store.directory).restore()
    found = Checkpoints(store.directory).restore(allow_world_size_change=True)
    assert found is not None
    assert (found.shared, found.own) == ({"x": 1}, None)


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


def test_other_files_in_the_directory_are_left_alone(store: Checkpoints) -> None:
    os.makedirs(store.directory)
    mine = Path(store.directory) / "notes.txt"
    mine.write_text("keep me")
    for step in (1, 2, 3):
        store.save(step, step)
    assert mine.read_text() == "keep me"


def test_keeping_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="keep=0"):
        Checkpoints(str(tmp_path), keep=0)


def test_what_training_changes_after_a_save_began_is_not_in_it(store: Checkpoints) -> None:
    weight, history = torch.zeros(1_000_000), [1]
    store.begin(1, {"weight": weight, "tied": weight[:3], "history": history}, {"mine": history})
    weight.fill_(7.0)
    history.append(2)
    assert store.wait()
    found = store.restore()
    assert found is not None
    assert found.shared["weight"].sum() == 0
    assert (found.shared["history"], found.own) == ([1], {"mine": [1]})
    assert found.shared["tied"].untyped_storage().data_ptr() == found.shared["weight"].data_ptr()


def test_a_module_s_versions_are_copied_with_its_state(store: Checkpoints) -> None:
    store.begin(1, torch.nn.BatchNorm1d(2).state_dict())
    found = store.restore()  # waits by itself
    assert found is not None
    assert found.shared._metadata[""] == {"version": 2}


def test_a_save_beside_that_fails_is_told_by_the_next_and_the_last_one_stays(store: Checkpoints) -> None:
    store.begin(1, {"x": 1})
    store.begin(2, {"x": Path("no tensor")})
    with pytest.raises(CheckpointError, match="step 2 could not be saved"):
        store.begin(3, {"x": 3})
    assert store.latest() == 1
    store.begin(3, {"x": 3})
    assert store.wait()
    assert store.steps() == [1, 3]


def test_waiting_for_a_save_has_an_end(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    beside = Beside()
    beside.begin(pipe.read_bytes)  # a disk that stands still
    assert not beside.wait(0.01)
    pipe.write_bytes(b"it moves again")
    assert beside.wait(60)


def test_pruning_never_takes_the_last_one(store: Checkpoints) -> None:
    store.save(1, 1)
    with pytest.raises(CheckpointError, match="keep=0 leaves nothing"):
        store.prune(0)
    store.prune(1)
    assert store.steps() == [1]
