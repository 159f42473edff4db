"""The law of saves beside training: killed inside one at any moment, a run resumes from the whole one before.

2 ranks of FSDP2 that save asynchronously every 5 steps; ten strikes in every run, a hundred in the soak.
SIGKILL goes to one rank inside a save; every fifth strike is a SIGTERM, which loses nothing.
Nothing torn is ever loaded: each resume takes the newest step whose files are those of its marker, and every
loss and the final weights have the bits of the run nobody touched.
A kill costs the save it struck: the interval before it, and the steps trained while it was written, which
are at most one interval more, for the next save waits for it.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.entrypoint import ranks
from tests.laws.check.test_preemption_laws import SCRIPT, Story, resumed_from, save_under_way, wait_until

RANKS, SAVE_EVERY = 2, 5


@pytest.mark.parametrize("strikes", [10, pytest.param(100, marks=pytest.mark.soak)])
def test_a_run_struck_inside_its_saves_is_the_run_nobody_touched(strikes: int, tmp_path: Path) -> None:
    steps = 12 * strikes
    untouched, story = Story(), Story()
    gang = start(tmp_path / "untouched", steps, "0")
    assert gang.wait(300) == [0] * RANKS, gang.log()
    assert untouched.read(gang.log()) == steps
    chance = random.Random(2026)
    resumed = inside = 0
    for attempt in range(strikes):
        gang = start(tmp_path, steps, str(attempt))
        number = signal.SIGTERM if attempt % 5 == 4 else signal.SIGKILL
        strike(gang, tmp_path, number, resumed, chance)
        codes = gang.wait()
        assert resumed_from(gang.log()) == resumed, gang.log()
        last = max(story.read(gang.log()), resumed)
        whole, struck = on_disk(tmp_path)
        inside += struck is not None
        if number == signal.SIGTERM:
            assert (codes, whole) == ([75] * RANKS, last), gang.log()
        else:
            assert -signal.SIGKILL in codes, gang.log()
        assert (struck or whole) - whole <= SAVE_EVERY, gang.log()
        assert last - whole <= 2 * SAVE_EVERY, gang.log()
        resumed = whole
    gang = start(tmp_path, steps, "last")
    assert gang.wait(300) == [0] * RANKS, gang.log()
    assert story.read(gang.log()) == steps
    assert inside >= strikes // 4  # else the law has not looked into saves at all
    assert (story.losses, story.weights) == (untouched.losses, untouched.weights)


def start(folder: Path, steps: int, name: str) -> ranks.Gang:
    env = {"GPUTRAIN_CHECKPOINT_DIR": str(folder / "checkpoints")}
    words = [str(steps), str(SAVE_EVERY), "--exact-resume", "--spread"]
    return ranks.start(SCRIPT, *words, ranks=RANKS, logs=folder / name, env=env)


def strike(
    gang: ranks.Gang, folder: Path, number: signal.Signals, resumed: int, chance: random.Random
) -> None:
    """Signal one rank at a random moment of one of the next saves."""
    step = resumed + SAVE_EVERY * chance.randint(1, 3) - 1
    wait_until(gang, lambda: f'"step": {step},' in gang.log())
    wait_until(gang, lambda: save_under_way(folder))
    time.sleep(chance.random() * 0.03)  # any moment of a save, not a synchronisation
    gang.signal(chance.randrange(RANKS), number)


def on_disk(folder: Path) -> tuple[int, int | None]:
    """The newest step that has its `.metadata`, and a newer one without, by looking only."""
    whole, halves = 0, [0]
    for path in (folder / "checkpoints").glob("step-*"):
        step = int(path.name.split("-")[1])
        if (path / ".metadata").exists():
            whole = max(whole, step)
        else:
            halves.append(step)
    return whole, max(halves) if max(halves) > whole else None
