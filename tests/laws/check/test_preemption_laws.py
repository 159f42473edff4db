"""The preemption law: a run that is stopped or killed at any moment, and resumed, is the run nobody touched.

4 ranks on gloo; SIGTERM to some ranks or SIGKILL to one, at random moments and inside saves, 20 times a run.
The soak does the same to two agents of two ranks each.
With `exact_resume=True` the final weights have the same sha256; by default the losses agree to 1e-5 relative.
No more steps are lost than one checkpoint interval, and the newest whole checkpoint is what is resumed.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.entrypoint import ranks
from tests.laws import agents

SCRIPT = Path(__file__).parents[1] / "preempted_training.py"
RANKS, STEPS, SAVE_EVERY, KILLS = 4, 600, 10, 20
Gang = ranks.Gang | agents.Agents


@dataclass
class Story:
    """What the logs of a run tell: losses by step, final weights, steps lost at each interruption."""

    losses: dict[int, float] = field(default_factory=dict)
    weights: str = ""
    lost: list[int] = field(default_factory=list)
    inside_saves: int = 0

    def read(self, log: str) -> int:
        """Take the reports of one attempt in; its last step."""
        steps = [
            json.loads(line.split(" ", 1)[1])
            for line in log.splitlines()
            if line.startswith("GPUTRAIN_METRIC ")
        ]
        self.losses.update({report["step"]: report["loss"] for report in steps})
        found = re.search(r"^weights (\w+)$", log, re.MULTILINE)
        self.weights = found.group(1) if found else self.weights
        return steps[-1]["step"] if steps else 0


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Story]:
    """The run nobody touches, in both modes."""
    stories = {}
    for exact in (False, True):
        folder = tmp_path_factory.mktemp("untouched")
        gang = start(folder, exact, "0")
        assert gang.wait(120) == [0] * RANKS, gang.log()
        stories[exact] = Story()
        assert stories[exact].read(gang.log()) == STEPS
    return stories


@pytest.mark.parametrize(
    "exact", [pytest.param(True, id="exact"), pytest.param(False, id="default", marks=pytest.mark.soak)]
)
def test_an_interrupted_run_is_the_uninterrupted_one(
    exact: bool, untouched: dict[bool, Story], tmp_path: Path
) -> None:
    interrupt(start, exact, untouched[exact], tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "default"])
def test_an_interrupted_run_of_two_nodes_is_the_uninterrupted_one(
    exact: bool, untouched: dict[bool, Story], tmp_path: Path
) -> None:
    interrupt(start_nodes, exact, untouched[exact], tmp_path)


def interrupt(begin: Callable[[Path, bool, str], Gang], exact: bool, expected: Story, tmp_path: Path) -> None:
    story = Story()
    chance = random.Random(2026)
    resumed = 0
    for attempt in range(KILLS):
        gang = begin(tmp_path, exact, str(attempt))
        number = chance.choice([signal.SIGTERM, signal.SIGKILL])
        struck_in_save = strike(gang, tmp_path, number, resumed, chance)
        codes = gang.wait()
        last = story.read(gang.log())
        story.inside_saves += struck_in_save
        assert resumed_from(gang.log()) == resumed
        if number == signal.SIGTERM:
            assert codes == [75] * RANKS, gang.log()
        else:
            assert -signal.SIGKILL in codes, gang.log()
        resumed = newest_whole(tmp_path)
        story.lost.append(last - resumed)
    gang = begin(tmp_path, exact, "last")
    assert gang.wait(120) == [0] * RANKS, gang.log()
    assert story.read(gang.log()) == STEPS
    assert max(story.lost) <= SAVE_EVERY
    assert story.inside_saves >= KILLS // 5  # else the law has not looked into saves at all
    assert sorted(story.losses) == list(range(1, STEPS + 1))
    if exact:
        assert story.weights == expected.weights
        assert story.losses == expected.losses
    else:
        assert story.losses == pytest.approx(expected.losses, rel=1e-5)


def start(folder: Path, exact: bool, name: str) -> Gang:
    env = {"GPUTRAIN_CHECKPOINT_DIR": str(folder / "checkpoints")}
    return ranks.start(SCRIPT, *arguments(exact), ranks=RANKS, logs=folder / name, env=env)


def start_nodes(folder: Path, exact: bool, name: str) -> Gang:
    return agents.Agents(SCRIPT, *arguments(exact), logs=folder / name, checkpoints=folder / "checkpoints")


def arguments(exact: bool) -> list[str]:
    return [str(STEPS), str(SAVE_EVERY), *(["--exact-resume"] if exact else [])]


def strike(gang: Gang, folder: Path, number: signal.Signals, resumed: int, chance: random.Random) -> bool:
    """Signal at a random step, or in the middle of the next save; True if a save was under way."""
    step = resumed + chance.randint(1, 20)
    wait_until(gang, lambda: f'"step": {step},' in gang.log())
    if chance.random() < 0.5:
        wait_until(gang, lambda: save_under_way(folder))
    else:
        time.sleep(chance.random() * 0.02)  # any moment of a step, not a synchronisation
    inside = save_under_way(folder)
    struck = [chance.randrange(RANKS)]
    if number == signal.SIGTERM:
        struck = chance.sample(range(RANKS), chance.randint(1, RANKS))
    for rank in struck:
        gang.signal(rank, number)
    return inside


def wait_until(gang: Gang, reached: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 240  # a busy machine takes a minute to import torch in all ranks
    while not reached():
        assert time.monotonic() < give_up, gang.log()
        assert gang.is_alive(), gang.log()
        time.sleep(0.0005)


def save_under_way(folder: Path) -> bool:
    """Whether the newest step has a folder and no marker yet."""
    try:
        steps = sorted(name for name in os.listdir(folder / "checkpoints") if name.startswith("step-"))
    except FileNotFoundError:
        return False
    return bool(steps) and not (folder / "checkpoints" / steps[-1] / ".metadata").exists()


def resumed_from(log: str) -> int:
    found = re.search(r"resumed from step (\d+)", log)
    return int(found.group(1)) if found else 0


def newest_whole(folder: Path) -> int:
    """The newest step that has its `.metadata`, found without the code under test."""
    whole = [path.parent.name for path in (folder / "checkpoints").glob("step-*/.metadata")]
    return max((int(name.split("-")[1]) for name in whole), default=0)
