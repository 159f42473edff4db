"""Which jobs a list holds."""

from datetime import timedelta

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
