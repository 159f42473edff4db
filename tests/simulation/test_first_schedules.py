"""The first schedules break no law, in every run; `check/test_schedules.py` continues from there."""

import pytest

from tests.simulation.planted import PLANTS
from tests.simulation.runs import simulated

FIRST = 40


def test_the_first_schedules_break_no_law():
    code, printed = simulated("--seeds", f"0:{FIRST}", limit_s=280)
    assert code == 0, printed


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_fault_can_be_planted_where_the_code_stands_today(plant):
    compile(plant.planted(plant.path.read_text()), plant.module, "exec")
