"""The bucket is checked, and the same code travels once: against the emulator's Cloud Storage."""

import pytest

import gputrain_emulator
from gputrain.errors import PermissionDeniedError, ProviderError, RequestError, SpecError, TransientError
from gputrain.gcp import Access, Endpoints, Objects
from gputrain.gcp.buckets import BucketPrefix, check_bucket
from gputrain.gcp.uploads import AT_ONCE_BYTES, upload
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.state import Storage
from tests.each import each
from tests.unit.gcp.answering import Server, Token

BUCKET = BucketPrefix(name="my-bucket")
NAME = "code/abc.tar.gz"


@pytest.fixture
def cloud():
    with gputrain_emulator.start() as running:
        running.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        yield running


@pytest.fixture
def access(cloud):
    return Access(
        project="my-project", credentials=cloud.credentials, endpoints=cloud.endpoints, sleep=lambda _: None
    )


def sent(cloud, start=0):
    return [one.method for one in cloud.requests[start:]]


@each("uri", ["my-bucket", "gs://", "gs://UPPER", "gs://b", "gs://ok-bucket/../x", "s3://bucket", 3])
def test_a_name_that_is_no_bucket_is_refused(uri):
    with pytest.raises(SpecError, match="gs://bucket"):
        BucketPrefix.parse(uri)


def test_a_bucket_of_ours_in_the_region_passes_with_one_read(cloud, access):
    check_bucket(access, BUCKET, "us-central1")
    assert len(cloud.requests) == 1


def test_a_bucket_is_not_taken_for_one_whose_name_begins_so(cloud, access):
    cloud.world.part(Storage).add_bucket("my-bucket-2", location="europe-west4")
    check_bucket(access, BucketPrefix(name="my-bucket-2"), "europe-west4")
    with pytest.raises(RequestError) as caught:
        check_bucket(access, BucketPrefix(name="my-buc"), "us-central1")
    assert caught.value.what == "there is no bucket gs://my-buc"


def test_a_bucket_in_another_region_is_refused_with_the_command_that_makes_one(access):
    with pytest.raises(RequestError, match="lies in us-central1") as caught:
        check_bucket(access, BUCKET, "europe-west4")
    assert "--location europe-west4" in caught.value.fix
    assert caught.value.fix.endswith("or put us-central1 first in regions")


def test_a_bucket_of_many_regions_is_refused_with_what_to_do(cloud, access):
    cloud.world.part(Storage).add_bucket("my-many", location="US")
    with pytest.raises(RequestError, match="lies in us;") as caught:
        check_bucket(access, BucketPrefix(name="my-many"), "us-central1")
    assert caught.value.fix.endswith("--location us-central1 --project my-project")


def test_a_bucket_of_somebody_else_is_refused_although_it_can_be_read(cloud, access):
    cloud.add_project("squatter")
    cloud.world.part(Storage).add_bucket("my-project-staging", project="squatter")
    with pytest.raises(PermissionDeniedError, match="does not belong to project my-project"):
        check_bucket(access, BucketPrefix(name="my-project-staging"), "us-central1")


def test_a_bucket_that_does_not_exist_is_not_made(cloud, access):
    with pytest.raises(RequestError, match="there is no bucket gs://not-there") as caught:
        check_bucket(access, BucketPrefix(name="not-there"), "us-central1")
    assert "gcloud storage buckets create gs://not-there" in caught.value.fix
    assert not cloud.world.part(Storage).location("not-there")


def test_a_caller_who_may_not_list_buckets_is_told_the_permission(cloud):
    poor = cloud.credentials_of(cloud.caller("poor@example.com", permissions=()))
    access = Access(project="my-project", credentials=poor, endpoints=cloud.endpoints)
    with pytest.raises(PermissionDeniedError) as caught:
        check_bucket(access, BUCKET, "us-central1")
    assert caught.value.permission == "storage.buckets.list"


def test_what_is_uploaded_is_there(access):
    generation = upload(access, BUCKET, NAME, b"code")
    assert Objects(access, BUCKET.name).read(NAME).content == b"code"
    assert Objects(access, BUCKET.name).stat(NAME).generation == generation


def test_unchanged_code_is_not_sent_again(cloud, access):
    first = upload(access, BUCKET, NAME, b"code")
    before = len(cloud.requests)
    assert upload(access, BUCKET, NAME, b"code") == first
    assert sent(cloud, before) == ["storage.objects.get"]


@pytest.mark.parametrize("other", [b"hostile", b"x", b"cod3", b"cod2"])
def test_something_else_under_the_codes_name_is_refused(access, other):
    upload(access, BUCKET, NAME, other)
    with pytest.raises(ProviderError, match="holds something else"):
        upload(access, BUCKET, NAME, b"code")


def test_a_lost_reply_does_not_upload_twice(cloud, access):
    cloud.fail("storage.objects.insert", faults.DropAfterCommit())
    generation = upload(access, BUCKET, NAME, b"code")
    assert Objects(access, BUCKET.name).stat(NAME).generation == generation


@pytest.mark.parametrize("fault", [faults.DropBeforeCommit(), faults.server_error(503), faults.bad_gateway()])
def test_a_passing_failure_is_tried_again(cloud, access, fault):
    cloud.fail("storage.objects.insert", fault, times=2)
    upload(access, BUCKET, NAME, b"code")
    assert Objects(access, BUCKET.name).read(NAME).content == b"code"


def test_a_failure_that_does_not_pass_comes_out(cloud, access):
    cloud.fail("storage.objects.insert", faults.server_error(503), times=None)
    with pytest.raises(TransientError):
        upload(access, BUCKET, NAME, b"code")


def test_a_large_archive_goes_in_chunks_and_shows_its_progress(access):
    data = bytes(range(256)) * (2 * AT_ONCE_BYTES // 256) + b"end"
    seen = []
    upload(access, BUCKET, NAME, data, progress=lambda done, total: seen.append((done, total)))
    assert Objects(access, BUCKET.name).read(NAME).content == data
    mib = 1024 * 1024
    assert seen == [(done, len(data)) for done in (0, 8 * mib, 16 * mib, len(data))]


def test_a_small_archive_goes_at_once_and_shows_its_progress(cloud, access):
    seen = []
    upload(access, BUCKET, NAME, b"code", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 4), (4, 4)]
    assert sent(cloud) == ["storage.objects.get", "storage.objects.insert"]


@pytest.mark.parametrize("size", [4, AT_ONCE_BYTES + 1])
def test_what_another_client_put_there_meanwhile_is_as_good_as_ours(cloud, access, size):
    theirs = upload(access, BUCKET, NAME, bytes(size))
    cloud.fail("storage.objects.get", faults.Refuse(error=ApiError(404, "not there yet")))
    assert upload(access, BUCKET, NAME, bytes(size)) == theirs


def test_a_broken_chunk_goes_on_where_the_server_stopped(cloud, access):
    data = bytes(range(256)) * (2 * AT_ONCE_BYTES // 256)
    cloud.world.part(Storage).break_next_chunk(300_000)
    seen = []
    upload(access, BUCKET, NAME, data, progress=lambda done, _: seen.append(done))
    assert Objects(access, BUCKET.name).read(NAME).content == data
    assert 262_144 in seen  # what was kept of the broken chunk: a whole multiple of 256 KiB


@pytest.mark.check
def test_an_upload_of_which_nothing_more_is_kept_ends(cloud, access):
    for _ in range(1000):  # small requests pass and large ones do not, as where full packets are lost
        cloud.world.part(Storage).break_next_chunk(0)
    tries = []

    def progress(*_):
        tries.append(1)
        assert len(tries) < 100

    with pytest.raises(TransientError):
        upload(access, BUCKET, NAME, bytes(AT_ONCE_BYTES + 1), progress=progress)


def test_a_lost_session_begins_anew(cloud, access):
    data = b"x" * (AT_ONCE_BYTES + 1)
    cloud.fail("storage.objects.insertChunk", faults.RawReply(status=410, body=b"{}"))
    upload(access, BUCKET, NAME, data)
    assert Objects(access, BUCKET.name).stat(NAME).size == len(data)


@pytest.mark.parametrize(
    "host", ["http://0.attacker.example", "https://zz.attacker.example:1", "/relative", "ftp://127.0.0.1:%s"]
)
def test_the_chunks_of_an_upload_go_to_nobody_but_cloud_storage(host):
    asked = []

    def answer(request):
        asked.append(request.command)
        if request.command == "GET":
            return 404, b"{}", {}
        where = host.replace("%s", server.url.rpartition(":")[2])
        return 200, b"{}", {"Location": f"{where}/upload?id={'1' * 100}"}

    server = Server(answer)
    try:
        access = Access(project="p", credentials=Token(), endpoints=Endpoints(storage=server.url))
        with pytest.raises(ProviderError, match="sent to another host") as caught:
            upload(access, BUCKET, NAME, bytes(AT_ONCE_BYTES + 1))
        assert len(caught.value.why) == len("Location: ") + 100
    finally:
        server.close()
    assert asked == ["GET", "POST"]
