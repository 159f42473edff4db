"""Which jobs a list holds."""

from datetime import timedelta

import pytest

from gputrain import (
    AuthError,
    GputrainError,
    JobLostError,
    Local,
    PermissionDeniedError,
    ProviderError,
    RequestError,
    SpecError,
    Trainer,
    TransientError,
)
from tests.unit.trainer.conftest import L4


def test_a_list_holds_the_jobs_of_all_its_labels_and_from_its_time_on(cloud, trainer, script, now):
    for team in ("a", "b"):
        trainer("compute").submit(script, **L4, labels={"team": team, "at": "work"})
        cloud.clock.advance(3600)

    def count(**asked):
        return len(trainer("compute").jobs(**asked))

    assert count() == count(labels={}) == count(labels={"at": "work"}) == 2
    assert count(labels={"team": "a"}) == count(labels={"team": "a", "at": "work"}) == 1
    assert count(labels={"team": "a", "at": "home"}) == count(labels={"team": "c"}) == 0
    assert count(since=now() - timedelta(hours=3)) == 2
    assert count(since=now() - timedelta(minutes=90)) == 1
    assert count(since=now() - timedelta(minutes=90), labels={"team": "a"}) == count(since=now()) == 0


def test_jobs_of_all_backends_are_listed_newest_first(cloud, trainer, script):
    names = ("vertex", "compute", "vertex", "compute")
    made = []
    for name in names:
        made.append(trainer(name).submit(script, **L4).id)
        cloud.clock.advance(60)
    for order in (names[:2], names[1:3]):
        assert [job.id for job in trainer(*order).jobs()] == made[::-1]


class Refusing(Local):
    """This machine, where one job cannot be looked at."""

    fault = GputrainError("unset")

    def observe(self, ref):
        if ref.name.startswith("refused"):
            raise self.fault
        return super().observe(ref)


@pytest.mark.parametrize(
    ("fault", "is_listed"),
    [
        (TransientError("no network"), True),
        (AuthError("the login has expired"), True),
        (PermissionDeniedError("not yours"), True),
        (RequestError("no such thing"), False),
        (SpecError("its spec is none"), False),
        (ProviderError("what is that"), False),
        (JobLostError("gone"), False),
    ],
)
def test_a_job_that_cannot_be_looked_at_hides_no_other_and_is_not_taken_for_gone(script, fault, is_listed):
    here = Refusing(gpus=0)
    here.fault = fault
    refused, other = (Trainer(here).submit(script, name=name) for name in ("refused", "other"))
    assert {job.id for job in Trainer(here).jobs()} == {other.id, *([refused.id] if is_listed else [])}
    assert Trainer(here).supervise() == []
    other.wait(timeout="5m")
