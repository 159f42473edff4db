"""One bucket's objects, against the emulator's Cloud Storage: guarded reads, writes by generation, ages."""

import base64
import hashlib
import itertools
import json
from datetime import datetime, timedelta, timezone

import attrs
import pytest

import gputrain_emulator
from gputrain.errors import ProviderError, TransientError
from gputrain.gcp import Access, Endpoints, Objects, PreconditionError, UnclearError
from gputrain.gcp.objects import info_of
from gputrain.retry import ONCE
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.state import Storage
from tests.each import each
from tests.unit.gcp.answering import Token

DATED = {"Last-Modified": "Fri, 20 Nov 2026 12:00:00 GMT"}


@pytest.fixture
def cloud():
    with gputrain_emulator.start() as running:
        running.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        yield running


@pytest.fixture
def objects(cloud):
    access = Access(
        project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints, sleep=lambda _: None
    )
    return Objects(access, "my-bucket")


def test_what_is_written_is_read(objects):
    written = objects.write("a/b c", b"\x00one\r\n--", if_generation=0, metadata={"zone": "us-east1-b"})
    stored = objects.read("a/b c")
    assert (stored.content, stored.generation) == (b"\x00one\r\n--", written.generation)
    assert objects.stat("a/b c").metadata["zone"] == "us-east1-b"


TEXT = b"0123456789"


def test_a_part_is_so_many_bytes_from_there_on(objects):
    objects.write("a", TEXT, if_generation=0)
    parts = list(itertools.product([0, 1, 4, 9, 10, 50], [1, 2, 3, 100]))
    assert [(a, n) for a, n in parts if objects.part("a", a, n) != TEXT[a : a + n]] == []
    assert [(a, n) for a, n in parts if objects.part("b", a, n) != b""] == []


def test_an_object_and_its_age_are_one_call(cloud, objects):
    objects.write("a", b"1", if_generation=0)
    before = len(cloud.requests)
    assert objects.read("a").age_s == 0
    assert [one.verb for one in cloud.requests[before:]] == ["GET"]


def test_an_object_whose_date_must_be_asked_for_is_read_anew_where_it_changed_meanwhile(serve):
    """An answer with media may lack the date; the object may be another when it is asked for."""
    generations = iter(["1", "2"])

    def answer(request):
        if "alt=media" in request.path:
            number = next(generations)
            return 200, f"text {number}".encode(), {"x-goog-generation": number}
        about = {"name": "a", "generation": "2", "metageneration": "1", "size": "6", "crc32c": "AAAAAA=="}
        about |= dict.fromkeys(("updated", "timeCreated"), "2026-11-20T12:00:00Z")
        return 200, json.dumps(about).encode(), {}

    access = Access(project="p", credentials=Token(), endpoints=Endpoints(storage=serve(answer).url))
    stored = Objects(access, "my-bucket").read("a")
    assert (stored.content, stored.generation, stored.updated.day) == (b"text 2", 2, 20)


def test_what_is_not_there_is_none(objects):
    assert (objects.read("a"), objects.stat("a")) == (None, None)


def test_only_who_read_last_may_write(objects):
    first = objects.write("a", b"1", if_generation=0)
    objects.write("a", b"2", if_generation=first.generation)
    for stale in (0, first.generation):
        with pytest.raises(PreconditionError):
            objects.write("a", b"3", if_generation=stale)
    objects.write("a", b"4", if_generation=None)
    assert objects.read("a").content == b"4"


def test_the_same_content_of_somebody_else_is_not_ours(objects):
    objects.write("a", b"same", if_generation=0)
    with pytest.raises(PreconditionError):
        objects.write("a", b"same", if_generation=0)


def test_a_write_whose_answer_was_lost_is_settled_by_reading_back(cloud, objects):
    cloud.fail("storage.objects.insert", faults.DropAfterCommit())
    written = objects.write("a", b"1", if_generation=0)
    assert objects.read("a").generation == written.generation


def test_a_write_of_which_no_answer_ever_comes_is_settled_as_well(cloud, objects):
    cloud.fail("storage.objects.insert", faults.DropAfterCommit(), times=None)
    assert objects.write("a", b"1", if_generation=0).generation == objects.stat("a").generation


def test_a_write_whose_answer_was_lost_and_that_then_met_a_limit_is_settled_too(cloud, objects):
    def limited(seconds):
        cloud.clock.advance(seconds)
        cloud.fail("storage.objects.insert", faults.Refuse(error=ApiError(429, "slow down")), times=None)

    cloud.fail("storage.objects.insert", faults.DropAfterCommit())
    hasty = Objects(attrs.evolve(objects.access, sleep=limited), "my-bucket")
    assert hasty.write("a", b"1", if_generation=0).generation == objects.stat("a").generation


def test_a_removal_is_done_once_and_said_twice(objects):
    objects.write("a", b"1", if_generation=0)
    assert objects.remove("a")
    assert objects.remove("a")
    assert objects.read("a") is None


def test_what_somebody_has_written_since_is_not_removed(objects):
    first = objects.write("a", b"1", if_generation=0)
    objects.write("a", b"2", if_generation=first.generation)
    assert not objects.remove("a", if_generation=first.generation)
    assert objects.read("a").content == b"2"


def test_an_age_is_told_by_the_services_clock(cloud, objects):
    objects.write("a", b"1", if_generation=0)
    cloud.clock.advance(90)
    assert objects.read("a").age_s == pytest.approx(90, abs=2)  # headers tell whole seconds
    assert objects.stat("a").age_s == pytest.approx(90, abs=2)
    assert objects.list("a").seen[0].age_s == pytest.approx(90, abs=2)


def test_a_list_has_every_object_of_a_prefix(objects):
    for name in ("a/1", "a/2", "b/1"):
        objects.write(name, b"x", if_generation=0)
    assert [one.name for one in objects.list("a/").whole("list them")] == ["a/1", "a/2"]


def test_an_object_that_is_far_too_large_is_not_read(objects):
    objects.write("a", b" " * 1001, if_generation=0)
    with pytest.raises(ProviderError, match="more than"):
        objects.read("a", most_bytes=1000)


BAD = {
    "a web page": (200, b"<html>Sign in</html>", {}),
    "half of a document": (200, b'{"name": "a', {}),
    "a list": (200, b"[]", {}),
    "an object without fields": (200, b"{}", {}),
}


@each("answer", BAD.values())
@each(
    "call",
    [
        lambda objects: objects.read("a"),
        lambda objects: objects.part("a", 0, 9),
        lambda objects: objects.stat("a"),
        lambda objects: objects.write("a", b"1", if_generation=0),
    ],
)
def test_what_a_proxy_says_is_never_taken_for_an_object(serve, answer, call):
    server = serve(lambda _: answer)
    access = Access(
        project="p", credentials=Token(), endpoints=Endpoints(storage=server.url), sleep=lambda _: None
    )
    with pytest.raises(UnclearError):
        call(Objects(access, "my-bucket"))


def test_a_page_of_a_proxys_is_a_list_that_proves_nothing(serve):
    server = serve(lambda _: (200, b'{"items": [{"name": 3}]}', {}))
    access = Access(project="p", credentials=Token(), endpoints=Endpoints(storage=server.url))
    assert not Objects(access, "my-bucket").list("a").is_whole


@pytest.mark.parametrize(
    "bad", [faults.server_error(503), faults.bad_gateway(), faults.Truncate(), faults.DropBeforeCommit()]
)
def test_one_bad_answer_is_got_over(cloud, objects, bad):
    objects.write("a", b'{"x": 1}', if_generation=0)
    cloud.fail("storage.objects.get", bad)
    assert objects.read("a").content == b'{"x": 1}'


def test_a_service_that_stays_away_is_transient(cloud, objects):
    cloud.fail("storage.objects.get", faults.server_error(503), times=None)
    with pytest.raises(TransientError):
        objects.read("a")


@pytest.mark.parametrize("came", [b'{"phase": ', b'{"phase": "running"}' * 2, b"", b"{}"])
def test_what_was_changed_on_its_way_is_read_again(serve, came):
    stored = b'{"phase": "running"}'
    md5 = base64.b64encode(hashlib.md5(stored).digest()).decode()
    told = {"x-goog-generation": "1", "x-goog-hash": f"crc32c=AAAAAA==,md5={md5}", **DATED}
    answers = iter([came, stored])
    url = serve(lambda _: (200, next(answers), told)).url
    access = Access(project="p", credentials=Token(), endpoints=Endpoints(storage=url), sleep=lambda _: None)
    assert Objects(access, "my-bucket").read("a").content == stored


@pytest.mark.parametrize(
    ("hashes", "encoding"),
    [
        ("", "identity"),
        ("crc32c=AAAAAA==", "identity"),
        ("md5=AAAAAAAAAAAAAAAAAAAAAA==", "gzip"),
        ("md5=AAAAAAAAAAAAAAAAAAAAAA==", "zstd"),
    ],
)
def test_what_has_no_hash_of_its_own_is_read_as_it_came(serve, hashes, encoding):
    """Composed objects have none, and that of one that is stored compressed is of other bytes."""
    told = {"x-goog-generation": "1", "x-goog-hash": hashes, "x-goog-stored-content-encoding": encoding}
    url = serve(lambda _: (200, b"{}", {**told, **DATED})).url
    access = Access(project="p", credentials=Token(), endpoints=Endpoints(storage=url))
    assert Objects(access, "my-bucket").read("a").content == b"{}"


def test_whoever_is_asked_for_a_part_may_answer_with_the_whole(serve):
    asked = []

    def answer(request):
        asked.append(request.headers["Range"])
        return 200, b"0123456789", {"x-goog-generation": "1"}

    access = Access(project="p", credentials=Token(), endpoints=Endpoints(storage=serve(answer).url))
    assert Objects(access, "my-bucket").part("a", 3, 4) == b"3456"
    assert asked == ["bytes=3-6"]


TOLD = {
    "name": "a", "generation": "7", "size": "3", "md5Hash": "AAAA", "metadata": {"a": "1", "b": 2},
    "timeCreated": "2026-11-20T12:00:00Z", "updated": "2026-11-20T12:00:01Z",
}  # fmt: skip
SEEN = datetime(2026, 11, 20, 12, 1, 1, tzinfo=timezone.utc)


def test_what_is_said_of_an_object_is_read_and_its_age_is_never_below_0():
    found = info_of(TOLD, SEEN)
    assert (found.name, found.generation, found.size, found.md5) == ("a", 7, 3, "AAAA")
    assert (found.metadata, found.age_s) == ({"a": "1"}, 60.0)
    assert found.updated - found.created == timedelta(seconds=1)
    assert info_of(TOLD, SEEN - timedelta(seconds=90)).age_s == 0.0


@each("field", ["name", "generation", "size", "updated", "timeCreated"])
@each("value", [None, 1.5, []])
def test_an_object_of_which_something_cannot_be_read_is_none(field, value):
    assert info_of({**TOLD, field: value}, SEEN) is None


def test_what_came_in_place_of_an_object_is_quoted_by_its_beginning(serve):
    letters = "".join(chr(ord("a") + number % 26) for number in range(100))
    url = serve(lambda _: (200, letters.encode(), {})).url
    access = Access(project="p", credentials=Token(), endpoints=Endpoints(storage=url), sleep=lambda _: None)
    for call in (Objects(access, "my-bucket").read, Objects(access, "my-bucket").stat):
        with pytest.raises(UnclearError) as caught:
            call("a", policy=ONCE)
        assert repr(letters[:40]) in caught.value.why
    letters = "[" * 100_000
    with pytest.raises(UnclearError, match="description was due"):
        Objects(access, "my-bucket").stat("a", policy=ONCE)


@pytest.mark.parametrize("generation", ["", "x", "²"])
def test_only_cloud_storage_names_a_generation(serve, generation):
    told = {"x-goog-generation": generation, **DATED}
    url = serve(lambda _: (200, b"{}", told)).url
    access = Access(project="p", credentials=Token(), endpoints=Endpoints(storage=url))
    with pytest.raises(UnclearError, match="not Cloud Storage's"):
        Objects(access, "my-bucket").read("a", policy=ONCE)


def test_a_write_that_somebody_forestalled_is_not_taken_for_ours(objects):
    objects.write("a", b"theirs", if_generation=0, metadata={"zone": "us-east1-b"})
    with pytest.raises(PreconditionError):
        objects.write("a", b"ours", if_generation=0)
    with pytest.raises(PreconditionError):
        objects.write("b", b"ours", if_generation=7)
    assert objects.read("a").content == b"theirs"
