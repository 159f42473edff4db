"""What is decided of Vertex AI's jobs by themselves: on a job service in memory, to the second."""

from datetime import datetime, timedelta, timezone

import attrs
import pytest

from gputrain.backends.base import JobRef
from gputrain.backends.vertex import VertexAI, identity
from gputrain.backends.vertex.identity import ENDS_S, LOOK_EVERY_S, SETTLE_S
from gputrain.backends.vertex.states import SeenJob, state_of
from gputrain.backends.vertex.watch import FORGET_S, RegionWatch
from gputrain.backends.vertex.whereabouts import Whereabouts
from gputrain.errors import AccessError, JobLostError, RequestError, TransientError
from gputrain.gcp import MissingError, UnclearError
from gputrain.gcp.listing import listing_of
from gputrain.lifecycle import State
from gputrain.records import MemoryBoard
from tests.unit.records.test_record import ASK, record

NOON = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
FULL = "Resources are insufficient in region: us-central1. Please try a different region."
REF = JobRef(backend="vertex", project="p", place="us-central1", name="bert-1")


class Service:
    """The job service so far as looks at it go, its own clock included; it counts its calls."""

    def __init__(self):
        self.access = self
        self.seconds = 1_000_000.0
        self.slept = []
        self.jobs = {}
        self.calls = []
        self.answers = []
        """Of the next creates: an error, or nothing."""
        self.refuses = None
        self.shows = True
        """Whether lists show what there is."""

    def now(self):
        return self.seconds

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.seconds += seconds

    def add(self, number, region="us-central1", **more):
        resource = f"projects/1/locations/{region}/customJobs/{number}"
        given = {"job_id": "bert-1", "state": "JOB_STATE_RUNNING", "nonce": "aa", **more}
        self.jobs[resource] = SeenJob(resource=resource, **given)
        return self.jobs[resource]

    def change(self, seen, **more):
        self.jobs[seen.resource] = attrs.evolve(self.jobs[seen.resource], **more)

    def get(self, resource):
        self.calls.append(resource.rpartition("/")[2])
        if resource not in self.jobs:
            raise MissingError(f"there is no {resource}")
        return self.jobs[resource]

    def list(self, region, wanted, fields="all"):
        self.calls.append("list" if fields == "all" else "changes")
        live = [one for one in self.jobs.values() if one.region == region and self.shows]
        live = [one for one in live if "=" not in wanted or "!=" in wanted or f'"{one.job_id}"' in wanted]
        return listing_of([one for one in live if "state!=" not in wanted or not one.has_ended])

    def create(self, region, body):
        self.calls.append("create")
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return self.add(body["number"], region)

    def cancel(self, _resource):
        self.calls.append("cancel")
        if self.refuses is not None:
            raise self.refuses


@pytest.fixture
def service():
    return Service()


def seen(number="1", state="JOB_STATE_RUNNING", minutes=0, **more):
    return SeenJob(
        resource=f"projects/1/locations/us-central1/customJobs/{number}", job_id="bert-1", state=state,
        created_at=NOON + timedelta(minutes=minutes), **more,
    )  # fmt: skip


FAILED, CANCELLED = "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"


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


@pytest.mark.parametrize(
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
    one = identity.effective(found, lambda seen: asked.append(seen) or holder)
    assert (one and one.number) == counts
    counting = [one for one in found if not identity.found_no_room(one)]
    assert len(asked) == (len(counting) > 1)  # a lock is read only where there is a question


def test_what_goes_on_beside_the_one_that_counts_is_ended_once_the_lock_says_which_it_is(service):
    kept, other, over = service.add("1"), service.add("2"), service.add("3", state=FAILED)
    everything = [kept, other, over]
    assert identity.extras(everything, kept) == (other,)
    for one, holder in ((None, "1"), (kept, ""), (kept, "2")):
        identity.cancel_extras(service, everything, one, lambda _, holder=holder: holder)
    identity.cancel_extras(service, [kept, over], kept, lambda _: "1")
    assert service.calls == []
    for service.refuses in (None, RequestError("it has ended"), TransientError("later")):
        identity.cancel_extras(service, everything, kept, lambda _: "1")
    assert service.calls == ["cancel"] * 3


@pytest.mark.parametrize(
    ("refuses", "state", "is_raised"),
    [
        (None, "JOB_STATE_RUNNING", False),
        (MissingError("gone"), "JOB_STATE_RUNNING", False),
        (RequestError("it ends"), CANCELLED, False),
        (RequestError("it ends"), "JOB_STATE_CANCELLING", False),
        (RequestError("it may not be"), "JOB_STATE_RUNNING", True),
    ],
)
def test_a_job_that_ends_already_needs_no_cancel(service, refuses, state, is_raised):
    one = service.add("1", state=state)
    service.refuses = refuses
    if is_raised:
        with pytest.raises(RequestError, match="it may not be"):
            identity.end(service, one)
    else:
        identity.end(service, one)


def test_the_end_of_what_was_asked_to_stop_is_waited_for_and_no_longer_than_it_may_take(service):
    one = service.add("1")
    with pytest.raises(UnclearError, match="goes on"):
        identity.await_end(service, one)
    assert service.slept == [LOOK_EVERY_S] * int(ENDS_S / LOOK_EVERY_S + 1)
    service.slept.clear()
    service.change(one, state=CANCELLED)
    identity.await_end(service, one)
    service.jobs.clear()
    identity.await_end(service, one)
    assert service.slept == []


LOST = UnclearError("the answer was lost")
LOOKS = int(SETTLE_S / LOOK_EVERY_S)


@pytest.mark.parametrize(
    ("lost", "calls", "is_made"),
    [
        (0, ["create"], True),
        (1, ["create", *["list"] * (LOOKS + 1), "create"], True),
        (2, ["create", *["list"] * (LOOKS + 1)] * 2 + ["create"], True),
        (3, ["create", *["list"] * (LOOKS + 1)] * 2 + ["create"], False),
    ],
)
def test_a_lost_answer_is_looked_for_as_long_as_lists_may_lag_and_asked_for_three_times(
    service, lost, calls, is_made
):
    service.answers, service.shows = [LOST] * lost, False
    create = lambda: identity.create_once(service, "us-central1", {"number": "7"}, "bert-1", "aa")  # noqa: E731
    if is_made:
        assert create().number == "7"
    else:
        with pytest.raises(UnclearError) as caught:
            create()
        assert "look for bert-1 in trainer.jobs()" in caught.value.fix
    assert service.calls == calls
    assert sum(service.slept) == SETTLE_S * calls.count("list") / (LOOKS + 1)


@pytest.mark.parametrize(("nonce", "number"), [("aa", "1"), ("bb", "7")])
def test_what_was_made_by_this_ask_is_taken_up_and_what_another_made_is_not(service, nonce, number):
    service.add("1", nonce=nonce)
    for service.answers, is_again in (([LOST], False), ([], True)):
        made = identity.create_once(
            service, "us-central1", {"number": "7"}, "bert-1", "aa", is_again=is_again
        )
        assert made.number == number


def test_a_look_after_a_lost_answer_that_is_refused_is_no_answer_to_what_was_asked(service):
    service.answers, service.list = [LOST], refusing(AccessError("you may not", fix="ask"))
    with pytest.raises(
        UnclearError, match="nobody can tell whether bert-1 was made in us-central1"
    ) as caught:
        identity.create_once(service, "us-central1", {"number": "7"}, "bert-1", "aa")
    assert caught.value.fix.startswith("ask; then submit again")
    service.answers, service.list = [LOST], refusing(TransientError("later"))
    with pytest.raises(TransientError, match="later"):
        identity.create_once(service, "us-central1", {"number": "7"}, "bert-1", "aa")
    assert service.slept == []


def refusing(error):
    def refuse(*_):
        raise error

    return refuse


def settings(bucket=None):
    return VertexAI("my-project", regions=["us-central1", "europe-west4"], bucket=bucket)._settings


@pytest.fixture
def whereabouts(service):
    return Whereabouts(service, settings(), lambda _: "")


def test_a_job_is_looked_for_once_and_then_known_until_it_is_forgotten(service, whereabouts):
    one = service.add("1")
    assert whereabouts.of(REF) == whereabouts.of(REF) == one.resource
    assert service.calls == ["list", "list"]  # one of each region
    whereabouts.forget("bert-1")
    whereabouts.of(REF)
    assert len(service.calls) == 4
    assert not whereabouts.is_doubled("bert-1")
    service.jobs.clear()
    whereabouts.forget("bert-1")
    with pytest.raises(JobLostError, match="bert-1 is not in us-central1"):
        whereabouts.of(REF)


def test_a_job_that_goes_on_beside_another_is_doubled_until_it_is_seen_that_it_is_not(service, whereabouts):
    kept, other = service.add("1", created_at=NOON), service.add("2", "europe-west4")
    service.change(other, created_at=NOON + timedelta(minutes=1))
    assert whereabouts.found_anew(REF).number == "1"
    assert whereabouts.is_doubled("bert-1")
    whereabouts.note("bert-1", kept.resource)
    assert whereabouts.is_doubled("bert-1")
    service.change(other, state=CANCELLED)
    whereabouts.found_anew(REF)
    assert not whereabouts.is_doubled("bert-1")


def test_where_no_job_counts_the_newest_tells(service, whereabouts):
    for number, minutes in (("1", 2), ("2", 1)):
        made = NOON + timedelta(minutes=minutes)
        service.add(number, state=FAILED, error=FULL, created_at=made)
    assert whereabouts.found_anew(REF).number == "1"


def test_jobs_are_looked_for_where_their_labels_say_and_where_they_were_noted(service, whereabouts):
    here = service.add("1", regions=("us-central1", "us-east4"))
    there = service.add("2", "us-east4")
    assert whereabouts.all(REF) == (here, there)
    assert service.calls == ["list"] * 3
    service.shows = False
    whereabouts.note("bert-1", there.resource)
    assert whereabouts.all(REF) == (there,)
    service.jobs.clear()
    assert whereabouts.all(REF) == ()


def test_who_ran_instead_is_followed_into_its_region_or_beside_unless_it_is_another_job(service, whereabouts):
    one = service.add("1")
    with pytest.raises(JobLostError):
        whereabouts.follow(REF, one, "2")
    service.add("2", job_id="gpt-1")
    whereabouts.follow(REF, one, "2")
    assert whereabouts.of(REF) == one.resource
    other = service.add("2", "europe-west4")
    whereabouts.follow(REF, one, "2")
    assert whereabouts.of(REF) == other.resource
    service.shows, beside = False, service.add("3")
    whereabouts.follow(REF, one, "3")
    assert whereabouts.of(REF) == beside.resource


def test_jobs_of_another_bucket_are_no_jobs_of_ours_and_are_told_apart_by_none(service):
    mine, theirs = settings("gs://mine"), settings("gs://theirs")
    one, older = service.add("1", home=mine.home_label), service.add("2")  # of a release that wrote no home
    service.add("3", home=theirs.home_label)
    assert Whereabouts(service, mine, lambda _: "").all(REF) == (one, older)
    assert [seen.number for seen in Whereabouts(service, mine, lambda _: "").find("bert")] == ["1", "2"]
    with pytest.raises(RequestError, match="of 2 buckets"):
        Whereabouts(service, settings(), lambda _: "").all(REF)
    service.change(service.jobs["projects/1/locations/us-central1/customJobs/3"], home=mine.home_label)
    assert len(Whereabouts(service, settings(), lambda _: "").all(REF)) == 3
    service.add("4", home=theirs.home_label)
    whereabouts = Whereabouts(service, mine, lambda _: "")
    whereabouts.note("bert-1", one.resource)
    whereabouts.follow(REF, one, "4")
    assert whereabouts.of(REF) == one.resource


def test_a_list_of_many_notes_those_that_are_the_only_one_of_their_id(service, whereabouts):
    service.add("1", created_at=NOON)
    service.add("2", job_id="bert-2", created_at=NOON + timedelta(minutes=1))
    service.add("3", "europe-west4", job_id="bert-2", created_at=NOON + timedelta(minutes=2))
    service.add("4", job_id="gpt-1", created_at=NOON)
    assert [one.number for one in whereabouts.find("bert")] == ["3", "2", "1"]
    service.calls.clear()
    whereabouts.of(REF)
    assert service.calls == []
    whereabouts.of(attrs.evolve(REF, name="bert-2"))
    assert service.calls != []


def test_a_job_that_was_asked_for_a_moment_ago_is_waited_for_and_no_other(service, whereabouts):
    board = MemoryBoard(service.now)
    for kept in (None, board):
        with pytest.raises(JobLostError):
            whereabouts.settled(REF, kept)
    board.write(record(home=board.name, asks=(attrs.evolve(ASK, at=0.0),)))
    assert whereabouts.settled(REF, board) == ()
    assert service.slept == [LOOK_EVERY_S] * (LOOKS + 1)
    service.slept.clear()
    assert whereabouts.settled(REF, board) == ()  # it is old by now
    assert service.slept == []
    one = service.add("1")
    assert whereabouts.settled(REF, board) == (one,)
    service.jobs.clear()
    board.write(board.read("bert-1").answered("no room"))
    with pytest.raises(JobLostError):
        whereabouts.settled(REF, board)
    board.read = refusing(MissingError("the bucket is gone"))
    with pytest.raises(JobLostError):
        whereabouts.settled(REF, board)


@pytest.fixture
def watch(service):
    return RegionWatch(service, "us-central1")


def many(service, count, **more):
    return [service.add(str(number), job_id=f"j-{number}", **more) for number in range(count)]


def test_two_jobs_are_looked_at_singly_and_three_share_a_list(service, watch):
    jobs = many(service, 3)
    for one in jobs[:2]:
        assert watch.look(one.resource) == one
    assert service.calls == ["0", "1"]
    service.seconds += 2
    service.calls.clear()
    for one in jobs:
        watch.look(one.resource)
    assert service.calls == ["0", "1", "list"]
    service.seconds += 2
    service.calls.clear()
    for one in jobs:
        service.change(one, state="JOB_STATE_PENDING", job_id="", error="said", error_code=9)
    told = [watch.look(one.resource) for one in jobs]
    assert service.calls == ["changes"]  # all are known by now, and the rest of them stays so
    assert {(one.state, one.error, one.error_code) for one in told} == {("JOB_STATE_PENDING", "said", 9)}
    assert [one.job_id for one in told] == ["j-0", "j-1", "j-2"]


@pytest.mark.parametrize(("count", "pause_s"), [(3, 1.1), (100, 1.1), (101, 2.2), (200, 2.2)])
def test_lists_are_as_far_apart_as_their_pages_cost(service, watch, count, pause_s):
    jobs = many(service, count)
    for one in jobs:
        watch.know(one)
        watch.look(one.resource)
    service.calls.clear()
    service.seconds += 10  # past what was looked at before it was known how many there are
    watch.look(jobs[0].resource)
    for passes_s, calls in ((pause_s - 0.05, 1), (0.1, 2)):
        service.seconds += passes_s
        watch.look(jobs[0].resource)
        assert service.calls == ["changes"] * calls


def test_what_a_list_lacks_is_looked_for_by_its_name(service, watch):
    jobs = many(service, 3)
    watch.know(seen("9"))  # and nobody looks at it
    for one in jobs:
        watch.look(one.resource)
    service.seconds += 2
    service.change(jobs[0], state="JOB_STATE_SUCCEEDED")
    service.jobs.pop(jobs[1].resource)
    service.calls.clear()
    assert watch.look(jobs[0].resource).has_ended
    with pytest.raises(MissingError):
        watch.look(jobs[1].resource)
    assert service.calls == ["changes", "0", "1"]
    service.calls.clear()
    service.seconds += 2
    assert watch.look(jobs[0].resource).has_ended
    assert service.calls == []  # nothing of it changes any more
    watch.look(jobs[2].resource)
    assert service.calls == ["2"]  # and it is the only one that lives


@pytest.mark.parametrize(
    ("more", "is_final"),
    [
        ({"state": "JOB_STATE_SUCCEEDED"}, True),
        ({"state": FAILED, "error": "said"}, True),
        ({"state": FAILED}, False),
        ({"error": "said"}, False),
    ],
)
def test_an_end_is_looked_at_again_until_its_reason_is_told(service, watch, more, is_final):
    one = service.add("1", **more)
    watch.look(one.resource)
    service.seconds += 60
    watch.look(one.resource)
    assert service.calls == ["1"] * (2 - is_final)


def test_a_job_that_nobody_looks_at_for_two_minutes_counts_no_more(service, watch):
    jobs = many(service, 3)
    for one in jobs:
        watch.look(one.resource)
    service.seconds += FORGET_S + 1
    service.calls.clear()
    watch.look(jobs[0].resource)
    assert service.calls == ["0"]


HOUR = {"timeout": timedelta(hours=1), "started_at": NOON, "ended_at": NOON + timedelta(hours=1)}


@pytest.mark.parametrize(
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
