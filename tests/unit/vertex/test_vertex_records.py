"""What the record of a job decides of a look, a restart and a withdrawal: of both, put there by hand."""

import attrs
import pytest

from gputrain.errors import JobLostError, TransientError
from gputrain.gcp import Objects
from gputrain.lifecycle import State
from gputrain_emulator import faults
from gputrain_emulator.vertex.states import State as Theirs
from tests.unit.records.values import ASK, SPEC, WAY, record
from tests.unit.vertex.test_vertex_alone import ASKS, CREATE, FULL, LIST, REF, observed, refusal, request

HERE = ASKS[0].way
NEXT = attrs.evolve(HERE, place="europe-west4")
OTHER = "fedcba9876543210"
"""The nonce of a later ask."""


def ask(way=HERE, **more):
    return attrs.evolve(ASK, way=way, **more)


def on(backend):
    """A way of another backend, whose name sorts before or behind."""
    return attrs.evolve(WAY, backend=backend)


@pytest.fixture
def written(make):
    """Writes the record of the job."""

    def write(**fields):
        board = make().recorder().board
        return board.write(record(**{"home": board.name, "ways": (HERE,), "asks": ASKS, **fields}))

    return write


@pytest.mark.parametrize(
    ("fields", "age_s", "is_queued"),
    [
        ({}, 0, True),
        ({}, 180, True),
        ({}, 181, False),
        ({"over": "cancelled"}, 0, False),
        ({"asks": (ask(answer="no room"),)}, 0, False),
        ({"asks": (*ASKS, ask(on("compute")))}, 0, False),
        ({"asks": (*ASKS, ask(on("zeta")))}, 0, False),
    ],
)
def test_a_job_that_was_asked_for_is_queued_for_as_long_as_no_list_need_show_it(
    make, written, cloud, fields, age_s, is_queued
):
    written(**fields)
    cloud.clock.advance(age_s)
    if is_queued:
        told = make().observe(REF)
        assert (told.state, told.place, told.ask) == (State.QUEUED, "us-central1", ASK.nonce)
    else:
        with pytest.raises(JobLostError):
            make().observe(REF)


@pytest.mark.parametrize("status", [400, 403])
def test_who_cannot_read_what_was_asked_for_is_told_that_the_job_is_not_there(make, written, cloud, status):
    written()
    cloud.fail("storage.objects.get", refusal(status), times=None)
    with pytest.raises(JobLostError):
        make().observe(REF)


NO_ROOM = {"state": Theirs.FAILED, "error": FULL}
WITHDRAWN = {"state": Theirs.CANCELLED}
ENDED = {"state": Theirs.CANCELLED, "has_begun": True}
WAITS = SPEC.replace(provisioning_model="flex-start", max_wait_duration="5h").to_dict()


@pytest.mark.parametrize(
    ("job", "fields", "state"),
    [
        (NO_ROOM, None, State.FAILED),
        (NO_ROOM, {}, State.FAILED),
        (NO_ROOM, {"ways": (HERE, NEXT)}, State.INTERRUPTED),
        (NO_ROOM, {"ways": (HERE, NEXT), "over": "stockout_region"}, State.FAILED),
        (NO_ROOM, {"spec": WAITS}, State.INTERRUPTED),
        (NO_ROOM, {"asks": (ask(answer="no room"),)}, State.INTERRUPTED),
        (NO_ROOM, {"asks": (*ASKS, ask(NEXT, nonce=OTHER))}, State.INTERRUPTED),
        (NO_ROOM, {"asks": (*ASKS, ask(on("compute"), nonce=OTHER))}, None),
        (NO_ROOM, {"asks": (*ASKS, ask(on("zeta"), nonce=OTHER))}, None),
        (WITHDRAWN, {"ways": (HERE, NEXT)}, State.CANCELLED),
        (WITHDRAWN, {"asks": (ask(nonce=OTHER),)}, State.INTERRUPTED),
        (ENDED, {"asks": (ask(nonce=OTHER),)}, State.CANCELLED),
    ],
)
def test_a_process_without_a_bucket_is_told_by_the_record_whether_a_job_at_no_place_goes_on(
    make, there, written, job, fields, state
):
    there(**job)
    if fields is not None:
        written(**fields)
    if state is None:
        with pytest.raises(JobLostError, match="not on Vertex AI any more"):
            make(bucket=None).observe(REF)
    else:
        told = make(bucket=None).observe(REF)
        assert (told.state, told.failure is None) == (state, state is State.INTERRUPTED)


@pytest.mark.parametrize("hinders", ["permission", "garbage", "order"])
def test_where_the_record_cannot_be_read_the_job_has_ended_as_vertex_ai_says(
    make, there, written, cloud, hinders
):
    there(**NO_ROOM, order="{}" if hinders == "order" else None)
    written(ways=(HERE, NEXT))
    if hinders == "permission":
        cloud.fail("storage.objects.get", refusal(403), times=None)
    elif hinders == "garbage":
        Objects(make()._access, "my-bucket").write("records/bert-1.json", b"{", if_generation=None)
    assert make(bucket=None).observe(REF).state is State.FAILED


@pytest.mark.parametrize("order", ["", "[", "[]", "{}", '{"bucket": "my-bucket"}', "[" * 100_000])
def test_a_job_that_bears_no_order_of_ours_has_no_lock_that_speaks_against_its_end(make, there, order):
    there(Theirs.SUCCEEDED, has_begun=True, order=order)
    assert make(bucket=None).observe(REF).state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("asks", "place"),
    [
        ((ask(), ask(NEXT)), "europe-west4"),
        ((ask(), ask(on("compute")), ask(on("zeta"))), "us-central1"),
        ((ask(on("compute")),), "unknown"),
    ],
)
def test_a_job_is_named_by_the_region_that_was_asked_last(make, asks, place):
    assert make().recorder().name_of(record(asks=asks)) == attrs.evolve(REF, place=place)


@pytest.mark.parametrize(
    ("lock", "is_left"), [("{}", False), ("{} 2", False), ("1", True), ("9", True), ("cancelled", True)]
)
def test_the_lock_of_what_is_taken_back_goes_with_it_and_that_of_another_stays(
    make, there, write_lock, lock, is_left
):
    write_lock(lock.format(there(Theirs.CANCELLED).id))
    assert make().recorder().clear(record(asks=ASKS))
    assert (Objects(make()._access, "my-bucket").read("jobs/bert-1/lock") is not None) is is_left


@pytest.mark.parametrize(
    ("counted_s", "is_certain"), [(0, True), (59, True), (60, False), (179, False), (180, True)]
)
def test_all_twins_of_an_ask_are_taken_back_and_who_did_not_send_it_knows_when_there_may_be_more(
    make, there, write_lock, cloud, written, counted_s, is_certain
):
    one, other, recorder = there(), there(Theirs.PENDING), make().recorder()
    write_lock(one.id)
    written(asks=(ask(at=0.0),))
    cloud.clock.advance(counted_s)
    assert recorder.clear(recorder.board.read("bert-1")) is is_certain
    assert {job.life.state for job in (one, other)} == {Theirs.CANCELLED}
    assert Objects(make()._access, "my-bucket").read("jobs/bert-1/lock") is None


def test_the_lock_tells_of_the_twin_that_no_list_shows(make, there, write_lock, cloud):
    hidden = there()
    cloud.clock.advance(60)
    shown = there(Theirs.PENDING)
    write_lock(hidden.id)
    cloud.fail(LIST, faults.Reshape(change=lambda told: _without(told, hidden)), times=None)
    make().recorder().clear(record(asks=ASKS))
    assert {job.life.state for job in (hidden, shown)} == {Theirs.CANCELLED}


def _without(told, hidden):
    jobs = [one for one in told.get("customJobs", ()) if not one["name"].endswith(hidden.id)]
    return {**told, "customJobs": jobs}


@pytest.mark.parametrize("is_second_seen", [True, False])
def test_whoever_sent_two_creates_has_taken_back_all_once_two_jobs_were_seen(
    make, cloud, vertex, is_second_seen
):
    cloud.fail(CREATE, faults.DropAfterCommit() if is_second_seen else faults.DropBeforeCommit())
    lists = cloud.fail(LIST, faults.Reshape(change=lambda told: {**told, "customJobs": []}), times=None)
    backend = make()
    backend.create(request(backend))
    lists.cancel()
    assert len(vertex.jobs) == 1 + is_second_seen
    assert backend.recorder().clear(record(asks=ASKS)) is is_second_seen
    assert {job.life.state for job in vertex.jobs.values()} == {Theirs.CANCELLED}


DONE = {"state": Theirs.SUCCEEDED, "has_begun": True}
SINCE = (*ASKS, ask(on("compute"), nonce=OTHER))


@pytest.mark.parametrize(
    ("asks", "lock", "state"),
    [
        (SINCE, "", State.CANCELLED),
        ((*ASKS, ask(nonce=OTHER)), "", State.CANCELLED),
        (SINCE, "its own", State.SUCCEEDED),
        (SINCE, "cancelled", State.CANCELLED),
        (ASKS, "", State.SUCCEEDED),
        (ASKS, "idle", State.CANCELLED),
        (None, "", State.SUCCEEDED),
        (SINCE, "refused", State.SUCCEEDED),
    ],
)
def test_a_job_that_ended_well_without_the_lock_did_nothing_if_it_says_so_or_others_were_asked_for(
    make, there, written, write_lock, cloud, asks, lock, state
):
    job = there(**DONE)
    if asks is not None:
        written(asks=asks)
    if lock == "refused":
        cloud.fail("storage.objects.get", refusal(403), times=None)
    elif lock == "idle":
        Objects(make()._access, "my-bucket").write(f"jobs/bert-1/lock-idle-{job.id}", b"", if_generation=0)
    elif lock:
        write_lock(job.id if lock == "its own" else lock)
    told = make().observe(REF)
    assert (told.state, told.started_at is None) == (state, state is State.CANCELLED)
    assert told.ask == ASK.nonce  # by which a handle sees that it was asked for anew


def test_whoever_has_seen_one_that_did_nothing_sees_the_next_one_begin_and_end(
    make, there, written, write_lock, vertex, cloud
):
    there(**DONE)
    written(asks=(*ASKS, ask(nonce=OTHER)))
    backend = make()
    assert backend.observe(REF).state is State.CANCELLED
    following = there(Theirs.PENDING, nonce=OTHER)
    cloud.clock.advance(6)
    assert observed(backend) == observed(make()) == following.id
    write_lock(following.id)
    vertex.put(following, Theirs.SUCCEEDED)
    cloud.clock.advance(2)
    assert backend.observe(REF).state is make().observe(REF).state is State.SUCCEEDED


def test_without_a_bucket_one_that_did_nothing_is_told_by_the_record_too(make, there, written):
    there(**DONE)
    written(asks=(*ASKS, ask(nonce=OTHER)))
    assert make(bucket=None).observe(REF).state is State.INTERRUPTED


def test_a_cancel_that_sees_only_what_did_nothing_keeps_what_comes_from_training(make, there, written, cloud):
    there(**DONE)
    written(asks=(*ASKS, ask(nonce=OTHER)))
    make().cancel(REF)
    recorder = make().recorder()
    assert recorder.board.read("bert-1").over == "cancelled"
    assert Objects(make()._access, "my-bucket").read("jobs/bert-1/lock").content == b"cancelled"


@pytest.mark.parametrize("how", ["take", "bar"])
def test_a_lock_that_is_another_one_each_time_is_given_up(make, cloud, how):
    locks = make().recorder().locks
    cloud.fail("storage.objects.insert", refusal(412), times=None)
    with pytest.raises(TransientError, match="another one each time"):
        locks.take("bert-1") if how == "take" else locks.bar("bert-1", 7)


@pytest.mark.parametrize(
    ("there", "taken", "barred"),
    [
        ("cancelled", "cancelled", "cancelled"),
        ("9 2", "9 2", "9 2"),
        ("cancelled until it is asked for again 6", "cancelled", "cancelled until it is asked for again 7"),
        ("cancelled until it is asked for again 7", "cancelled", "cancelled until it is asked for again 7"),
        ("cancelled until it is asked for again 8", "cancelled", "cancelled until it is asked for again 8"),
    ],
)
def test_who_holds_a_lock_takes_the_place_of_earlier_turns_and_of_no_job(make, there, taken, barred):
    locks, objects = make().recorder().locks, Objects(make()._access, "my-bucket")
    for hold, then in ((lambda: locks.bar("bert-1", 7), barred), (lambda: locks.take("bert-1"), taken)):
        objects.write("jobs/bert-1/lock", there.encode(), if_generation=None)
        hold()
        assert objects.read("jobs/bert-1/lock").content.decode() == then
