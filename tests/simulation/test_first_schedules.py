"""The first schedules break no law, in every run; `test_schedules.py` goes on from there."""

import pytest

from tests import present
from tests.simulation.planted import PLANTS
from tests.simulation.runs import simulated

present.backend("compute"), present.backend("vertex")  # else there is nothing here to run

FIRST, TOGETHER = 500, 100
LATER = [pytest.param(first, marks=pytest.mark.check) for first in range(TOGETHER, FIRST, TOGETHER)]


@pytest.mark.parametrize("first", [0, *LATER])
def test_the_first_schedules_break_no_law(first):
    code, told = simulated("--seeds", f"{first}:{first + TOGETHER}", limit_s=280)
    assert code == 0, told


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_fault_can_be_planted_where_the_code_stands_today(plant):
    compile(plant.planted(plant.path.read_text()), plant.module, "exec")
