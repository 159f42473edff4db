"""A job that goes on: when it asks again, with which code, and what it may not do."""

import attrs
import pytest

from gputrain.trainer.restart import rest_s
from tests.unit.records.test_record import SPEC, record
from tests.unit.trainer.conftest import L4, MACHINE, creates

SPOT = {**L4, "provisioning_model": "spot", "max_restarts": 1, "max_wait_duration": "6h"}


@pytest.mark.parametrize(
    ("waited_s", "rests_s"), [(0, 30), (20, 30), (60, 60), (240, 240), (900, 600), (50_000, 600)]
)
def test_rests_between_rounds_are_as_long_as_it_has_waited_within_bounds(waited_s, rests_s):
    waiting = record(waiting_since=1000.0 if waited_s else 0.0)
    assert rest_s(attrs.evolve(waiting, written_at=1000.0 + waited_s)) == rests_s


def test_the_last_rest_ends_with_max_wait_duration():
    spec = SPEC.replace(max_wait_duration="20m").to_dict()
    assert rest_s(record(spec=spec, waiting_since=1000.0, written_at=2100.0)) == 100


def test_however_many_watch_a_job_without_room_its_rounds_grow_rare(cloud, trainer, script):
    job = trainer("compute").submit(script, **SPOT)
    watchers = [trainer("compute").attach(job.uri) for _ in range(3)]
    cloud.clock.advance(120)
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    cloud.preempt(f"{job.ref.name}-0-0")
    start = len(creates(cloud))
    for _ in range(360):
        cloud.clock.advance(10)
        for one in watchers:
            one.refresh()
            one.supervise()
    rounds = (len(creates(cloud)) - start) / 3  # three zones have such machines
    assert 8 <= rounds <= 12  # 30, 30, 60, 120, 240, 480 s, then every 600 s, in an hour
