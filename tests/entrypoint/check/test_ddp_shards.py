"""Checkpoints of models that are spread over the ranks: saved by so many, resumed by as many others."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from gputrain.ddp import Checkpoints  # after the skip
from tests.entrypoint import ranks
from tests.entrypoint.ranks import Gang

SCRIPT = Path(__file__).parents[1] / "spread_ranks.py"


def run(body: str, *args: str, tmp_path: Path, world: int = 2) -> tuple[list[int], Gang]:
    env = {"GPUTRAIN_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    gang = ranks.start(SCRIPT, body, *args, ranks=world, logs=tmp_path / "logs", env=env)
    return gang.wait(), gang


def losses(strategy: str, until: int, *words: str, tmp_path: Path, world: int) -> dict[int, float]:
    codes, gang = run("train", strategy, str(until), *words, tmp_path=tmp_path, world=world)
    assert codes == [0] * world, gang.log()
    lines = [
        line.split(" ", 1)[1] for line in gang.log(0).splitlines() if line.startswith("GPUTRAIN_METRIC ")
    ]
    return {report["step"]: report["loss"] for report in map(json.loads, lines)}


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """The losses of the run nobody touches, on one rank."""
    return losses("ddp", 8, tmp_path=tmp_path_factory.mktemp("untouched"), world=1)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("fsdp", 4), ("fsdp", 2)),
        (("fsdp", 2), ("fsdp", 3)),
        (("fsdp", 2), ("ddp", 1)),
        (("ddp", 2), ("fsdp", 2)),
    ],
    ids=["4-to-2", "2-to-3", "fsdp-to-ddp", "ddp-to-fsdp"],
)
def test_a_run_goes_on_with_the_same_losses_however_it_is_spread(
    first: tuple[str, int], then: tuple[str, int], untouched: dict[int, float], tmp_path: Path
) -> None:
    seen = losses(first[0], 4, "async", tmp_path=tmp_path, world=first[1])
    seen |= losses(then[0], 8, tmp_path=tmp_path, world=then[1])
    assert sorted(seen) == list(range(1, 9))
    assert seen == pytest.approx(untouched, rel=1e-5)


def test_each_rank_writes_its_part(tmp_path: Path) -> None:
    losses("fsdp", 2, tmp_path=tmp_path, world=2)
    path = tmp_path / "checkpoints" / "step-000000000002"
    assert sorted(os.listdir(path)) == [".metadata", "__0_0.distcp", "__1_0.distcp"]
    assert (path / "__1_0.distcp").stat().st_size > 0.3 * (path / "__0_0.distcp").stat().st_size


def test_a_save_before_the_first_step_leaves_the_optimizer_untouched(tmp_path: Path) -> None:
    run("before_the_first_step", "fsdp", "save", tmp_path=tmp_path)
    codes, gang = run("before_the_first_step", "fsdp", "resume", tmp_path=tmp_path)
    assert codes == [0, 0], gang.log()
    assert "resumed 1, state 0" in gang.log(0)


def test_a_stop_without_time_leaves_with_75_and_the_last_whole_one(tmp_path: Path) -> None:
    codes, gang = run("stopped_without_time", tmp_path=tmp_path)
    assert codes == [75, 75], gang.log()
    assert "the stop left no time to save: step 1 is the last complete one" in gang.log(0)
    assert Checkpoints(str(tmp_path / "checkpoints")).latest() == 1


def test_a_model_of_another_shape_is_refused_by_name(tmp_path: Path) -> None:
    run("another_shape", tmp_path=tmp_path)
    codes, gang = run("another_shape", tmp_path=tmp_path)
    assert codes == [1, 1]
    assert "objects.model.weight was saved as [4, 6], and is [8, 6] here" in gang.log(1)


def test_without_a_place_to_load_into_the_tensors_come_whole(tmp_path: Path) -> None:
    losses("fsdp", 2, tmp_path=tmp_path, world=2)
    codes, gang = run("whole_tensors", tmp_path=tmp_path, world=1)
    assert codes == [0], gang.log()
    assert "Tensor (1, 6)" in gang.log(0)
