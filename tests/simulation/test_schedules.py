"""Schedules that nobody chose break no law; a fault that is planted breaks one."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import present
from tests.simulation.planted import PLANTS

present.backend("compute"), present.backend("vertex")  # else there is nothing here to run

ROOT = Path(__file__).parents[2]
SEEDS = 500
PLANTED_SEEDS = 2000


def simulated(*words, limit_s):
    """What the simulation says of some schedules, and its exit code."""
    command = [sys.executable, "-m", "tests.simulation", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.timeout(1200)
def test_no_schedule_breaks_a_law():
    halves = (f"0:{SEEDS // 2}", f"{SEEDS // 2}:{SEEDS}")
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(lambda seeds: simulated("--seeds", seeds, limit_s=1180), halves))
    assert [code for code, _ in ends] == [0, 0], "\n".join(told for _, told in ends)


def test_what_broke_a_promise_once_breaks_none_today():
    code, told = simulated("--named", limit_s=280)
    assert code == 0, told


@pytest.mark.timeout(900)
def test_whoever_lacks_a_permission_is_told_which_and_nothing_is_left_running():
    code, told = simulated("--least", limit_s=880)
    assert code == 0, told


def test_one_seed_is_one_schedule():
    first, second = (simulated("--replay", "8", limit_s=140) for _ in range(2))
    assert first == second
    assert "request" in first[1]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_fault_can_be_planted_where_the_code_stands_today(plant):
    compile(plant.planted(plant.path.read_text()), plant.module, "exec")


@pytest.mark.soak
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_fault_breaks_a_law(plant):
    code, told = simulated("--plant", plant.name, "--named", limit_s=280)
    if code == 0:
        words = ("--plant", plant.name, "--first", "--seeds", f"0:{PLANTED_SEEDS}")
        code, told = simulated(*words, limit_s=2600)
    print(told)
    assert code == 1, told
