"""What VMs leave in the bucket goes with them, and nothing that others have written since."""

import json
from contextlib import nullcontext

import attrs
import pytest

from gputrain.backends.compute.names import VmNames
from gputrain.backends.compute.sends import Sends
from gputrain.backends.compute.traces import CANCELLED, NOBODYS
from gputrain.errors import PermissionDeniedError, TransientError
from gputrain.gcp import UndoneError
from gputrain.keeper.status import RESERVED
from gputrain.records import MADE
from gputrain.spec import TrainingSpec
from tests.unit.records.values import ASK, WAY, record

LOCK, STATUS = (f"jobs/bert-1/attempt-0/{name}" for name in ("lock", "status-0.json"))


@pytest.fixture
def recorder(backend):
    return backend.recorder()


@pytest.fixture
def traces(recorder):
    """A gang has begun, and written how far it is."""
    found = recorder.gangs.traces
    found.stored.write(LOCK, json.dumps({"nonce": ASK.nonce, "token": "0a"}).encode(), if_generation=0)
    found.stored.write(STATUS, b"{}", if_generation=0)
    return found


def take(traces, ask):
    """As the first VM of an ask does."""
    traces.stored.write(LOCK, json.dumps({"nonce": ask.nonce, "token": "0a"}).encode(), if_generation=None)


def written(recorder, *asks):
    board = recorder.board
    return board.write(record(home=board.name, asks=asks))


def names(one):
    return VmNames.of(record(asks=(one,)))


LATER = attrs.evolve(ASK, nonce="00000000beef")


@pytest.mark.parametrize("gang", [ASK, LATER])
def test_what_another_gang_wrote_is_not_removed(recorder, traces, gang):
    written(recorder, ASK, LATER)
    traces.remove(names(gang))
    assert (traces.stored.stat(STATUS) is None) is (gang is ASK)
    assert traces.has_begun(names(ASK)) is (gang is LATER)


@pytest.mark.parametrize(
    ("asks", "is_removed"),
    [
        ((ASK,), True),
        ((ASK, LATER), False),
        ((ASK, attrs.evolve(LATER, way=attrs.evolve(WAY, backend="vertex"))), True),
    ],
)
@pytest.mark.parametrize("lock", [None, NOBODYS, b"", b"[]", b'{"zone": "us-central1-a"}'])
def test_without_a_lock_that_tells_the_record_does(recorder, traces, asks, is_removed, lock):
    traces.stored.remove(LOCK)
    if lock is not None:
        traces.stored.write(LOCK, lock, if_generation=0)
    written(recorder, *asks)
    traces.remove(names(ASK))
    assert (traces.stored.stat(STATUS) is None) is is_removed
    if lock == NOBODYS:
        assert traces.stored.read(LOCK).content == NOBODYS


def test_one_answer_that_there_is_no_record_removes_nothing_of_another_gang(recorder, traces, monkeypatch):
    traces.stored.remove(LOCK)
    written(recorder, ASK, LATER)
    told = iter([None, recorder.board.read("bert-1")])
    monkeypatch.setattr(recorder.board, "read", lambda _: next(told))
    traces.remove(names(ASK))
    assert traces.stored.stat(STATUS) is not None


def test_a_record_that_nobody_can_read_says_nothing_so_nothing_goes(recorder, traces):
    traces.stored.remove(LOCK)
    traces.stored.write("records/bert-1.json", b"no record", if_generation=0)
    traces.remove(names(ASK))
    assert traces.stored.stat(STATUS) is not None


def test_a_barred_attempt_begins_with_what_is_asked_for_next_and_nothing_else(recorder):
    traces, late = recorder.gangs.traces, attrs.evolve(ASK, may_come=True)
    assert recorder.bar(record(asks=(late,))) is None
    assert traces.stored.read(LOCK).content == NOBODYS
    assert not traces.has_begun(names(ASK))
    recorder.let_in(record(asks=(late, LATER)))
    lock = json.loads(traces.stored.read(LOCK).content)
    assert lock == {"nonce": LATER.nonce, "token": "", RESERVED: True}
    assert not traces.has_begun(names(LATER))
    take(traces, LATER)
    assert traces.has_begun(names(LATER))
    assert not traces.has_begun(names(ASK))


def test_what_is_reserved_is_barred_unless_its_vms_have_begun(recorder):
    traces, late = recorder.gangs.traces, attrs.evolve(ASK, may_come=True)
    taken = attrs.evolve(LATER, may_come=True)
    recorder.let_in(record(asks=(late, taken)))
    assert recorder.bar(record(asks=(late, taken))) is None
    assert traces.stored.read(LOCK).content == NOBODYS
    recorder.let_in(record(asks=(late, taken)))
    take(traces, LATER)
    assert recorder.bar(record(asks=(late, taken))) == taken
    assert traces.has_begun(names(LATER))


@pytest.mark.parametrize("before", [False, True])
def test_what_a_cancel_has_barred_is_let_in_no_more(recorder, before):
    late = attrs.evolve(ASK, may_come=True)
    written(recorder, late, LATER)
    if before:
        recorder.bar(record(asks=(late,)))
    recorder.end("bert-1")
    recorder.let_in(record(asks=(late, LATER)))
    assert recorder.bar(record(asks=(late, LATER))) is None
    assert recorder.gangs.traces.stored.read(LOCK).content == CANCELLED


def test_an_attempt_of_one_ask_needs_no_lock_before_its_vms(recorder):
    recorder.let_in(record(asks=(attrs.evolve(ASK, may_come=True), attrs.evolve(LATER, attempt=1))))
    assert recorder.gangs.traces.stored.list("jobs/").seen == ()


def test_vms_that_have_begun_are_the_job_and_stay_so(recorder, traces):
    late = attrs.evolve(ASK, may_come=True)
    assert recorder.bar(record(asks=(attrs.evolve(late, nonce="00000000abcd"), late))) == late
    recorder.let_in(record(asks=(late, LATER)))
    assert traces.has_begun(names(ASK))


def test_what_has_run_and_starts_again_is_not_taken_for_what_may_come(recorder, traces):
    late, made = attrs.evolve(LATER, may_come=True), attrs.evolve(ASK, answer=MADE)
    assert recorder.bar(record(asks=(late, made))) is None
    assert traces.has_begun(names(ASK))


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b"{}", b"\xff", b"[" * 9999, b'{"nonce": [], "reserved": true}']
)
def test_a_lock_that_tells_of_no_ask_is_that_of_the_latest(recorder, content):
    recorder.gangs.traces.stored.write(LOCK, content, if_generation=0)
    assert recorder.bar(record(asks=(attrs.evolve(ASK, may_come=True),))) is None
    assert recorder.gangs.traces.has_begun(names(ASK))


LOST = TransientError("no answer")
FULL = TransientError("wait", refills_in_s=20.0)
REFUSED = PermissionDeniedError("no")
UNDONE = UndoneError("it was not done")


@pytest.mark.parametrize(
    ("calls", "answered", "several"),
    [
        ([], True, False),
        ([(1, None)], True, False),
        ([(1, REFUSED)], True, False),
        ([(1, UNDONE)], True, False),
        ([(1, FULL), (1, REFUSED)], True, True),
        ([(1, LOST)], False, False),
        ([(1, KeyboardInterrupt())], False, False),
        ([(2, REFUSED)], False, True),
        ([(1, LOST), (1, REFUSED)], False, True),
        ([(1, LOST), (1, None)], True, True),
        ([(0, KeyboardInterrupt())], True, False),
    ],
)
def test_what_was_sent_and_not_answered_may_be_done_late(calls, answered, several):
    sends = Sends()
    sends.begin("cafe")
    for times, error in calls:
        with pytest.raises(type(error)) if error else nullcontext(), sends.of("cafe") as note:
            for _ in range(times):
                note()
            if error:
                raise error
    assert (sends.are_answered("cafe"), sends.are_several("cafe")) == (answered, several)


def test_what_others_have_sent_is_not_known_to_be_answered():
    sends = Sends()
    assert not sends.are_answered("cafe")
    sends.note("cafe")
    sends.begin("cafe")
    assert not sends.are_answered("cafe")


def test_vms_are_gone_for_certain_once_they_were_seen_or_their_call_was_answered(road, recorder, code, cloud):
    spec = TrainingSpec(script=code, gpu="L4:1", max_run_duration="1h")
    road.submit(spec, job_id="bert-1")
    there = recorder.board.read("bert-1")
    assert recorder.clear(there)
    assert recorder.clear(there)
    road.backend.recorder().gangs.sends.note(there.latest.nonce)
    assert not recorder.clear(there)
    assert not cloud.compute.vms
