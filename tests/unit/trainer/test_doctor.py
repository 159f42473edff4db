"""What is made of what backends in memory say beforehand: of a job, and of their quotas."""

import pytest

from gputrain import RequestError
from tests.unit.trainer.places import Place

L4 = {"gpu": "L4:1", "max_run_duration": "1h"}


def test_a_plan_says_which_of_its_clouds_are_emulated(world, script):
    real, emulated, local = Place("compute", world), Place("vertex", world), Place("slurm", world)
    real.emulator, emulated.emulator = "", "http://127.0.0.1:1"
    assert world.trainer(real, local).plan(script, **L4).notes == ()
    (note,) = world.trainer(real, emulated, local).plan(script, **L4).notes
    assert note.startswith("Using the emulator at http://127.0.0.1:1")


def test_without_quotas_all_backends_are_named(world):
    with pytest.raises(RequestError, match="compute and vertex has no quotas"):
        world.trainer(Place("compute", world), Place("vertex", world)).quotas("L4:1")
