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
    script = Path(__file__).parents[1] / "ddp_ranks.py"
    gang = ranks.start(script, body, *args, ranks=world, logs=tmp_path / "logs", env=env)
    return gang.wait(), gang


def test_ranks_work_together_and_rank_0_speaks_for_them(tmp_path: Path) -> None:
    codes, gang = run("sums", tmp_path=tmp_path, world=3)
    assert codes == [0, 0, 0], gang.log()
    assert all("sum 3" in gang.log(rank) for rank in range(3))
    assert [gang.log(rank).count("once") for rank in range(3)] == [1, 0, 0]
    assert '"sum": 3.0' in gang.log(0)
    assert "GPUTRAIN_METRIC" not in gang.log(1)


def test_a_full_disk_on_one_rank_is_an_error_on_all_that_names_it(tmp_path: Path) -> None:
    codes, gang = run("full_disk_on_rank_1", tmp_path=tmp_path)
    assert codes == [1, 1]
    for rank in range(2):
        assert "CheckpointError: step 2 could not be saved" in gang.log(rank)
        assert "why: rank 1: " in gang.log(rank)
        assert "step 1 is the last complete checkpoint and is intact" in gang.log(rank)


def test_checkpoints_on_disks_of_their_own_are_found_out_at_the_first_save(tmp_path: Path) -> None:
    codes, gang = run("disks_of_their_own", str(tmp_path), tmp_path=tmp_path)
    assert codes == [1, 1]
    assert "__1_0.distcp is missing, seen from rank 0; is" in gang.log(0)


def test_a_stop_that_reaches_one_rank_saves_the_same_step_on_all(tmp_path: Path) -> None:
    codes, gang = run("one_is_asked_to_stop", tmp_path=tmp_path)
    assert codes == [75, 75], gang.log()
    assert os.listdir(tmp_path / "checkpoints") == ["step-000000000003"]


@pytest.mark.parametrize("words", [(), ("async",)])
def test_a_rank_that_saves_alone_is_told_who_does_what_on_all(words: tuple[str, ...], tmp_path: Path) -> None:
    codes, gang = run("saves_alone", *words, tmp_path=tmp_path, world=3)
    assert codes == [1] * 3
    told = "SessionError: the ranks are apart: rank 0 is saving; ranks 1, 2 are leaving the session"
    for rank in range(3):
        assert told in gang.log(rank)
        assert "gloo" not in gang.log(rank)
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("resume", "barrier", "rank 0 is resuming; rank 1 is waiting at barrier()"),
        ("steps", "steps", "rank 0 is leaving the session; rank 1 is asking whether to stop"),
    ],
)
def test_ranks_that_are_apart_are_told_who_does_what(
    first: str, second: str, told: str, tmp_path: Path
) -> None:
    codes, gang = run("apart", first, second, tmp_path=tmp_path)
    assert codes == [1, 1]
    for rank in range(2):
        assert f"SessionError: the ranks are apart: {told}" in gang.log(rank)
        assert "gloo" not in gang.log(rank)


def test_a_rank_that_leaves_is_told_that_another_is_gone(tmp_path: Path) -> None:
    codes, gang = run("one_is_killed", tmp_path=tmp_path)
    assert codes == [1, -9]
    assert "SessionError: rank 0 was leaving the session, and another rank is gone" in gang.log(0)
    assert "The above exception was the direct cause" in gang.log(0)


def test_a_rank_that_nobody_joins_says_where_it_waited(tmp_path: Path) -> None:
    codes, gang = run("one_never_enters", tmp_path=tmp_path)
    assert codes == [1, 0]
    assert "SessionError: rank 0 of 2 could not meet the others at 127.0.0.1:" in gang.log(0)


def test_models_of_other_shapes_are_told(tmp_path: Path) -> None:
    codes, gang = run("other_models", tmp_path=tmp_path)
    assert codes == [1, 1]
    assert "SessionError: the ranks do not agree on weight" in gang.log(0)


def test_settings_that_differ_are_told_before_anything_hangs(tmp_path: Path) -> None:
    codes, gang = run("settings_of_their_own", tmp_path=tmp_path)
    assert codes == [1, 1]
    assert "do not agree on exact_resume: rank 0 has False, rank 1 has True" in gang.log(0)


def test_another_number_of_ranks_is_refused(tmp_path: Path) -> None:
    run("save_or_resume", tmp_path=tmp_path, world=2)
    codes, gang = run("save_or_resume", tmp_path=tmp_path, world=3)
    assert codes == [1, 1, 1]
    refusal = "step 2 cannot be resumed: 2 ranks saved it, this run has 3"
    assert all(refusal in gang.log(rank) for rank in range(3))


def test_another_number_of_ranks_goes_on_at_the_same_item_when_allowed(tmp_path: Path) -> None:
    run("save_or_resume", tmp_path=tmp_path, world=2)  # two steps of two ranks: items 0 to 3
    codes, gang = run("save_or_resume", "any-world", tmp_path=tmp_path, world=4)
    assert codes == [0] * 4, gang.log()
    assert "resumed 2, saw [0, 2, 4, 8]" in gang.log(0)
    assert "resumed 2, saw [0, 2, 7, 11]" in gang.log(3)
