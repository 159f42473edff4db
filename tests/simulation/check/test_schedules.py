"""Schedules that nobody chose break no law; a fault that is planted breaks one."""

import pytest

from tests.simulation.planted import PLANTS
from tests.simulation.runs import simulated
from tests.simulation.test_first_schedules import FIRST

SEEDS = 500
PLANTED_SEEDS = 2000


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", [FIRST, (FIRST + SEEDS) // 2])
def test_no_schedule_breaks_a_law(first):
    code, printed = simulated("--seeds", f"{first}:{first + (SEEDS - FIRST) // 2}", limit_s=1180)
    assert code == 0, printed


def test_what_broke_a_promise_once_breaks_none_today():
    code, told = simulated("--named", limit_s=280)
    assert code == 0, told


def test_one_seed_is_one_schedule():
    first, second = (simulated("--replay", "8", limit_s=140) for _ in range(2))
    assert first == second
    assert "mishaps" in first[1]


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
