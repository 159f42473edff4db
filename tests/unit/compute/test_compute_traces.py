"""What VMs leave in the bucket goes with them, and nothing that others have written since."""

import json
from contextlib import nullcontext

import attrs
import pytest

from gputrain.backends.compute.names import VmNames
from gputrain.backends.compute.sends import Sends
from gputrain.backends.compute.traces import NOBODYS
from gputrain.errors import PermissionDeniedError, TransientError
from gputrain.gcp import UndoneError
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
    found.stored.write(LOCK, json.dumps({"zone": WAY.place, "token": "0a"}).encode(), if_generation=0)
    found.stored.write(STATUS, b"{}", if_generation=0)
    return found


def written(recorder, *asks):
    board = recorder.board
    return board.write(record(home=board.name, asks=asks))


def names(one):
    return VmNames.of(record(asks=(one,)))


@pytest.mark.parametrize("later", [False, True])
def test_what_a_later_gang_wrote_is_not_removed_with_an_earlier_one(recorder, traces, later):
    written(recorder, ASK, *((attrs.evolve(ASK, nonce="00000000beef"),) if later else ()))
    traces.remove(names(ASK))
    assert (traces.stored.stat(STATUS) is not None) is later
    assert traces.has_begun(names(ASK)) is later


def test_a_record_that_nobody_can_read_says_nothing_so_nothing_goes(recorder, traces):
    traces.stored.write("records/bert-1.json", b"no record", if_generation=0)
    traces.remove(names(ASK))
    assert traces.stored.stat(STATUS) is not None


def test_what_goes_on_elsewhere_leaves_nothing(recorder, traces):
    written(recorder, ASK, attrs.evolve(ASK, nonce="00000000beef", way=attrs.evolve(WAY, backend="vertex")))
    traces.remove(names(ASK))
    assert traces.stored.stat(STATUS) is None


def test_a_barred_attempt_has_not_begun_until_it_is_given_back(recorder):
    traces = recorder.gangs.traces
    late = attrs.evolve(ASK, may_come=True)
    barred = record(asks=(late,))
    assert recorder.bar(barred) is None
    assert traces.stored.read(LOCK).content == NOBODYS
    assert not traces.has_begun(names(ASK))
    recorder.unbar(barred)
    assert traces.stored.stat(LOCK) is None


def test_vms_that_have_begun_are_the_job_and_stay_so(recorder, traces):
    late = attrs.evolve(ASK, may_come=True)
    elsewhere = attrs.evolve(late, nonce="00000000beef", way=attrs.evolve(WAY, place="us-central1-z"))
    come = recorder.bar(record(asks=(late, elsewhere)))
    assert come == late
    recorder.unbar(record(asks=(late,)))
    assert traces.has_begun(names(ASK))


def test_what_has_run_and_starts_again_is_not_taken_for_what_may_come(recorder, traces):
    late, made = attrs.evolve(ASK, may_come=True), attrs.evolve(ASK, nonce="00000000beef", answer=MADE)
    assert recorder.bar(record(asks=(late, made))) is None
    assert traces.has_begun(names(ASK))


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"{}", b"\xff", b"[" * 9999])
def test_a_lock_that_is_none_says_of_no_zone_that_it_has_begun(recorder, content):
    recorder.gangs.traces.stored.write(LOCK, content, if_generation=0)
    assert recorder.bar(record(asks=(attrs.evolve(ASK, may_come=True),))) is None


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
