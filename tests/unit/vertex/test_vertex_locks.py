"""The lock of an id, taken for good by a cancel and until it is asked for again by whoever asks elsewhere."""

import pytest

from gputrain.backends.vertex import render
from gputrain.backends.vertex.locks import BARRED
from gputrain.gcp import Objects
from gputrain.gcp.buckets import BucketPrefix
from gputrain.records import CANCELLED

BUCKET = BucketPrefix(name="my-bucket")
NAME = render.lock_of(BUCKET, "bert-1")


@pytest.fixture
def locks(make):
    return make().recorder().locks


@pytest.fixture
def held(locks):
    """What the lock holds; None where there is none."""

    def read():
        found = Objects(locks._jobs.access, BUCKET.name).read(NAME)
        return found and found.content.decode()

    return read


def test_what_was_barred_is_given_back(locks, held):
    locks.bar("bert-1", 7)
    assert held() == f"{BARRED} 7"
    assert locks.of_id("bert-1").number == CANCELLED
    locks.give_back("bert-1", 8)
    assert held() is None


def test_who_is_slow_undoes_nothing_of_a_later_turn(locks, held):
    locks.bar("bert-1", 7)
    locks.bar("bert-1", 9)
    locks.bar("bert-1", 8)
    locks.give_back("bert-1", 8)
    assert held() == f"{BARRED} 9"


TURNS = {"bar": (7,), "give_back": (7,), "take": ()}


@pytest.mark.parametrize("before", [[], ["bar"], ["bar", "give_back"], ["take"]])
def test_what_was_cancelled_stays_so(locks, held, before):
    for call in (*before, "take", "bar", "give_back"):
        getattr(locks, call)("bert-1", *TURNS[call])
    assert held() == CANCELLED


@pytest.mark.parametrize("call", ["take", "bar", "give_back"])
def test_what_a_job_has_stays_with_it(locks, held, call):
    Objects(locks._jobs.access, BUCKET.name).write(NAME, b"4711 2", if_generation=0)
    getattr(locks, call)("bert-1", *TURNS[call])
    assert held() == "4711 2"
