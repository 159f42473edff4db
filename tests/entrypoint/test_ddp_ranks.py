"""Sessions of several real ranks: an error on one is told on all, and no rank waits for one that is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.entrypoint import ranks
from tests.entrypoint.ranks import Gang


def run(body: str, *args: str, tmp_path: Path, world: int = 2) -> tuple[list[int], Gang]:
    env = {"GPUTRAIN_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    script = Path(__file__).with_name("ddp_ranks.py")
    gang = ranks.start(script, body, *args, ranks=world, logs=tmp_path / "logs", env=env)
    return gang.wait(), gang


def test_ranks_work_together_and_rank_0_speaks_for_them(tmp_path: Path) -> None:
    codes, gang = run("sums", tmp_path=tmp_path, world=3)
    assert codes == [0, 0, 0], gang.log()
    assert all("sum 3" in gang.log(rank) for rank in range(3))
    assert [gang.log(rank).count("once") for rank in range(3)] == [1, 0, 0]
    assert '"sum": 3.0' in gang.log(0)
    assert "GPUTRAIN_METRIC" not in gang.log(1)


def test_a_rank_that_raises_leaves_at_once_with_its_own_traceback(tmp_path: Path) -> None:
    codes, gang = run("one_raises", tmp_path=tmp_path)
    assert codes[1] == 1
    assert "ValueError: the labels of shard 1 are damaged" in gang.log(1)
    assert "ValueError" not in gang.log(0)


def test_a_full_disk_on_one_rank_is_an_error_on_all_that_names_it(tmp_path: Path) -> None:
    codes, gang = run("full_disk_on_rank_1", tmp_path=tmp_path)
    assert codes == [1, 1]
    for rank in range(2):
        assert "CheckpointError: step 2 could not be saved" in gang.log(rank)
        assert "rank 1: OSError: [Errno 27] File too large" in gang.log(rank)
        assert "step 1 is the last complete checkpoint and is intact" in gang.log(rank)


def test_checkpoints_on_disks_of_their_own_are_found_out_at_the_first_save(tmp_path: Path) -> None:
    codes, gang = run("disks_of_their_own", str(tmp_path), tmp_path=tmp_path)
    assert codes == [1, 1]
    assert "rank-1.pt is missing, seen from rank 0; is" in gang.log(0)


def test_ranks_that_save_other_steps_are_told_which(tmp_path: Path) -> None:
    codes, gang = run("steps_of_their_own", tmp_path=tmp_path)
    assert codes == [1, 1]
    for rank in range(2):
        assert "do not agree on the step to save: rank 0 step 1, rank 1 step 2" in gang.log(rank)
    assert not (tmp_path / "checkpoints").exists()


def test_a_rank_that_saves_alone_is_told_so(tmp_path: Path) -> None:
    codes, gang = run("saves_alone", tmp_path=tmp_path)
    assert codes[0] == 1
    assert "CheckpointError: step 1 could not be saved: not every rank came to this save" in gang.log(0)


def test_settings_that_differ_are_told_before_anything_hangs(tmp_path: Path) -> None:
    codes, gang = run("settings_of_their_own", tmp_path=tmp_path)
    assert codes == [1, 1]
    assert "do not agree on exact_resume: rank 0 has False, rank 1 has True" in gang.log(0)


def test_a_damaged_file_of_one_rank_sends_all_ranks_back_together(tmp_path: Path) -> None:
    run("save_or_resume", tmp_path=tmp_path)
    path = tmp_path / "checkpoints" / "step-000000000002" / "rank-1.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    codes, gang = run("save_or_resume", tmp_path=tmp_path)
    assert codes == [0, 0], gang.log()
    assert "checkpoint of step 2 is not used: rank 1: rank-1.pt is not what was saved" in gang.log(0)
    assert "resumed 1, saw" in gang.log(1)


def test_another_number_of_ranks_is_refused(tmp_path: Path) -> None:
    run("save_or_resume", tmp_path=tmp_path, world=2)
    codes, gang = run("save_or_resume", tmp_path=tmp_path, world=3)
    assert codes == [1, 1, 1]
    assert all("2 ranks saved step 2, this run has 3" in gang.log(rank) for rank in range(3))


def test_another_number_of_ranks_goes_on_at_the_same_item_when_allowed(tmp_path: Path) -> None:
    run("save_or_resume", tmp_path=tmp_path, world=2)  # two steps of two ranks: items 0 to 3
    codes, gang = run("save_or_resume", "any-world", tmp_path=tmp_path, world=4)
    assert codes == [0] * 4, gang.log()
    assert "resumed 2, saw [0, 2, 4, 8]" in gang.log(0)
    assert "resumed 2, saw [0, 2, 7, 11]" in gang.log(3)


def test_rank_files_of_a_larger_world_do_not_stay_behind(tmp_path: Path) -> None:
    run("save_or_resume", tmp_path=tmp_path, world=3)
    run("save_or_resume", "any-world", tmp_path=tmp_path, world=2)
    newest = max(os.listdir(tmp_path / "checkpoints"))
    assert sorted(os.listdir(tmp_path / "checkpoints" / newest)) == [
        "COMPLETE",
        "rank-0.pt",
        "rank-1.pt",
        "shared.pt",
    ]
