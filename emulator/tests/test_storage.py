"""Cloud Storage through Google's own client, and over plain HTTP where the client is too polite."""

from __future__ import annotations

import gzip
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core.exceptions import Conflict, Forbidden, GoogleAPICallError, NotFound, PreconditionFailed

from emulator.tests.conftest import storage_client_of
from gputrain_emulator import Cloud
from gputrain_emulator.storage import Storage, too_fast
from tests.each import each

CHUNK = 256 * 1024


def url(cloud: Cloud, path: str) -> str:
    return cloud.endpoints.storage + path


@pytest.fixture
def client(storage_client: Any, bucket: Any) -> Any:
    return storage_client


def test_a_bucket_is_made_once_and_deleted_when_empty(client: Any) -> None:
    made = client.create_bucket("another-bucket", location="europe-west4")
    assert made.location == "EUROPE-WEST4"
    with pytest.raises(Conflict):
        client.create_bucket("another-bucket")
    assert [found.name for found in client.list_buckets()] == ["another-bucket", "bucket"]
    made.blob("a").upload_from_string("x")
    with pytest.raises(Conflict):
        made.delete()
    made.blob("a").delete()
    made.delete()
    with pytest.raises(NotFound):
        client.get_bucket("another-bucket")


@pytest.mark.parametrize("size", [0, 1, 100_000, 36 * CHUNK + 17])
def test_what_is_uploaded_comes_back_byte_for_byte(bucket: Any, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    blob = bucket.blob("dir/data.bin", chunk_size=8 * CHUNK)
    blob.upload_from_file(io.BytesIO(data[:size]), checksum="md5")
    fresh = bucket.get_blob("dir/data.bin")
    assert fresh.size == size
    assert fresh.download_as_bytes(checksum="crc32c") == data[:size]


@each("name", ["a b+c?d#e%2F&=.txt", "名前/ü", "../../up", "./x", "a//b", "trailing/", "%", "a:b"])
def test_any_name_makes_the_round_trip(bucket: Any, name: str) -> None:
    bucket.blob(name).upload_from_string(name.encode())
    assert bucket.blob(name).download_as_bytes() == name.encode()
    assert [blob.name for blob in bucket.list_blobs()] == [name]
    bucket.blob(name).delete()
    assert not bucket.blob(name).exists()


def test_nothing_is_written_outside_of_the_emulators_folder(
    cloud: Cloud, bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("../evil", "/etc/evil", str(tmp_path / "evil")):
        bucket.blob(name).upload_from_string("x" * 100_000)
    folder = cloud.world.part(Storage).objects.folder.path
    assert list(tmp_path.iterdir()) == []
    assert all(file.name.isdigit() for file in folder.iterdir())
    assert not (folder.parent / "evil").exists()


def test_one_of_sixteen_threads_takes_the_lock(cloud: Cloud, client: Any) -> None:
    def take(number: int) -> bool:
        lock = storage_client_of(cloud).bucket("bucket").blob("lock")
        try:
            lock.upload_from_string(str(number), if_generation_match=0)
        except PreconditionFailed:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(take, range(16))) == 1


def test_lists_have_folders_and_pages(client: Any, bucket: Any) -> None:
    for name in ("a/1", "a/2", "b", "c/d/e"):
        bucket.blob(name).upload_from_string("x")
    found = client.list_blobs("bucket", delimiter="/", page_size=1)
    assert [blob.name for blob in found] == ["b"]
    assert found.prefixes == {"a/", "c/"}
    found = client.list_blobs("bucket", prefix="a/", fields="items(name)")
    assert [blob.name for blob in found] == ["a/1", "a/2"]
    for size in (1, 2, 3):
        pages = [[blob.name for blob in page] for page in client.list_blobs("bucket", page_size=size).pages]
        assert [name for page in pages for name in page] == ["a/1", "a/2", "b", "c/d/e"]
        assert max(map(len, pages)) == size


def test_objects_are_composed_copied_and_renamed(bucket: Any) -> None:
    for name in "ab":
        bucket.blob(name).upload_from_string(name * 3)
    both = bucket.blob("ab")
    both.compose([bucket.blob("a"), bucket.blob("b")])
    both.reload()
    assert (both.download_as_bytes(), both.component_count, both.md5_hash) == (b"aaabbb", 2, None)
    bucket.copy_blob(both, bucket, "copy", if_generation_match=0)
    token, rewritten, total = bucket.blob("rewritten").rewrite(bucket.blob("copy"))
    assert (token, rewritten, total) == (None, 6, 6)
    bucket.rename_blob(bucket.blob("rewritten"), "moved")
    assert sorted(blob.name for blob in bucket.list_blobs()) == ["a", "ab", "b", "copy", "moved"]


def test_a_broken_chunk_is_resumed_by_the_client(cloud: Cloud, bucket: Any) -> None:
    data = bytes(range(256)) * 1024 * 5
    file = io.BytesIO(data)  # of no stated size: the client then always uploads in chunks
    cloud.world.part(Storage).break_next_chunk(CHUNK + 1000)
    bucket.blob("big", chunk_size=2 * CHUNK).upload_from_file(file)
    assert bucket.blob("big").download_as_bytes() == data
    asked = [seen for seen in cloud.requests if seen.method == "storage.objects.insertChunk"]
    assert 503 in [seen.status for seen in asked]


def test_a_name_written_too_fast_is_a_429_that_the_client_waits_out(cloud: Cloud, bucket: Any) -> None:
    cloud.fail("storage.objects.insert", too_fast("bucket", "a"))
    url = f"{cloud.endpoints.storage}/upload/storage/v1/b/bucket/o?uploadType=media&name=a"
    told = requests.post(url, data=b"x", timeout=10)
    assert (told.status_code, told.json()["error"]["errors"][0]["reason"]) == (429, "rateLimitExceeded")
    cloud.fail("storage.objects.insert", too_fast("bucket", "a"))
    bucket.blob("a").upload_from_string("x")


def test_permissions_are_asked_for_one_by_one(cloud: Cloud, client: Any) -> None:
    reader = cloud.caller("reader@example.com", ["storage.objects.get", "storage.objects.create"])
    limited = storage_client_of(cloud, cloud.credentials_of(reader)).bucket("bucket")
    limited.blob("a").upload_from_string("x")
    with pytest.raises(Forbidden, match=r"does not have storage\.objects\.delete access"):
        limited.blob("a").upload_from_string("y")
    with pytest.raises(Forbidden, match=r"storage\.objects\.list"):
        list(limited.list_blobs())
    asked = ["storage.objects.get", "storage.buckets.get", "storage.objects.create"]
    assert limited.test_iam_permissions(asked) == ["storage.objects.get", "storage.objects.create"]


def test_entity_tags_and_packed_bodies_are_a_501(cloud: Cloud, bucket: Any) -> None:
    bucket.blob("a").upload_from_string("x")
    path = url(cloud, "/storage/v1/b/bucket/o/a?alt=media")
    for name in ("If-Match", "If-None-Match"):
        assert requests.get(path, headers={name: bucket.get_blob("a").etag}, timeout=10).status_code == 501
    upload = url(cloud, "/upload/storage/v1/b/bucket/o?name=a&uploadType=")
    media, part = f"{upload}media", f"{upload}multipart"
    packed = {"Content-Encoding": "gzip"}
    assert requests.post(media, data=gzip.compress(b"y"), headers=packed, timeout=10).status_code == 501
    body = b"--B\nA: b\n\n{}\n--B\nContent-Transfer-Encoding: base64\n\neQ==\n--B--"
    kind = {"Content-Type": "multipart/related; boundary=B"}
    assert requests.post(part, data=body, headers=kind, timeout=10).status_code == 501
    assert bucket.blob("a").download_as_bytes() == b"x"


def test_what_an_object_cannot_be_here_is_a_501_by_name(bucket: Any) -> None:
    with pytest.raises(GoogleAPICallError, match="customer-supplied encryption key") as refused:
        bucket.blob("a", encryption_key=bytes(range(32))).upload_from_string("secret", retry=None)
    assert refused.value.code == 501
    with pytest.raises(GoogleAPICallError, match="predefinedAcl"):
        bucket.blob("a").upload_from_string("x", predefined_acl="publicRead", retry=None)
    bucket.blob("a").upload_from_string("x")
    for name, value in (("event_based_hold", True), ("temporary_hold", True), ("storage_class", "NEARLINE")):
        blob = bucket.get_blob("a")
        setattr(blob, name, value)
        with pytest.raises(GoogleAPICallError) as refused:
            blob.patch(retry=None)
        assert refused.value.code == 501


def test_a_new_bucket_has_defaults_and_a_change_moves_its_metageneration(cloud: Cloud, client: Any) -> None:
    made = client.create_bucket("plain-bucket")
    shown = requests.get(url(cloud, "/storage/v1/b/plain-bucket"), timeout=10).json()
    assert (shown["location"], shown["locationType"], shown["rpo"]) == ("US", "multi-region", "DEFAULT")
    assert not made.iam_configuration.uniform_bucket_level_access_enabled
    assert (made.storage_class, made.soft_delete_policy.retention_duration_seconds) == ("STANDARD", 0)
    before = made.updated
    cloud.clock.advance(60)
    made.labels = {"team": "mine"}
    made.iam_configuration.uniform_bucket_level_access_enabled = True
    made.patch()
    assert (made.updated - before).total_seconds() == 60
    assert (made.metageneration, made.labels) == (2, {"team": "mine"})
    assert made.iam_configuration.uniform_bucket_level_access_enabled
