"""Documents in a bucket and in a folder: of two that read the same version, one writes."""

import stat

import pytest

from gputrain.errors import PermissionDeniedError, RequestError
from gputrain.google.storage import BucketPrefix
from gputrain.jobstore import (
    BucketStore,
    Conflict,
    FolderStore,
    RecordError,
)  # fmt: skip
from tests.each import each
from tests.support.clouds import client

NAME = "records/bert.json"


def bucket_store(cloud, bucket="gs://my-bucket/team", project="my-project"):
    access = client(cloud, project=project, now=cloud.clock.now, sleep=cloud.clock.advance)
    return BucketStore(access, BucketPrefix.parse(bucket))


@pytest.fixture(params=["folder", "bucket"])
def store(request, tmp_path):
    if request.param == "folder":
        return FolderStore(tmp_path / "jobs")
    return bucket_store(request.getfixturevalue("cloud"))


def test_what_was_written_is_read(store):
    assert store.read(NAME) is None
    written = store.swap(NAME, b"one\ntwo", 0, {"attempt": "k3x9q2ab"})
    there = store.read(NAME)
    assert there is not None
    assert (there.content, there.version) == (b"one\ntwo", written.version)
    [listed] = store.list("records/be")
    assert (listed.name, listed.version, listed.metadata["attempt"]) == (NAME, written.version, "k3x9q2ab")
    assert store.list("records/c") == store.list("notes/") == ()


def test_of_two_that_read_the_same_version_one_writes(store):
    first = store.swap(NAME, b"first", 0)
    store.swap(NAME, b"second", first.version)
    for version in (first.version, 0):
        with pytest.raises(Conflict):
            store.swap(NAME, b"third", version)
    assert store.read(NAME).content == b"second"


def test_a_file_that_was_deleted_and_written_anew_is_another(tmp_path):
    store = FolderStore(tmp_path)
    first = store.swap(NAME, b"first", 0)
    (tmp_path / NAME).unlink()
    store.swap(NAME, b"anew", 0)
    with pytest.raises(Conflict):
        store.swap(NAME, b"late", first.version)


def test_a_bucket_of_another_project_is_not_read(cloud):
    cloud.add_project("their-project")
    cloud.add_bucket("theirs", location="us-central1", project="their-project")
    with pytest.raises(PermissionDeniedError, match="does not belong to project my-project"):
        bucket_store(cloud, "gs://theirs").read(NAME)
    with pytest.raises(RequestError, match="there is no bucket gs://nobody"):
        bucket_store(cloud, "gs://nobody").list("records/")


def test_a_swap_whose_response_was_lost_is_ours(cloud):
    store = bucket_store(cloud)
    first = store.swap(NAME, b"one", 0)
    cloud.fail("storage.objects.insert", "lost-after", times=1)
    second = store.swap(NAME, b"two", first.version)
    assert store.read(NAME).version == second.version


def test_a_folder_is_its_owner_s_alone(tmp_path):
    store = FolderStore(tmp_path / "jobs")
    store.swap(NAME, b"secret", 0)
    for path in (tmp_path / "jobs", tmp_path / "jobs" / "records", tmp_path / "jobs" / NAME):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@each("content", [b"", b"{}\n", b"[1]\n", b'{"version": 1}\nrest', b"\xff\n"])
def test_a_file_that_is_none_of_ours_is_named(content, tmp_path):
    path = tmp_path / NAME
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(RecordError, match="is not a document of gputrain"):
        FolderStore(tmp_path).read(NAME)
    (path.parent / "k3x9q2ab").mkdir()  # of a job whose id is "records"
    assert FolderStore(tmp_path).list("records/") == ()


@each("name", ["../records/a.json", "records/../../a", "/etc/passwd", "records/", "records/A b"])
def test_a_name_leads_nowhere_else(name, tmp_path):
    with pytest.raises(ValueError, match="is no name of a document"):
        FolderStore(tmp_path).read(name)
