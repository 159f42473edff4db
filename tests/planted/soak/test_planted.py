"""Each planted fault is caught by the tests that it names. By hand: `python -m tests.planted`."""

import pytest

from tests.planted.copied import Copy
from tests.planted.faults import FAULTS


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Copy(tmp_path_factory.mktemp("copy"))


def test_the_copy_is_what_is_imported(copy):
    script = "import gputrain, gputrain_emulator as e, sys; print(gputrain.__file__, e.__file__, sep='\\n')"
    found = copy.python("-c", script).stdout.splitlines()
    assert [one.startswith(f"{copy.folder}/") for one in found] == [True, True]


@pytest.mark.timeout(1800)
def test_without_a_fault_all_of_the_named_tests_pass(copy):
    tests = dict.fromkeys(one for plant in FAULTS for one in plant.caught_by)
    outcome = copy.test(*tests, limit_s=300)
    assert outcome.code == 0, outcome.output


@pytest.mark.timeout(900)
@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.name)
def test_a_planted_fault_is_caught(copy, plant):
    with copy.planted(plant):
        outcome = copy.test(*plant.caught_by)
    assert not outcome.missed(plant), outcome.output
