"""Which jobs a list holds."""

from datetime import timedelta

import pytest

from gputrain import (
    PermissionDeniedError,
    State,
    causes,
)
from gputrain.backends.base import Status
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from tests.unit.trainer.conftest import L4
from tests.unit.trainer.places import Place

FAILED = Status(state=State.FAILED, cause=causes.EXCEPTION, has_run=True)


def test_jobs_of_all_backends_are_listed_newest_first(cloud, trainer, script):
    names = ("vertex", "compute", "vertex", "compute")
    made = []
    for name in names:
        made.append(trainer(name).submit(script, **L4).id)
        cloud.clock.advance(60)
    for order in (names[:2], names[1:3]):
        assert [job.id for job in trainer(*order).jobs()] == made[::-1]


LISTS = "aiplatform.customJobs.list"
FORBIDDEN = faults.Refuse(error=ApiError(403, "Permission 'aiplatform.customJobs.list' denied"))


def test_a_backend_that_cannot_be_listed_hides_no_job_of_another_and_is_named(cloud, trainer, script, caplog):
    seen = trainer("compute").submit(script, **L4)
    trainer("vertex").submit(script, **L4)
    for method in (LISTS, "aiplatform.customJobs.get"):
        cloud.fail(method, FORBIDDEN, times=None)
    jobs = trainer("vertex", "compute").jobs()
    assert jobs == [seen]
    (told,) = jobs.left_out
    assert told.startswith("vertex: ")
    assert f"left out: {told}" in str(jobs.table)
    assert told in caplog.text
    with pytest.raises(PermissionDeniedError):
        trainer("vertex").jobs()


def test_a_list_tells_of_each_job_where_it_is_and_what_it_costs(world, submit):
    place = Place("compute", world, price_usd_h=2.0)
    job, began = submit(place, name="bert", max_run_duration="3h"), world.now()
    ended_at = began + timedelta(minutes=90)
    place.seen = Status(
        state=State.SUCCEEDED, has_run=True, started_at=began, ended_at=ended_at, ran_s=5400.0
    )
    row = (job.id, "succeeded", "compute east-a", "1 x L4", f"{began:%Y-%m-%d %H:%M}", "1:30:00", "3.00")
    assert world.trainer(place).jobs().table.rows == (row,)
    world.trainer(place).supervise()  # from now on its record says so
    place.inspect_many = None
    assert world.trainer(place).jobs().table.rows == (row,)
