"""A machine reads its job's record at boot and while it runs: the guest's table of docs/design/record.md."""

import pytest

from gputrain.runtime.cloud import Bucket, CallFailed
from gputrain.runtime.fence import CANCELLED, MINE, SUPERSEDED, Fence
from gputrain_emulator.faults import DropBeforeCommit
from tests.each import each
from tests.support.records import BETWEEN, OTHER, OURS, Records

GET = "storage.objects.get"


class Guest:
    """A fence that waits by adding up, and the record as a client writes it."""

    def __init__(self, cloud):
        self.write = Records(cloud, "gs://my-bucket/team").write
        self.cloud, self.waited_s, self.then = cloud, 0.0, lambda _: None
        bucket = Bucket(cloud.endpoints.storage, "my-bucket")
        self.fence = Fence(bucket, "team/records/bert.json", "k3x9q2ab")

    def at_boot(self):
        return self.fence.at_boot(self.sleep, lambda: self.waited_s)

    def sleep(self, seconds):
        self.waited_s += seconds
        self.then(self.waited_s)


@pytest.fixture
def guest(cloud, at_once):
    return Guest(cloud)


@each(("record", "word"), [
    (OURS, MINE), (OURS.launched("x"), MINE), (OURS.cancel(), CANCELLED), (OTHER, SUPERSEDED),
    (BETWEEN, SUPERSEDED), (OURS.end("succeeded"), SUPERSEDED),
])  # fmt: skip
def test_the_metadata_says_whose_turn_it_is(record, word, guest):
    guest.write(record)
    assert guest.at_boot() == guest.fence.while_running() == word
    assert not guest.waited_s


def test_a_machine_whose_record_is_missing_does_not_begin_but_goes_on(guest):
    assert guest.fence.while_running() == MINE
    assert guest.at_boot() == SUPERSEDED
    assert guest.waited_s == 60


def test_a_machine_that_may_not_read_waits_for_its_role_and_then_says_so(guest):
    guest.write(OURS)
    guest.cloud.world.callers.by_email["vm@p"].permissions = frozenset()
    assert guest.fence.while_running() == MINE
    with pytest.raises(CallFailed) as failed:
        guest.at_boot()
    assert failed.value.code == 403
    assert guest.waited_s == 300


def test_a_machine_waits_for_a_bucket_that_does_not_answer(guest):
    guest.write(OURS)
    order = guest.cloud.fail(GET, DropBeforeCommit(), times=None)
    assert guest.fence.while_running() == MINE
    with pytest.raises(CallFailed):
        guest.at_boot()
    assert guest.waited_s == 600
    guest.waited_s = 0.0
    guest.then = lambda waited_s: waited_s > 300 and order.cancel()
    assert guest.at_boot() == MINE
