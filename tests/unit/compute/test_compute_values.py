"""VMs by their names, guests by their words, moments, waits, networks: what is told of each by itself."""

import hashlib
import itertools
from datetime import datetime, timezone
from types import SimpleNamespace

import attrs
import pytest

from gputrain import causes
from gputrain.backends.compute import ComputeEngine
from gputrain.backends.compute.causes import VmReport, is_half, of_ask, seconds_of
from gputrain.backends.compute.cleanup import Remains
from gputrain.backends.compute.fabric_checks import _lets_in as lets_in_of
from gputrain.backends.compute.left_behind import LeftBehindError, left_behind, looking
from gputrain.backends.compute.moments import moments, ran
from gputrain.backends.compute.names import (
    JobPlace,
    VmNames,
    note_of,
    queue_name,
    read_note,
    vm_names,
)
from gputrain.backends.compute.networks import NoWayOutError, needs_internet as needed, ways_out
from gputrain.backends.compute.operations import errors_of, gravest_of
from gputrain.backends.compute.queued import queued
from gputrain.errors import (
    AccessError,
    CapacityError,
    ProviderError,
    QuotaExceededError,
    RequestError,
    SpecError,
    TransientError,
)
from gputrain.gcp.buckets import BucketPrefix, home_of
from gputrain.keeper.status import SCHEMA
from gputrain.lifecycle import Observation, State
from gputrain.records import CANCELLED, MADE, WITHDRAWN
from tests.unit.records.values import ASK, WAY, record

NAMES = ("bert-1-0-0", "bert-1-0-1")
FLEX = attrs.evolve(WAY, model="flex-start")


def at(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def word(phase, **more):
    return {"schema": SCHEMA, "phase": phase, **more}


def gang_of(*names, way=WAY, **fields):
    return record(asks=(attrs.evolve(ASK, names=names or NAMES, way=way),), **fields)


# names


@pytest.mark.parametrize("count", [10, 11, 100, 101])
def test_a_vms_name_is_the_jobs_up_to_the_63_letters_that_it_may_have(count):
    ending = f"-3-{count - 1}"
    most = 63 - len(ending)
    assert vm_names("x" * most, 3, count)[-1] == "x" * most + ending
    digest = hashlib.sha256(b"x" * (most + 1)).hexdigest()[:8]
    assert vm_names("x" * (most + 1), 3, count)[-1] == f"{'x' * (most - 9)}-{digest}{ending}"
    dashed = "x" * 40 + "-" * 30
    assert (
        vm_names(dashed, 3, count)[0] == f"{'x' * 40}-{hashlib.sha256(dashed.encode()).hexdigest()[:8]}-3-0"
    )


def test_what_a_gang_bears_in_the_queue_is_of_58_letters_at_most():
    nonce = "0" * 12
    assert queue_name("x" * 60, nonce) == f"{'x' * 45}-{nonce}"
    assert queue_name("x" * 45, nonce) == f"{'x' * 45}-{nonce}"
    assert queue_name("x" * 43 + "---y", nonce) == f"{'x' * 43}-{nonce}"


def test_a_note_is_read_back_and_no_other_text_is_one():
    told = {"job": "bert", "home": "0a1b", "zone": "us-central1-a"}
    assert read_note(note_of(**told)) == told
    assert read_note("gputrain job= bare x=y=z") == {"x": "y=z"}
    for text in ("other job=bert", "a job=bert", "job=bert", "", None, 7):
        assert read_note(text) == {}


def test_a_home_keeps_its_label_or_its_vms_are_nobodys():
    bucket = BucketPrefix(name="b", prefix="team/")
    assert home_of("p", bucket) == hashlib.sha256(b"p/b/team/").hexdigest()[:12]


@pytest.mark.parametrize("text", ["", "us-central1-a", "~b-1", "us-central1-a~"])
def test_a_place_is_a_zone_and_a_bucket(text):
    with pytest.raises(SpecError, match="zone~bucket"):
        JobPlace.parse(text)


GANG = VmNames(job_id="bert-1", attempt=0, zone="z", names=NAMES, nonce="cafe", most=2)
DELETE = f"gcloud compute instances delete {NAMES[0]} {NAMES[1]} --zone z"
OURS = {"gputrain-gang": "cafe", "gputrain-job": "bert-1"}


@pytest.mark.parametrize(
    ("name", "labels", "owns", "is_of_its_job"),
    [
        (NAMES[0], OURS, True, True),
        ("bert-1-1-0", OURS, False, True),
        (NAMES[0], {**OURS, "gputrain-gang": "babe"}, False, True),
        (NAMES[0], {**OURS, "gputrain-gang": "face"}, False, True),
        (NAMES[0], {**OURS, "gputrain-job": "gpt-1"}, False, False),
        (NAMES[0], {**OURS, "gputrain-job": "bert"}, False, False),
        (NAMES[0], {}, False, False),
        (NAMES[0], None, False, False),
    ],
)
def test_a_vm_is_a_gangs_by_its_name_its_job_and_the_nonce_all_three(name, labels, owns, is_of_its_job):
    vm = {"name": name, "labels": labels}
    assert (GANG.owns(vm), GANG.is_of_its_job(vm)) == (owns, is_of_its_job)


@pytest.mark.parametrize(
    ("labels", "is_anothers"),
    [(OURS, False), (None, False), ({"gputrain-gang": "babe"}, True), ({"gputrain-gang": "face"}, True)],
)
def test_a_vm_of_the_name_alone_is_anothers_and_lost_labels_say_nothing(labels, is_anothers):
    assert GANG.is_anothers({"id": 7, "labels": labels}) is is_anothers


def test_a_gang_is_of_the_latest_ask_of_its_backend_and_queues_where_several_may():
    other = attrs.evolve(ASK, way=attrs.evolve(WAY, backend="vertex"), names=("one",), attempt=3)
    larger = attrs.evolve(ASK, names=("a", "b", "c"))
    gang = VmNames.of(record(asks=(larger, attrs.evolve(ASK, attempt=2, names=NAMES), other)))
    assert (gang.attempt, gang.names, gang.most, gang.queue) == (2, NAMES, 3, "")
    for way, names, waits in (
        (FLEX, NAMES, True), (FLEX, NAMES[:1], False), (WAY, NAMES, False), (FLEX, ("a", "b", "c"), True),
    ):  # fmt: skip
        found = VmNames.of(gang_of(*names, way=way))
        assert found.queue == (f"bert-1-{ASK.nonce}" if waits else "")


# operations


@pytest.mark.parametrize(
    ("operation", "errors"),
    [
        ({}, ()),
        ({"error": {"errors": [{"code": "A"}, 7]}}, ({"code": "A"},)),
        ({"error": {"errors": [{"code": "A"}]}, "httpErrorStatusCode": 503}, ({"code": "A"},)),
        ({"error": {"errors": []}, "httpErrorMessage": "NO"}, ({"message": "NO"},)),
        ({"error": 7}, ({"message": None},)),
        ({"httpErrorStatusCode": 503, "httpErrorMessage": "NO"}, ({"message": "NO"},)),
        ({"httpErrorStatusCode": 0, "httpErrorMessage": "NO"}, ()),
    ],
)
def test_an_operation_tells_what_went_wrong_by_its_errors_or_else_by_its_status(operation, errors):
    assert errors_of(operation) == errors


def test_that_a_minimum_was_not_reached_counts_where_nothing_else_is_told():
    short, full = {"code": "VM_MIN_COUNT_NOT_REACHED"}, {"code": "QUOTA_EXCEEDED", "message": "x"}
    assert gravest_of((short,), {}, "x").kind == "gang_incomplete"
    for errors in ((short, full), (full, short)):
        assert isinstance(gravest_of(errors, {}, "x"), QuotaExceededError)
    zone = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED"}
    assert gravest_of((short, zone), {}, "x", zone="us-east4-b").place == "us-east4-b"
    assert gravest_of((), {}, "x") is None
    failed = {"httpErrorStatusCode": 503, "httpErrorMessage": "SERVICE UNAVAILABLE"}
    assert isinstance(gravest_of(errors_of(failed), failed, "x"), CapacityError)


def made(number, user="me", at_s=10, kind="insert"):
    return {"operationType": kind, "targetId": number, "user": user, "insertTime": at(at_s)}


@pytest.mark.parametrize(
    ("number", "is_queued", "operations", "kept"),
    [
        ("", False, [made(1), made(2, at_s=20)], [1]),
        ("", False, [made(2, at_s=20), made(1)], [1]),
        ("2", False, [made(1), made(2, at_s=20)], [2]),
        ("", False, [], []),
        ("", False, [made(1, kind="delete"), made(2, kind="delete")], [1, 2]),
        ("", True, [made(1), made(1, kind="delete"), made(2, at_s=20)], [2]),
        ("1", True, [made(1), made(1, kind="delete"), made(2, at_s=20)], [2]),
        ("", True, [made(1), made(1, user="you", kind="delete"), made(2, at_s=20)], [1, 1]),
        ("", True, [made(1), made(1, kind="delete")], [1, 1]),
        ("", False, [made(1), made(1, kind="delete"), made(2, at_s=20)], [1, 1]),
        ("", False, [made(2, kind="bulkInsert"), made(1, at_s=20)], [2]),
    ],
)
def test_operations_on_another_vm_of_the_name_do_not_count(number, is_queued, operations, kept):
    node = VmReport(rank=0, document={"vm_id": number} if number else None)
    assert [one["targetId"] for one in of_ask(node, operations, is_queued=is_queued)] == kept


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(at(10), 10.0), ("1970-01-01T01:00:10+01:00", 10.0), (None, 0.0), ("", 0.0), ("soon", 0.0), (10, 0.0)],
)
def test_what_tells_no_time_was_before_all_that_does(text, seconds):
    assert seconds_of(text) == seconds


# what may be left behind


@pytest.mark.parametrize(
    ("queue", "refused", "why", "fix"),
    [
        ("", None, "they are on their way out and do not go", f"{DELETE}; or trainer.clean_up()"),
        ("", RequestError("no", fix="ask"), "no", f"ask; then {DELETE}; or trainer.clean_up()"),
        ("", RequestError("no"), "no", f"{DELETE}; or trainer.clean_up()"),
        (
            "bert-q",
            None,
            "they are on their way out",
            "gcloud compute instance-groups managed delete bert-q --zone z;",
        ),
    ],
)
def test_who_leaves_vms_behind_says_which_why_and_how_they_go(queue, refused, why, fix):
    error = left_behind(attrs.evolve(GANG, queue=queue), {name: {} for name in NAMES[::-1]}, refused)
    assert isinstance(error, LeftBehindError)
    assert error.what == f"2 of 2 VMs of bert-1 in z could not be deleted: {NAMES[0]} {NAMES[1]}"
    assert error.why.startswith(why)
    assert error.fix.startswith(fix)


@pytest.mark.parametrize("kind", [AccessError, ProviderError, RequestError])
def test_who_cannot_look_knows_of_nothing_that_it_is_gone(kind):
    with (
        pytest.raises(LeftBehindError, match="nobody can tell whether VMs of bert-1 are in z") as caught,
        looking(GANG),
    ):
        raise kind("no", why="because", fix="ask")
    assert (caught.value.why, caught.value.fix) == ("no: because", "ask")
    with pytest.raises(CapacityError), looking(GANG):
        raise CapacityError("full")


# moments


@pytest.mark.parametrize(
    ("began", "told", "moment"),
    [
        (1010, 1100, 1100),
        (None, 1100, 1100),
        (940, 1100, 1100),  # a minute off, which a clock may be
        (939, 1100, 1161),
        (1560, 1560, 1501),
        (1561, 1600, 1039),
        (None, 5000, 1000),
        (None, 0, 1000),
        (950, 960, 1000),  # never before the ask
    ],
)
def test_a_guest_whose_clock_is_off_is_moved_to_begin_at_the_ask(began, told, moment):
    document = word("running", running_at=at(told), **({"waiting_at": at(began)} if began else {}))
    asked = record(written_at=1400.0, age_s=100.0)
    assert [one.timestamp() for one in moments(asked, (VmReport(rank=0, document=document),), "running")] == [
        moment
    ]
    assert moments(asked, (VmReport(rank=0, document=document),), "ended") == []


PREEMPTED = made(1, kind="compute.instances.preempted", at_s=1200)


@pytest.mark.parametrize(
    ("way", "status", "document", "operations", "seconds"),
    [
        (WAY, "RUNNING", None, (), 500),
        (WAY, "RUNNING", word("running", waiting_at=at(1100)), (), 400),
        (WAY, "", None, (), 500),
        (WAY, "", None, (PREEMPTED,), 350),
        (WAY, "RUNNING", None, (PREEMPTED,), 500),
        (WAY, "", word("ended", waiting_at=at(1100), ended_at=at(1300)), (), 200),
        (WAY, "", word("ended", waiting_at=at(1100), ended_at=at(1300)), (PREEMPTED,), 250),
        (FLEX, "", None, (PREEMPTED,), 0),
        (FLEX, "", word("running", waiting_at=at(1100)), (PREEMPTED,), 250),
    ],
)
def test_an_attempt_took_rather_too_many_seconds_than_too_few(way, status, document, operations, seconds):
    node = VmReport(rank=0, status=status, document=document, operations=operations)
    asked = gang_of("bert-1-0-0", way=way, written_at=1400.0, age_s=100.0)
    assert ran(asked, (node,)) == seconds
    late = attrs.evolve(asked, age_s=1e6)
    assert ran(late, (attrs.evolve(node, status="RUNNING", operations=()),)) <= late.left_s


# the queue


def in_queue(state, *, over="", waited_s=0.0, waiting_since=0.0, **status):
    asked = gang_of(way=FLEX, over=over, waiting_since=waiting_since, written_at=1000.0 + waited_s)
    asked = attrs.evolve(asked, spec={**asked.spec, "max_wait_duration": "2h"})
    return queued(asked, {"state": state, "status": status})


HOURS_S, GIVEN_UP, LACK = 7200.0, (State.FAILED,), "PERMISSIONS_ERROR"
LACKS = [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "no room"}, {"message": "and more"}]


@pytest.mark.parametrize(
    ("state", "more", "told"),
    [
        ("ACCEPTED", {}, (State.QUEUED, None, False)),
        ("CREATING", {"waited_s": HOURS_S}, (State.QUEUED, None, False)),
        ("ACCEPTED", {"waited_s": HOURS_S + 1}, (State.QUEUED, None, True)),
        ("ACCEPTED", {"waited_s": HOURS_S + 1, "waiting_since": 1002.0}, (State.QUEUED, None, False)),
        ("ACCEPTED", {"over": CANCELLED}, (State.STOPPING, None, False)),
        ("CANCELLED", {}, (State.CANCELLED, "stopped_by_person", False)),
        ("CANCELLED", {"over": CANCELLED}, (State.CANCELLED, "cancelled", False)),
        ("CANCELLED", {"over": CANCELLED, "waited_s": 9000.0}, (State.CANCELLED, "cancelled", True)),
        ("CANCELLED", {"waited_s": 9000.0}, (State.EXPIRED, "wait_limit", True)),
        ("FAILED", {}, (State.FAILED, "stockout_region", False)),
        ("FAILED", {"error": {"errors": LACKS}}, (State.FAILED, "stockout_region", False)),
        ("FAILED", {"error": {"errors": [{"code": "QUOTA_EXCEEDED"}]}}, (*GIVEN_UP, "quota_region", False)),
        ("FAILED", {"error": {"errors": [{"code": LACK}]}}, (*GIVEN_UP, "service_agent", False)),
    ],
)  # fmt: skip
def test_how_a_gang_stands_in_the_queue(state, more, told):
    found = in_queue(state, **more)
    assert (found.state, found.failure and found.failure.kind, found.is_late) == told


@pytest.mark.parametrize("state", ["SUCCEEDED", "", "NEW_WORD"])
def test_a_request_that_was_served_tells_nothing_beside_its_vms(state):
    assert in_queue(state) is None
    assert queued(gang_of(way=FLEX), None) is None


def test_who_waits_is_told_what_google_lacked_last_and_what_it_costs():
    told = in_queue("ACCEPTED", lastAttempt={"error": {"errors": LACKS}}).detail
    assert told == "2 g2-standard-4 wait in Google's queue, all or none, and cost nothing; no room"
    late = in_queue("ACCEPTED", waited_s=HOURS_S + 1).detail
    assert late.endswith("longer than max_wait_duration: whoever waits for the job ends that")


# networks


def settings(**more):
    backend = ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **more)
    return backend._settings


PLAIN, OWN = settings(), settings(image_family="my-project/mine")
OF_GOOGLE = "us-docker.pkg.dev/p/r/i:1"


@pytest.mark.parametrize(
    ("mine", "image", "requirements", "env", "plugin", "told"),
    [
        (PLAIN, None, (), {}, "", ""),
        (OWN, "ghcr.io/me/train:1", (), {}, "", "the image ghcr.io/me/train:1"),
        (OWN, "pytorch/gcr.io", (), {}, "", "the image pytorch/gcr.io"),
        (OWN, OF_GOOGLE, (), {}, "", ""),
        (PLAIN, OF_GOOGLE, (), {}, "", "docker, which the boot images that are known do not have"),
        (OWN, None, (), {}, "google-fast-socket", "the package google-fast-socket"),
        (OWN, None, (), {}, OF_GOOGLE, ""),
        (PLAIN, None, (), {}, OF_GOOGLE, "docker, which the boot images that are known do not have"),
        (PLAIN, None, ("a", "b==1"), {}, "", "requirements (a, b==1)"),
        (PLAIN, None, ("a",), {"PIP_INDEX_URL": "x"}, "", ""),
        (PLAIN, None, ("a",), {"OTHER": "x"}, "", "requirements (a)"),
        (OWN, OF_GOOGLE, ("a",), {}, "", "requirements (a)"),
    ],
)
def test_what_a_job_needs_from_beyond_google_is_named(mine, image, requirements, env, plugin, told):
    assert needed(mine, image, requirements, env, plugin) == told


def test_a_region_without_a_way_out_sends_a_job_to_the_next():
    assert NoWayOutError("x").try_elsewhere
    assert not ways_out({}, [{"nats": [{"sourceSubnetworkIpRangesToNat": "X"}]}]).to_internet
    assert ways_out(
        {}, [{"nats": [{"sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES"}]}]
    ).to_google


INSIDE = {
    "network": "https://www.googleapis.com/compute/v1/global/networks/n",
    "sourceRanges": ["10.0.0.0/8"],
}


def rule(*protocols, ports=None, **more):
    each = {} if ports is None else {"ports": ports}
    return {**INSIDE, "allowed": [{"IPProtocol": one, **each} for one in protocols], **more}


@pytest.mark.parametrize(
    ("rules", "ranges", "lets_in"),
    [
        ([rule("all")], "10.1.0.0/16", True),
        ([rule("all")], "10.0.0.0/8", True),
        ([rule("tcp", "udp")], "10.1.0.0/16", True),
        ([rule("tcp"), rule("udp", "icmp")], "10.1.0.0/16", True),
        ([rule("tcp", "udp", ports=["0-65535"])], "10.1.0.0/16", True),
        ([rule("tcp", "udp", ports=["22"])], "10.1.0.0/16", False),
        ([rule("tcp", "icmp")], "10.1.0.0/16", False),
        ([rule("udp")], "10.1.0.0/16", False),
        ([], "10.1.0.0/16", False),
        ([rule("all", network="https://www.googleapis.com/global/networks/o")], "10.1.0.0/16", False),
        ([rule("all", direction="INGRESS", disabled=False)], "10.1.0.0/16", True),
        ([rule("all", direction="EGRESS")], "10.1.0.0/16", False),
        ([rule("all", direction="OTHER")], "10.1.0.0/16", False),
        ([rule("all", disabled=True)], "10.1.0.0/16", False),
        ([rule("all", sourceRanges=["192.168.0.0/16", "10.1.0.0/16"])], "10.1.0.0/16", True),
        ([rule("all", sourceRanges=["10.1.0.0/24"])], "10.1.0.0/16", False),
        ([rule("all", sourceRanges=["::/0"])], "10.1.0.0/16", False),
        ([{**rule("all"), "sourceRanges": []}], "10.1.0.0/16", False),
        ([rule("all")], "", False),
    ],
)  # fmt: skip
def test_vms_reach_each_other_by_rules_for_every_port_of_tcp_and_udp_between_them(rules, ranges, lets_in):
    assert lets_in_of(rules, "global/networks/n", ranges) is lets_in


# what is left of a gang


def seen_of(state, *statuses, started=(), ask="cafe"):
    nodes = [
        {"status": status, "vm_id": "", "document": word("running" if rank in started else "starting")}
        for rank, status in enumerate(statuses)
    ]
    return Observation(state=state, ask=ask, raw={"nodes": nodes})


def left(seen, remains, asked=None):
    return [node.rank for node in remains.of("bert-1", seen, lambda: asked or record())]


def graceful(grace):
    """A record whose ranks have so many seconds to save."""
    asked = record()
    return attrs.evolve(asked, spec={**asked.spec, "env": {"GPUTRAIN_GRACE": grace} if grace else None})


@pytest.mark.parametrize(
    ("started", "grace", "patience_s"),
    [((), None, 40.0), ((0,), "600", 40.0), ((0, 1), None, 180.0), ((0, 1), "600", 755.0)],
)
def test_the_rest_of_a_half_gang_has_its_time_from_the_first_look_on(started, grace, patience_s):
    time_s, asked = [1000.0], graceful(grace)
    remains = Remains(None, lambda: time_s[0])
    half = seen_of(State.RUNNING, "RUNNING", "TERMINATED", started=started)
    for later_s, ranks in ((0.0, []), (patience_s - 0.5, []), (0.5, [0])):
        time_s[0] += later_s
        assert left(half, remains, asked) == ranks
    assert left(attrs.evolve(half, ask="babe"), remains) == []
    going = seen_of(State.RUNNING, "STOPPING", "", "RUNNING", "SUSPENDING")
    assert left(going, remains) == [2, 3]
    assert left(seen_of(State.RUNNING, "RUNNING", "RUNNING"), remains) == []
    assert left(half, remains, asked) == []  # it was whole meanwhile: its time begins anew


@pytest.mark.parametrize(
    ("state", "ranks"),
    [
        (State.FAILED, [0, 1, 2]),
        (State.SUCCEEDED, [0, 1, 2]),
        (State.STOPPING, [0, 1, 2, 3]),
        (State.QUEUED, []),
    ],
)
def test_what_is_halted_of_a_job_that_is_over_goes_and_all_that_is_there_of_one_that_stops(state, ranks):
    seen = seen_of(state, "TERMINATED", "STOPPED", "SUSPENDED", "RUNNING", "STOPPING", "")
    remains = Remains(None, itertools.count(1000.0).__next__)
    assert left(seen, remains) == ranks


@pytest.mark.parametrize(("grace", "most_s"), [(None, 65.0), ("100", 140.0), ("x", 65.0)])
def test_guests_of_a_cancelled_job_are_waited_for_as_long_as_they_may_take(grace, most_s):
    time_s, asked = [1000.0], graceful(grace)

    def sleep(seconds):
        assert seconds == 1.0
        time_s[0] += seconds

    def waited(look):
        time_s[0] = 1000.0
        Remains(None, lambda: time_s[0]).let_save(asked, look, sleep)
        return time_s[0] - 1000.0

    def fail(_):
        raise TransientError("no")

    assert waited(lambda _: seen_of(State.STOPPING, "RUNNING", "", started=(0,))) == most_s
    assert waited(fail) == most_s
    assert waited(lambda _: seen_of(State.STOPPING, "RUNNING", "RUNNING")) == 0.0
    assert waited(lambda _: seen_of(State.STOPPING, "", "", started=(0, 1))) == 0.0


@pytest.mark.parametrize(
    ("nodes", "half"),
    [
        ([("RUNNING", None), ("RUNNING", None)], False),
        ([("RUNNING", None), ("", None)], True),
        ([("RUNNING", None), ("SUSPENDED", None)], True),
        ([("", None), ("TERMINATED", None)], False),
        ([("RUNNING", None), ("", word("ended"))], False),
        ([("RUNNING", None), ("RUNNING", word("ended", why="boot"))], True),
        ([("RUNNING", None), ("STOPPING", None)], False),
    ],
)
def test_a_gang_is_half_where_one_is_gone_out_of_order_and_another_is_not(nodes, half):
    assert (
        is_half([VmReport(rank=rank, status=one, document=told) for rank, (one, told) in enumerate(nodes)])
        is half
    )


# a look that asks nobody


NOWHERE = SimpleNamespace(storage="")


@pytest.fixture
def looks():
    return ComputeEngine(
        "my-project", regions=["us-central1"], bucket="gs://my-bucket", endpoints=NOWHERE
    )._looks


ANSWERED = (attrs.evolve(ASK, answer="no-room"),)
RAN = (attrs.evolve(ASK, answer=MADE), *ANSWERED)


@pytest.mark.parametrize(
    ("fields", "state", "kind"),
    [
        ({"asks": ()}, State.QUEUED, None),
        ({"asks": (), "age_s": 900.0}, State.QUEUED, None),
        ({"asks": (), "age_s": 900.5}, causes.UNSTARTED.state, causes.UNSTARTED.kind),
        ({"asks": ANSWERED}, State.QUEUED, None),
        ({"asks": RAN, "age_s": 9e9}, State.INTERRUPTED, None),
        ({"asks": ANSWERED, "waiting_since": 1.0, "age_s": 9e9}, State.INTERRUPTED, None),
        ({"asks": (attrs.evolve(*ANSWERED, attempt=1),), "age_s": 9e9}, State.INTERRUPTED, None),
        ({"asks": RAN, "over": CANCELLED}, State.CANCELLED, None),
        ({"asks": RAN, "over": WITHDRAWN}, State.CANCELLED, None),
        ({"asks": RAN, "over": "wait_limit"}, State.EXPIRED, "wait_limit"),
    ],
)
def test_a_job_without_machines_is_told_by_its_record(looks, fields, state, kind):
    seen = looks.observe(record(**fields))
    assert (seen.state, seen.failure and seen.failure.kind) == (state, kind)
    assert looks.listed(record(**fields)) == ()
    asks = fields["asks"]
    assert (seen.place, seen.ask) == ((WAY.place, ASK.nonce) if asks else ("", ""))
    assert seen.price_usd_h == (2.0 if asks else None)


def listed_as(*statuses, number=7):
    return tuple(
        VmReport(rank=rank, status=status, vm_id=f"{number}{rank}") for rank, status in enumerate(statuses)
    )


@pytest.mark.parametrize(
    ("statuses", "phases", "over", "state"),
    [
        (("RUNNING", "RUNNING"), ("running", "running"), "", State.RUNNING),
        (("RUNNING", "RUNNING"), ("running", "starting"), "", State.PROVISIONING),
        (("RUNNING", "STAGING"), ("running", "running"), "", State.PROVISIONING),
        (("RUNNING", "REPAIRING"), ("running", "running"), "", State.PROVISIONING),
        (("PENDING", "RUNNING"), ("starting", "starting"), "", State.QUEUED),
        (("RUNNING", "STOPPING"), ("running", "stopping"), "", State.RUNNING),
        (("RUNNING", "PENDING"), ("running", "running"), CANCELLED, State.STOPPING),
        (("RUNNING", "RUNNING"), ("running", "running"), "preempted", State.RUNNING),
    ],
)
def test_a_living_gang_is_told_by_its_vms_and_their_guests(looks, statuses, phases, over, state):
    documents = [word(phase, running_at=at(1010)) for phase in phases]
    listed = listed_as(*statuses)
    before = [{"status": "", "vm_id": vm.vm_id, "document": one} for vm, one in zip(listed, documents)]
    seen = looks.changed(gang_of(over=over, written_at=1100.0), Observation(raw={"nodes": before}), listed)
    assert seen.state is state
    assert seen.detail == "VMs " + ", ".join(sorted({one.lower() for one in statuses}))
    assert seen.started_at.timestamp() == 1010
    assert [one["status"] for one in seen.raw["nodes"]] == list(statuses)


def test_who_is_gone_of_a_gang_is_named(looks):
    seen = looks.changed(gang_of(), Observation(), listed_as("RUNNING", ""))
    assert seen.detail == "bert-1-0-1 is gone; whoever waits for the job ends the rest"


def test_what_a_guest_said_is_not_said_by_the_next_vm_of_its_name(looks):
    told = [{"status": "RUNNING", "vm_id": vm.vm_id, "document": word("ended")} for vm in listed_as("", "")]
    seen = looks.changed(
        gang_of(), Observation(raw={"nodes": told}), listed_as("RUNNING", "RUNNING", number=8)
    )
    assert (seen.state, seen.detail) == (State.PROVISIONING, "VMs running")
