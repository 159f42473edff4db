"""No schedule of the protocol breaks a law, and each rule that is left out breaks one."""

import pytest

from tests.simulation.protocol import PLANTS, first_broken


def test_no_schedule_breaks_a_law():
    assert first_broken(range(150)) is None


@pytest.mark.check
@pytest.mark.parametrize("plant", PLANTS)
def test_a_rule_that_is_left_out_breaks_a_law(plant):
    assert first_broken(range(6000), plant) is not None


@pytest.mark.soak
def test_no_schedule_of_many_breaks_a_law():
    assert first_broken(range(30_000)) is None
