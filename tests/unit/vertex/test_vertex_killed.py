"""A client that is killed once the create was sent: whoever comes with its key finds the job."""

from datetime import datetime, timezone

import pytest

from gputrain.trainer import Trainer
from gputrain.trainer.claim import TURN_S
from gputrain_emulator import faults

CREATE = "aiplatform.customJobs.create"
LIST = "aiplatform.customJobs.list"


@pytest.fixture
def submit(make, cloud, code):
    """Submits under one key, with the cloud's clock; whoever is given another sleep dies or lives by it."""

    def now():
        return datetime.fromtimestamp(cloud.clock.now(), timezone.utc)

    def build(sleep=cloud.clock.advance, **settings):
        trainer = Trainer(make(sleep=sleep, **settings), sleep=sleep, now=now)
        return trainer.submit("train.py", source_dir=code, gpu="L4:2", idempotency_key="k")

    return build


@pytest.fixture
def killed(submit, cloud):
    """A submit whose client dies in its first wait."""

    def die(_seconds):
        raise SystemExit

    def build(fault, **settings):
        cloud.fail(CREATE, fault)
        with pytest.raises(SystemExit):
            submit(sleep=die, **settings)

    return build


@pytest.mark.parametrize("transport", ["rest", "grpc"])
@pytest.mark.parametrize("since_s", [0, 100, TURN_S + 1])
@pytest.mark.parametrize("stale_s", [30, 150])
def test_the_job_that_it_made_is_found_however_late_lists_show_it(
    killed, submit, cloud, vertex, transport, since_s, stale_s
):
    cloud.fail(LIST, faults.Stale(seconds=stale_s), times=None)
    killed(faults.DropAfterCommit(), transport=transport)
    assert len(vertex.jobs) == 1
    cloud.clock.advance(since_s)
    job = submit(transport=transport)
    (number,) = vertex.jobs
    cloud.clock.advance(stale_s)
    assert job.refresh().raw["name"].endswith(f"/{number}")


def test_in_whichever_region_it_was_made_it_is_found(killed, submit, cloud, vertex):
    cloud.fail(LIST, faults.Stale(seconds=30), times=None)
    killed(faults.DropAfterCommit(), regions=["us-central1", "europe-west4"])
    assert submit(regions=["europe-west4", "us-central1"]).ref.place == "us-central1"
    assert len(vertex.jobs) == 1


def test_where_nothing_was_made_the_job_is_made_once_its_turn_is_over(killed, submit, cloud, vertex):
    killed(faults.DropBeforeCommit())
    assert vertex.jobs == {}
    begun = cloud.clock.now()
    submit()
    assert len(vertex.jobs) == 1
    assert TURN_S <= cloud.clock.now() - begun < TURN_S + 60
