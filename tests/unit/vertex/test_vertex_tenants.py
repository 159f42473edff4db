"""Two that share a project keep apart by their buckets, or by prefixes of one, also under one key."""

import pytest

from gputrain.errors import JobLostError, RequestError
from gputrain.lifecycle import State
from gputrain.trainer import Trainer, attach

ALICES, BOBS = "gs://my-bucket/alice", "gs://my-bucket/bob"


@pytest.fixture
def trainer(make):
    """Makes somebody's trainer."""
    return lambda bucket: Trainer(make(bucket=bucket))


@pytest.fixture
def submit(trainer, code):
    """Submits to somebody's bucket under the one key."""

    def build(bucket):
        return trainer(bucket).submit("train.py", source_dir=code, gpu="L4:2", idempotency_key="k")

    return build


@pytest.fixture
def both(submit):
    """The jobs of the two."""
    return submit(ALICES), submit(BOBS)


def living(vertex):
    return [job.life.ended is None for job in sorted(vertex.jobs.values(), key=lambda job: job.serial)]


def test_each_has_a_job_of_their_own(both, vertex):
    assert len(vertex.jobs) == 2
    assert both[0].refresh().ask != both[1].refresh().ask


def test_a_cancel_ends_no_job_of_others(both, cloud, vertex):
    both[1].cancel()
    cloud.clock.advance(60)
    assert living(vertex) == [True, False]
    assert not both[0].refresh().state.is_terminal


def test_a_cancel_in_a_new_process_ends_no_job_of_others(both, cloud, vertex, trainer):
    trainer(ALICES).attach(both[0].uri).cancel()
    cloud.clock.advance(60)
    assert living(vertex) == [False, True]


def test_whoever_waits_for_a_job_ends_none_of_others(both, cloud, vertex, trainer):
    cloud.clock.advance(60)
    for bucket, job in zip((ALICES, BOBS), both):
        there = trainer(bucket).attach(job.uri)
        for _ in range(3):
            there.refresh()
            there.supervise()
            cloud.clock.advance(10)
    assert living(vertex) == [True, True]


def test_a_list_shows_no_job_of_others(submit, trainer):
    alices = submit(ALICES)
    assert [job.uri for job in trainer(ALICES).jobs()] == [alices.uri]
    assert list(trainer(BOBS).jobs()) == []


def test_the_name_of_anothers_job_is_the_name_of_none(submit, trainer):
    with pytest.raises(JobLostError):
        trainer(BOBS).attach(submit(ALICES).uri)


def test_who_names_no_bucket_takes_up_a_job_that_is_alone(submit, make):
    assert attach(submit(ALICES).uri, backend=make(bucket=None)).state is State.PROVISIONING


def test_who_names_no_bucket_is_told_that_the_name_is_of_two(both, make, cloud, vertex):
    with pytest.raises(RequestError, match="2 buckets") as caught:
        attach(both[0].uri, backend=make(bucket=None))
    assert "bucket=" in caught.value.fix
    cloud.clock.advance(60)
    assert living(vertex) == [True, True]


def test_a_job_of_before_the_label_is_everybodys(both, cloud, vertex, trainer):
    for job in vertex.jobs.values():
        del job.document["labels"]["gputrain-home"]
    trainer(BOBS).attach(both[1].uri).cancel()
    cloud.clock.advance(60)
    assert living(vertex) == [False, False]
