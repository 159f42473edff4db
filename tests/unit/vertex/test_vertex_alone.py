"""What is decided of Vertex AI's jobs by themselves: of jobs put there by hand, to the second and call."""

import contextlib
import math
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import attrs
import pytest

from gputrain.backends.base import Bundle, JobRef, Start
from gputrain.backends.vertex import identity
from gputrain.backends.vertex.states import SeenJob, state_of
from gputrain.errors import AccessError, JobLostError, RequestError, TransientError
from gputrain.gcp import UnclearError
from gputrain.lifecycle import State
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from gputrain_emulator.vertex.states import State as Theirs
from tests.each import each
from tests.unit.records.values import ASK, WAY, record

NOON = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
FULL = "Resources are insufficient in region: us-central1. Please try a different region."
REF = JobRef(backend="vertex", project="my-project", place="us-central1", name="bert-1")
TWO = ["us-central1", "europe-west4"]
CREATE, GET, LIST, CANCEL = (f"aiplatform.customJobs.{verb}" for verb in ("create", "get", "list", "cancel"))
ASKS = (attrs.evolve(ASK, way=attrs.evolve(WAY, backend="vertex", place="us-central1")),)
LISTS = ["list"] * 13
"""A list each five seconds for the minute in which a list may lag."""


def refusal(status, message="it may not be"):
    return faults.Refuse(error=ApiError(status, message))


def observed(backend, ref=REF):
    """The number of the job that a look tells of."""
    return backend.observe(ref).raw["name"].rpartition("/")[2]


def seen(number="1", state="JOB_STATE_RUNNING", minutes=0, **more):
    return SeenJob(
        resource=f"projects/1/locations/us-central1/customJobs/{number}", job_id="bert-1", state=state,
        created_at=NOON + timedelta(minutes=minutes), **more,
    )  # fmt: skip


FAILED, CANCELLED, SUCCEEDED = "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_SUCCEEDED"


@pytest.mark.parametrize(
    ("more", "is_so"),
    [
        ({"state": FAILED, "error": FULL}, True),
        ({"state": FAILED, "error": FULL, "started_at": NOON}, False),
        ({"state": "JOB_STATE_PENDING", "error": FULL}, False),
        ({"state": FAILED, "error": "Internal error occurred"}, False),
        ({"state": FAILED}, False),
    ],
)
def test_only_a_job_that_ended_before_it_began_for_want_of_machines_found_no_room(more, is_so):
    assert identity.found_no_room(seen(**more)) is is_so


@each(
    ("found", "holder", "counts"),
    [
        ([], "", None),
        ([seen("1", FAILED, error=FULL)], "1", None),
        ([seen("1"), seen("2", minutes=1)], "", "1"),
        ([seen("1", minutes=1), seen("2")], "", "2"),
        ([seen("1"), seen("2", minutes=1)], "2", "2"),
        ([seen("1"), seen("2", minutes=1)], "9", "1"),
        ([seen("2"), seen("1")], "", "1"),  # made at one moment: by their numbers
        ([seen("1", CANCELLED), seen("2", minutes=1)], "", "2"),
        ([seen("1", CANCELLED), seen("2", minutes=1)], "1", "1"),
        ([seen("1", CANCELLED, 1), seen("2", CANCELLED, 2)], "", "1"),
        ([seen("1", FAILED, error=FULL), seen("2", minutes=1)], "1", "2"),
        ([seen("3", minutes=9), attrs.evolve(seen("4"), created_at=None)], "", "4"),
    ],
)
def test_of_jobs_of_one_id_the_holder_of_the_lock_counts_or_else_the_oldest_that_lives(found, holder, counts):
    asked = []
    one = identity.effective(found, lambda seen: asked.append(seen) or holder, lambda _seen: "")
    assert (one and one.number) == counts
    counting = [one for one in found if not identity.found_no_room(one)]
    assert len(asked) == (len(counting) > 1)  # a lock is read only where there is a question


@each(
    ("states", "holder", "latest", "counts"),
    [
        ((SUCCEEDED, "JOB_STATE_PENDING"), "", "later", "2"),
        ((SUCCEEDED, "JOB_STATE_PENDING"), "", "", "2"),
        ((SUCCEEDED, "JOB_STATE_PENDING"), "", "first", "1"),
        ((SUCCEEDED, "JOB_STATE_PENDING"), "1", "later", "1"),
        ((FAILED, CANCELLED), "", "later", "2"),
        (("JOB_STATE_PENDING", CANCELLED), "", "later", "1"),
        ((SUCCEEDED, SUCCEEDED), "", "", "1"),
        ((SUCCEEDED, FAILED), "", "elsewhere", "1"),
    ],
)
def test_where_none_has_the_lock_one_that_has_ended_counts_only_if_it_was_asked_for_last(
    states, holder, latest, counts
):
    first, later = states
    found = [seen("1", first, nonce="first"), seen("2", later, minutes=1, nonce="later")]
    assert identity.effective(found, lambda _seen: holder, lambda _seen: latest).number == counts


@pytest.mark.parametrize(("holder", "ends"), [(None, None), (9, None), (0, 1), (1, 0)])
@pytest.mark.parametrize("refuses", [None, 400, 503])
def test_what_goes_on_beside_the_one_that_counts_is_ended_once_the_lock_says_which_it_is(
    make, there, write_lock, cloud, asked, holder, ends, refuses
):
    jobs, backend = [there(), there(), there(Theirs.FAILED, has_begun=True)], make()
    if holder is not None:
        write_lock(jobs[holder].id if holder < 2 else "9")
    if refuses:
        cloud.fail(CANCEL, refusal(refuses), times=None)
    told = backend.observe(REF)
    asked()
    for _ in range(2):  # one that was refused is asked for again
        backend.tidy(REF, told)
        cancelled = [word for word in asked() if word.endswith(":cancel")]
        assert {*cancelled} == (set() if ends is None else {f"{jobs[ends].id}:cancel"})


def test_that_another_goes_on_is_believed_until_it_is_seen_that_none_does(
    make, there, write_lock, cloud, asked
):
    kept, other, backend = there(), there(region="europe-west4"), make(regions=TWO)
    write_lock(kept.id)
    assert observed(backend) == kept.id
    assert backend.recorder().there(record(asks=ASKS)) is not None  # it says where it is, and no more
    told = backend.observe(REF)
    backend.tidy(REF, told)
    assert other.life.state is Theirs.CANCELLING
    cloud.clock.advance(60)
    backend.tidy(REF, told)
    asked()
    backend.tidy(REF, told)
    assert asked() == []


@pytest.mark.parametrize(
    ("answer", "then", "is_refused"),
    [
        (None, None, False),
        (refusal(404), None, False),
        (refusal(400), faults.set_field("state", CANCELLED), False),
        (refusal(400), faults.set_field("state", "JOB_STATE_CANCELLING"), False),
        (refusal(400), refusal(404), False),
        (refusal(400), None, True),
    ],
)
def test_a_job_that_ends_already_needs_no_cancel(make, there, cloud, answer, then, is_refused):
    there()
    for method, fault in ((CANCEL, answer), (GET, then)):
        if fault is not None:
            cloud.fail(method, fault)
    with pytest.raises(RequestError, match="it may not be") if is_refused else contextlib.nullcontext():
        make().cancel(REF)


def test_the_end_of_what_was_asked_to_stop_is_waited_for_and_no_longer_than_it_may_take(
    make, there, cloud, vertex
):
    vertex.settings = replace(vertex.settings, cancel_s=math.inf)
    job, recorder, began = there(), make().recorder(), cloud.clock.now()
    with pytest.raises(UnclearError, match="goes on"):
        recorder.clear(record(asks=ASKS))
    assert cloud.clock.now() - began == 5 * 60 + 5  # its ranks save, and are looked at each five seconds
    vertex.put(job, Theirs.CANCELLED)
    began = cloud.clock.now()
    assert recorder.clear(record(asks=ASKS))
    assert cloud.clock.now() == began
    vertex.jobs.clear()
    assert not recorder.clear(record(asks=ASKS))
    there()
    deleted = make(sleep=lambda _seconds: vertex.jobs.clear()).recorder()
    assert deleted.clear(record(asks=ASKS))  # as only a job that has ended can be


def request(backend, nonce=ASK.nonce):
    """What is sent for one job."""
    spec = TrainingSpec(command=["true"], gpu="L4:1")
    one = candidates(spec, [backend.supply]).candidates[0]
    bundle = Bundle(location="gs://my-bucket/code/a.tar.gz", argv=("true",), sha256="a")
    return backend.render(Start(spec=spec, candidate=one, job_id="bert-1", bundle=bundle, nonce=nonce))


@pytest.mark.parametrize(
    ("lost", "calls", "is_made"),
    [
        (0, ["create"], True),
        (1, ["create", *LISTS, "create"], True),
        (2, ["create", *LISTS] * 2 + ["create"], True),
        (3, ["create", *LISTS] * 2 + ["create"], False),
    ],
)
def test_a_lost_answer_is_looked_for_as_long_as_lists_may_lag_and_asked_for_three_times(
    make, cloud, vertex, asked, lost, calls, is_made
):
    cloud.fail(CREATE, faults.DropBeforeCommit(), times=lost)
    backend, began = make(), cloud.clock.now()
    if is_made:
        assert backend.create(request(backend)) == REF
    else:
        with pytest.raises(UnclearError) as caught:
            backend.create(request(backend))
        assert "look for bert-1 in trainer.jobs()" in caught.value.fix
    assert asked() == calls
    assert cloud.clock.now() - began == 60 * (calls.count("list") / len(LISTS))
    assert len(vertex.jobs) == is_made


@pytest.mark.parametrize(("nonce", "is_taken"), [(ASK.nonce, True), ("another", False)])
@pytest.mark.parametrize("lost", [1, 3])
def test_what_was_made_by_this_ask_is_taken_up_and_what_another_made_is_not(
    make, there, cloud, vertex, asked, lost, nonce, is_taken
):
    backend = make()
    cloud.fail(CREATE, faults.DropBeforeCommit(), times=lost)
    with pytest.raises(UnclearError) if lost == 3 else contextlib.nullcontext():
        one = there(nonce=nonce) if lost == 1 else None
        backend.create(request(backend))
    if lost == 3:  # nobody knows of it until a later submit looks for it first
        one = there(nonce=nonce)
        asked()
        backend.create(request(backend))
        assert asked()[0] == "list"
    assert (observed(backend) == one.id) is is_taken
    assert len(vertex.jobs) == 2 - is_taken
    asked()
    backend.create(request(backend, "third"))
    assert asked() == ["create"]


@pytest.mark.parametrize(
    ("status", "told", "fix"),
    [
        (403, "nobody can tell whether bert-1 was made in us-central1", r"^ask for .*; then submit again"),
        (503, "list the jobs in us-central1", r"trainer\.jobs\(\)"),
    ],
)
def test_a_look_after_a_lost_answer_that_is_refused_is_no_answer_to_what_was_asked(
    make, cloud, status, told, fix
):
    cloud.fail(CREATE, faults.DropBeforeCommit())
    cloud.fail(LIST, refusal(status), times=None)
    backend = make()
    with pytest.raises(TransientError, match=told) as caught:
        backend.create(request(backend))
    assert re.search(fix, caught.value.fix)


def test_a_job_whose_look_after_a_lost_answer_failed_is_looked_for_before_it_is_asked_for_again(
    make, cloud, vertex
):
    cloud.fail(CREATE, faults.DropAfterCommit())
    away = cloud.fail(LIST, refusal(503), times=None)
    backend = make()
    with pytest.raises(TransientError):
        backend.create(request(backend))
    away.cancel()
    backend.create(request(backend))
    assert len(vertex.jobs) == 1


@pytest.mark.parametrize(
    ("answers", "may_come"),
    [
        ([], False),
        ([faults.DropBeforeCommit()], True),
        ([faults.DropBeforeCommit(), refusal(403)], True),
        ([refusal(403)], False),
    ],
)
def test_what_was_sent_and_not_answered_may_come_whatever_the_next_create_is_answered(
    make, cloud, answers, may_come
):
    for one in answers:
        cloud.fail(CREATE, one)
    backend = make()
    with contextlib.suppress(AccessError):
        backend.create(request(backend))
    assert backend.recorder().may_come(record(asks=ASKS)) is may_come
    assert not make().recorder().may_come(record(asks=ASKS))  # another process has sent nothing


def test_a_job_is_looked_for_once_and_then_known_until_it_is_gone(make, there, cloud, vertex, asked):
    job, backend = there(), make(regions=TWO)
    for words in (["list", "list", job.id], []):  # one list of each region, and a look is shared for a second
        assert observed(backend) == job.id
        assert asked() == words
    cloud.clock.advance(1)
    backend.observe(REF)
    vertex.jobs.clear()
    cloud.clock.advance(2)
    with pytest.raises(JobLostError, match="bert-1 is not in us-central1"):
        backend.observe(REF)
    assert asked() == [job.id, job.id]
    other = there(region="europe-west4")
    assert observed(backend) == other.id
    assert asked() == ["list", "list", other.id]


@pytest.mark.parametrize("places", [TWO, TWO[::-1]])
def test_where_no_job_counts_the_newest_tells(make, there, cloud, places):
    for region in places:
        newest = there(Theirs.FAILED, FULL, region=region)
        cloud.clock.advance(60)
    assert observed(make(regions=TWO)) == newest.id


def test_that_a_job_without_machines_was_made_nowhere_else_is_believed_for_five_seconds(
    make, there, cloud, asked
):
    there(Theirs.FAILED, FULL)
    backend = make()
    backend.observe(REF)
    asked()
    for passes_s, calls in ((4, []), (1, ["list"])):
        cloud.clock.advance(passes_s)
        backend.observe(REF)
        assert asked() == calls


def test_a_cancel_goes_to_where_labels_say_and_to_where_the_job_was_noted(make, there, cloud, vertex, asked):
    here, far = there(regions=("us-central1", "us-east4")), there(region="us-east4")
    backend = make(regions=TWO)
    backend.cancel(REF)
    assert asked() == ["list"] * 3 + [f"{job.id}:cancel" for job in (here, far)]
    cloud.clock.advance(60)
    noted = there(region="europe-west4")
    assert observed(backend) == noted.id
    cloud.fail(LIST, faults.Stale(seconds=3600), times=None)
    backend.cancel(REF)
    assert noted.life.state is Theirs.CANCELLING
    vertex.jobs.clear()
    with pytest.raises(JobLostError):
        backend.cancel(REF)


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize(
    ("ran", "follows"),
    [
        ({}, "always"),
        ({"region": "europe-west4"}, "listed"),
        ({"job_id": "gpt-1"}, "never"),
        ({"job_id": "a-1"}, "never"),
        ({"home": "another"}, "never"),
        (None, "lost"),
    ],
)
def test_who_ran_instead_is_followed_into_its_region_or_beside_unless_it_is_another_job(
    make, there, write_lock, cloud, vertex, ran, follows, is_listed
):
    idle, backend = there(has_begun=True), make(regions=TWO)
    assert observed(backend) == idle.id
    winner = None if ran is None else there(**ran)
    vertex.put(idle, Theirs.SUCCEEDED)  # it found the lock taken
    write_lock("9" if winner is None else winner.id)
    cloud.clock.advance(2)
    if not is_listed:
        cloud.fail(LIST, faults.Stale(seconds=3600), times=None)
    if follows == "lost" or (follows == "listed" and not is_listed):
        with pytest.raises(JobLostError):
            backend.observe(REF)
    else:
        assert observed(backend) == (idle.id if follows == "never" else winner.id)


def test_jobs_of_another_bucket_are_no_jobs_of_ours_and_are_told_apart_by_none(make, there):
    mine, theirs = make(bucket="gs://my-bucket/mine"), make(bucket="gs://my-bucket/theirs")
    older = there()  # of a release that wrote no home
    for backend in (mine, theirs):
        there(job_id="bert-2", home=backend._settings.home_label)
    one, other = there(home=mine._settings.home_label), there(home=theirs._settings.home_label)
    with pytest.raises(RequestError, match="of 2 buckets"):
        make(bucket=None).cancel(REF)
    other.document["labels"]["gputrain-home"] = mine._settings.home_label
    make(bucket=None).cancel(REF)
    assert {job.life.state for job in (older, one, other)} == {Theirs.CANCELLING}


def test_a_list_of_many_notes_those_that_are_the_only_one_of_their_id(make, there, cloud, asked):
    jobs = []
    for job_id, region in (("bert-1", TWO[0]), ("bert-2", TWO[0]), ("bert-2", TWO[1]), ("gpt-1", TWO[0])):
        jobs.append(there(job_id=job_id, region=region))
        cloud.clock.advance(60)
    backend = make(regions=TWO)
    assert [(ref.name, ref.place) for ref in backend.find(name="bert")] == [
        ("bert-2", "europe-west4"), ("bert-1", "us-central1"),
    ]  # fmt: skip
    asked()
    backend.observe(REF)
    assert asked() == [jobs[0].id]
    backend.observe(attrs.evolve(REF, name="bert-2"))
    assert asked() == ["list", "list", jobs[1].id]


@pytest.mark.parametrize(("age_s", "waited_s"), [(0, 65), (56, 5), (60, 5), (61, 0)])
def test_a_job_that_was_asked_for_a_moment_ago_is_waited_for_by_a_cancel(make, cloud, age_s, waited_s):
    board = make().recorder().board
    board.write(record(home=board.name, asks=ASKS))
    cloud.clock.advance(age_s)
    began = cloud.clock.now()
    make().cancel(REF)
    assert cloud.clock.now() - began == waited_s
    assert board.read("bert-1").over == "cancelled"


def test_a_job_that_was_asked_for_a_moment_ago_is_ended_once_a_list_shows_it(make, there, cloud):
    board, began = make().recorder().board, cloud.clock.now()
    board.write(record(home=board.name, asks=ASKS))
    job = there()
    cloud.fail(LIST, faults.Stale(seconds=20), times=None)
    make().cancel(REF)
    assert (job.life.state, cloud.clock.now() - began) == (Theirs.CANCELLING, 20)


@pytest.mark.parametrize("asks", [None, (attrs.evolve(ASKS[0], answer="no room"),), ASKS])
def test_a_job_that_nobody_asks_for_is_not_waited_for(make, cloud, asks):
    board, began = make().recorder().board, cloud.clock.now()
    if asks is not None:
        board.write(record(home=board.name, asks=asks))
    if asks is ASKS:
        cloud.storage.objects.delete("my-bucket", "records/bert-1.json")
        cloud.storage.buckets.drop("my-bucket")
    for backend in (make(), make(bucket=None)):
        with pytest.raises(JobLostError):
            backend.cancel(REF)
    assert cloud.clock.now() == began


def many(there, count):
    """So many jobs, and the names by which they are looked at."""
    jobs = [there(job_id=f"j-{number}") for number in range(count)]
    return jobs, [attrs.evolve(REF, name=f"j-{number}") for number in range(count)]


def known(make, asked, refs, **settings):
    """A backend that knows where these are, so that each look costs a look alone."""
    backend = make(**settings)
    assert len(backend.find()) == len(refs)
    asked()
    return backend


def test_two_jobs_are_looked_at_singly_and_three_share_a_list(make, there, cloud, vertex, asked):
    jobs, refs = many(there, 3)
    backend = known(make, asked, refs)
    for ref in refs[:2]:
        backend.observe(ref)
    assert asked() == [job.id for job in jobs[:2]]
    cloud.clock.advance(2)
    for ref in refs:
        backend.observe(ref)
    assert asked() == [jobs[0].id, jobs[1].id, "list"]
    cloud.clock.advance(2)
    for job in jobs:
        vertex.put(job, Theirs.PENDING)
    told = {"code": 9, "message": "said"}
    cloud.fail(LIST, faults.set_field("customJobs.0.error", told))  # of the newest
    assert [backend.observe(ref).state for ref in refs] == [State.PROVISIONING] * 3
    assert backend.observe(refs[2]).raw["error"] == told
    assert asked() == ["changes"]  # all are known by now, and the rest of them stays so
    assert {backend.observe(ref).ask for ref in refs} == {ASK.nonce}


@pytest.mark.parametrize(("count", "pause_s"), [(3, 1.1), (100, 1.1), (101, 2.2), (200, 2.2)])
def test_lists_are_as_far_apart_as_their_pages_cost(make, there, cloud, asked, count, pause_s):
    _, refs = many(there, count)
    backend, pages = known(make, asked, refs), (count + 99) // 100
    for _ in range(2):  # the second time all of them are known
        for ref in refs:
            backend.observe(ref)
        cloud.clock.advance(10)
    asked()
    backend.observe(refs[0])
    assert asked() == ["changes"] * pages
    for passes_s, calls in ((pause_s - 0.05, 0), (0.1, pages)):
        cloud.clock.advance(passes_s)
        backend.observe(refs[0])
        assert asked() == ["changes"] * calls


def test_what_a_list_lacks_is_looked_for_by_its_name(make, there, cloud, vertex, asked):
    jobs, refs = many(there, 3)
    backend = known(make, asked, refs)
    backend.create(request(backend))  # and nobody looks at it
    for ref in refs:
        backend.observe(ref)
    cloud.clock.advance(2)
    vertex.put(jobs[0], Theirs.SUCCEEDED)
    vertex.jobs.pop(jobs[1].id)
    asked()
    assert backend.observe(refs[0]).state is State.SUCCEEDED
    with pytest.raises(JobLostError):
        backend.observe(refs[1])
    assert asked() == ["changes", jobs[0].id, jobs[1].id]
    cloud.clock.advance(2)
    assert backend.observe(refs[0]).state is State.SUCCEEDED
    assert asked() == []  # nothing of it changes any more
    backend.observe(refs[2])
    assert asked() == [jobs[2].id]  # and it is the only one that lives


@pytest.mark.parametrize(
    ("state", "error", "is_final"),
    [
        (Theirs.SUCCEEDED, "", True),
        (Theirs.FAILED, "said", True),
        (Theirs.FAILED, "", False),
        (Theirs.RUNNING, "said", False),
    ],
)
def test_an_end_is_looked_at_again_until_its_reason_is_told(
    make, there, cloud, asked, state, error, is_final
):
    job, backend = there(state, has_begun=True), make()
    if error:
        cloud.fail(GET, faults.set_field("error", {"code": 9, "message": error}), times=None)
    for looks in (["list", job.id], [job.id] * (not is_final)):
        backend.observe(REF)
        assert asked() == looks
        cloud.clock.advance(60)


@pytest.mark.parametrize(("passes_s", "is_single"), [(120, False), (121, True)])
def test_a_job_that_nobody_looks_at_for_two_minutes_counts_no_more(
    make, there, cloud, asked, passes_s, is_single
):
    jobs, refs = many(there, 3)
    backend = known(make, asked, refs)
    for ref in refs:
        backend.observe(ref)
    cloud.clock.advance(passes_s)
    asked()
    backend.observe(refs[0])
    assert asked() == ([jobs[0].id] if is_single else ["changes"])


HOUR = {"timeout": timedelta(hours=1), "started_at": NOON, "ended_at": NOON + timedelta(hours=1)}


@each(
    ("state", "more", "ours"),
    [
        (FAILED, {}, State.EXPIRED),
        (CANCELLED, {}, State.EXPIRED),
        ("JOB_STATE_SUCCEEDED", {}, State.SUCCEEDED),
        (FAILED, {"ended_at": HOUR["ended_at"] - timedelta(seconds=1)}, State.FAILED),
        (FAILED, {"timeout": None}, State.FAILED),
        (FAILED, {"started_at": None}, State.FAILED),
        (FAILED, {"ended_at": None}, State.FAILED),
    ],
)
def test_a_job_that_ran_for_all_of_its_time_has_expired(state, more, ours):
    assert state_of(seen(state=state, **{**HOUR, **more})) is ours
