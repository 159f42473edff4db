"""One bucket's objects, uploads and whose a bucket is, against the emulator's Cloud Storage."""

import math

import pytest

from gputrain.errors import PermissionDeniedError, ProviderError, RequestError, SpecError, TransientError
from gputrain.google import Endpoints, GoogleClient, Objects, UnclearError
from gputrain.google.storage import CHUNK_BYTES, BucketPrefix, check_bucket, upload
from gputrain.retry import ONCE
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage import Storage
from tests.each import each
from tests.support.clouds import client
from tests.unit.google.answering import Token

BUCKET = BucketPrefix(name="my-bucket")
NAME = "code/abc.tar.gz"


@pytest.fixture
def access(cloud):
    return client(cloud, sleep=lambda _: None)


@pytest.fixture
def objects(access):
    return Objects(access, "my-bucket")


@pytest.fixture
def answering(serve):
    """The objects of a bucket at a server that answers as a function does."""

    def start(answer):
        endpoints = Endpoints(storage=serve(answer).url)
        access = GoogleClient(project="p", credentials=Token(), endpoints=endpoints, sleep=lambda _: None)
        return Objects(access, "my-bucket")

    return start


def sent(cloud, start=0):
    return [one.method for one in cloud.requests[start:]]


def test_what_is_written_is_read_and_listed_with_its_generation_and_metadata(cloud, objects):
    written = objects.write("a/b c", b"\x00one\r\n--", if_generation=0, metadata={"zone": "us-east1-b"})
    stored = objects.read("a/b c")
    assert (stored.content, stored.generation) == (b"\x00one\r\n--", written.generation)
    assert sent(cloud) == ["storage.objects.insert", "storage.objects.get"]
    for info in (objects.stat("a/b c"), *objects.list("a/")):
        assert (info.name, info.size, info.generation) == ("a/b c", 8, written.generation)
        assert info.metadata["zone"] == "us-east1-b"


def test_an_age_is_told_by_the_services_clock(cloud, objects):
    objects.write("a", b"1", if_generation=0)
    cloud.clock.advance(90)
    for one in (objects.read("a"), objects.stat("a"), *objects.list("a")):
        assert one.age_s == pytest.approx(90, abs=2)  # headers tell whole seconds


def test_a_swap_that_comes_too_fast_is_tried_again(cloud, objects):
    first = objects.write("a", b"1", if_generation=0)
    cloud.fail("storage.objects.insert", faults.Refuse(error=ApiError(429, "slow down")), times=2)
    objects.write("a", b"2", if_generation=first.generation)
    assert objects.read("a").content == b"2"


def test_a_service_that_stays_away_is_transient(cloud, objects):
    cloud.fail("storage.objects.get", faults.server_error(503), times=None)
    with pytest.raises(TransientError):
        objects.read("a")


BAD = {
    "a web page": b"<html>Sign in</html>",
    "half of a document": b'{"name": "a',
    "a list": b"[]",
    "an object without fields": b"{}",
    "a page of what is no object": b'{"items": [{"name": 3}]}',
}


@each("answer", BAD.values())
@each(
    "call",
    [
        lambda objects: objects.read("a", policy=ONCE),
        lambda objects: objects.read_range("a", 0, 9, policy=ONCE),
        lambda objects: objects.stat("a", policy=ONCE),
        lambda objects: objects.write("a", b"1", if_generation=0),
    ],
)
def test_what_a_proxy_says_is_never_taken_for_an_object(answering, answer, call):
    with pytest.raises(UnclearError):
        call(answering(lambda _: (200, answer, {})))


def test_what_is_uploaded_is_there_and_is_not_sent_again(cloud, access, objects):
    seen = []
    first = upload(access, BUCKET, NAME, b"code", progress=lambda *counts: seen.append(counts))
    assert seen == [(0, 4), (4, 4)]
    assert sent(cloud) == ["storage.objects.get", "storage.objects.insert"]
    assert (objects.read(NAME).content, objects.stat(NAME).generation) == (b"code", first)
    before = len(cloud.requests)
    assert upload(access, BUCKET, NAME, b"code") == first
    assert sent(cloud, before) == ["storage.objects.get"]


@pytest.mark.parametrize("other", [b"hostile", b"x", b"cod3"])
def test_something_else_under_the_codes_name_is_refused(access, other):
    upload(access, BUCKET, NAME, other)
    with pytest.raises(ProviderError, match="holds something else"):
        upload(access, BUCKET, NAME, b"code")


@pytest.mark.parametrize("size", [4, CHUNK_BYTES + 1])
@pytest.mark.parametrize(
    "fault", [faults.DropBeforeCommit(), faults.server_error(503), faults.DropAfterCommit()]
)
def test_an_upload_gets_over_a_passing_failure(cloud, access, objects, size, fault):
    for method in ("storage.objects.insert", "storage.objects.insertChunk"):
        cloud.fail(method, fault, times=2)
    upload(access, BUCKET, NAME, bytes(size))
    assert objects.stat(NAME).size == size


@pytest.mark.parametrize("broken", [(), (0,), (300_000,), (CHUNK_BYTES,)])
def test_a_large_archive_goes_in_chunks_of_which_only_a_broken_one_is_sent_again(
    cloud, access, objects, broken
):
    data, seen = bytes(range(256)) * (2 * CHUNK_BYTES // 256) + b"end", []
    for kept_bytes in broken:
        cloud.world.part(Storage).break_next_chunk(kept_bytes)
    upload(access, BUCKET, NAME, data, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, len(data)) for done in (0, CHUNK_BYTES, 2 * CHUNK_BYTES, len(data))]
    assert sent(cloud).count("storage.objects.insertChunk") == math.ceil(len(data) / CHUNK_BYTES) + len(
        broken
    )
    assert objects.read(NAME).content == data


@each("host", ["http://0.attacker.example", "https://zz.attacker.example:1", "/relative", "ftp://127.0.0.1"])
def test_the_chunks_of_an_upload_go_to_nobody_but_cloud_storage(answering, host):
    asked = []

    def answer(request):
        asked.append(request.command)
        if request.command == "GET":
            return 404, b"{}", {}
        return 200, b"{}", {"Location": f"{host}/upload?id={'1' * 100}"}

    with pytest.raises(ProviderError, match="sent to another host"):
        upload(answering(answer).access, BUCKET, NAME, bytes(CHUNK_BYTES + 1))
    assert asked == ["GET", "POST"]


@each("uri", ["my-bucket", "gs://", "gs://UPPER", "gs://b", "gs://ok-bucket/../x", "s3://bucket", 3])
def test_a_name_that_is_no_bucket_is_refused(uri):
    with pytest.raises(SpecError, match="gs://bucket"):
        BucketPrefix.parse(uri)


def test_a_bucket_in_another_region_is_refused_with_what_to_do(cloud, access):
    with pytest.raises(RequestError, match="lies in us-central1") as caught:
        check_bucket(access, BUCKET, "europe-west4")
    assert "--location europe-west4" in caught.value.fix
    assert caught.value.fix.endswith("or put us-central1 first in regions")
    cloud.world.part(Storage).add_bucket("my-many", location="US")
    with pytest.raises(RequestError, match="lies in us;") as caught:
        check_bucket(access, BucketPrefix(name="my-many"), "us-central1")
    assert caught.value.fix.endswith("--project my-project --location us-central1")


def test_a_caller_who_may_not_list_buckets_is_told_the_permission(cloud):
    poor = cloud.credentials_of(cloud.caller("poor@example.com", permissions=()))
    access = client(cloud, credentials=poor)
    with pytest.raises(PermissionDeniedError) as caught:
        check_bucket(access, BUCKET, "us-central1")
    assert caught.value.permission == "storage.buckets.list"
