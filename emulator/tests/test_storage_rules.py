"""The rules that a bucket and an object carry are kept: versions, soft delete, retention, holds, keys."""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core.exceptions import (
    BadRequest,
    Forbidden,
    GoogleAPICallError,
    NotFound,
    PreconditionFailed,
)
from google.cloud import storage

from gputrain_emulator import Cloud
from gputrain_emulator.storage import Storage

DAY = 86400.0
KEY, OTHER_KEY = bytes(range(32)), bytes(32)


@pytest.fixture
def client(cloud: Cloud) -> Any:
    return storage.Client(
        project=cloud.project,
        credentials=cloud.credentials,
        client_options={"api_endpoint": cloud.endpoints.storage},
    )


@pytest.fixture
def bucket(client: Any) -> Any:
    return client.create_bucket("bucket-1")


@pytest.fixture
def versioned(client: Any) -> Any:
    made = client.bucket("versioned")
    made.versioning_enabled = True
    made.create()
    return made


def write(bucket: Any, name: str, data: str = "x") -> Any:
    blob = bucket.blob(name)
    blob.upload_from_string(data)
    return blob


def reason(error: GoogleAPICallError) -> str:
    """Google's word for a refusal, which the client keeps in the answer only."""
    return str(error.response.json()["error"]["errors"][0]["reason"])


def url(cloud: Cloud, path: str) -> str:
    return cloud.endpoints.storage + path


def test_a_new_bucket_has_googles_defaults(cloud: Cloud, client: Any) -> None:
    made = client.create_bucket("plain-bucket")
    shown = requests.get(url(cloud, "/storage/v1/b/plain-bucket"), timeout=10).json()
    assert (shown["location"], shown["locationType"], shown["rpo"]) == ("US", "multi-region", "DEFAULT")
    assert not made.iam_configuration.uniform_bucket_level_access_enabled
    assert made.iam_configuration.public_access_prevention == "inherited"
    assert made.soft_delete_policy.retention_duration_seconds == 7 * 86400
    assert (made.storage_class, made.versioning_enabled) == ("STANDARD", False)


def test_a_change_moves_updated_and_metageneration(cloud: Cloud, bucket: Any) -> None:
    made = bucket.updated
    cloud.clock.advance(60)
    bucket.labels = {"team": "mine"}
    bucket.patch()
    assert (bucket.updated - made).total_seconds() == 60
    assert (bucket.metageneration, bucket.labels) == (2, {"team": "mine"})


def test_the_date_of_a_reply_is_the_clocks(cloud: Cloud, bucket: Any) -> None:
    cloud.clock.advance(DAY)
    reply = requests.get(url(cloud, "/storage/v1/b/bucket-1"), timeout=10)
    assert reply.headers["Date"] == "Sat, 21 Nov 2026 12:00:00 GMT"


def test_a_versioned_bucket_keeps_what_is_written_over(versioned: Any) -> None:
    first = write(versioned, "a", "one").generation
    second = write(versioned, "a", "two").generation
    assert versioned.blob("a", generation=first).download_as_bytes() == b"one"
    found = list(versioned.list_blobs(versions=True))
    assert [blob.generation for blob in found] == [first, second]
    assert [blob.time_deleted is None for blob in found] == [False, True]
    assert [blob.generation for blob in versioned.list_blobs()] == [second]


def test_pages_of_versions_tell_each_of_them_once(versioned: Any) -> None:
    written = [write(versioned, name, str(turn)).generation for name in "ab" for turn in range(3)]
    found = versioned.list_blobs(versions=True, page_size=2)
    assert [blob.generation for blob in found] == written


def test_a_delete_makes_noncurrent_and_one_of_a_generation_is_for_good(versioned: Any) -> None:
    first = write(versioned, "a", "one").generation
    versioned.blob("a").delete()
    assert not versioned.blob("a").exists()
    back = versioned.blob("a")
    back.rewrite(versioned.blob("a", generation=first))
    assert back.download_as_bytes() == b"one"
    versioned.blob("a", generation=first).delete()
    with pytest.raises(NotFound):
        versioned.blob("a", generation=first).download_as_bytes()


def test_what_is_deleted_can_be_restored_for_seven_days(cloud: Cloud, bucket: Any) -> None:
    lost = write(bucket, "a", "one").generation
    bucket.blob("a").delete()
    found = list(bucket.list_blobs(soft_deleted=True))
    assert [blob.generation for blob in found] == [lost]
    assert (found[0].hard_delete_time - found[0].soft_delete_time).days == 7
    bucket.restore_blob("a", generation=lost)
    assert bucket.blob("a").download_as_bytes() == b"one"
    cloud.clock.advance(7 * DAY + 1)
    assert list(bucket.list_blobs(soft_deleted=True)) == []
    with pytest.raises(NotFound):
        bucket.restore_blob("a", generation=lost)


def test_a_bucket_without_soft_delete_keeps_no_bytes(cloud: Cloud, client: Any) -> None:
    made = client.bucket("forgetful")
    made.soft_delete_policy.retention_duration_seconds = 0
    made.create()
    for _ in range(5):
        write(made, "a", "x" * 1000)
    with pytest.raises(BadRequest):
        list(made.list_blobs(soft_deleted=True))
    made.blob("a").delete()
    assert list(Path(cloud.world.part(Storage)._kept.name).iterdir()) == []


def test_a_retention_policy_keeps_objects_for_its_period(cloud: Cloud, bucket: Any) -> None:
    bucket.retention_period = 3600
    bucket.patch()
    write(bucket, "a")
    assert bucket.get_blob("a").retention_expiration_time is not None
    for refused in (lambda: bucket.blob("a").delete(), lambda: write(bucket, "a", "again")):
        with pytest.raises(Forbidden) as error:
            refused()
        assert reason(error.value) == "retentionPolicyNotMet"
    with pytest.raises(PreconditionFailed):
        bucket.blob("a").delete(if_generation_match=7)
    cloud.clock.advance(3601)
    bucket.blob("a").delete()


def test_a_locked_policy_neither_goes_nor_shrinks(bucket: Any) -> None:
    bucket.retention_period = 3600
    bucket.patch()
    bucket.lock_retention_policy()
    assert bucket.retention_policy_locked
    for period in (60, None):
        bucket.retention_period = period
        with pytest.raises(Forbidden, match="locked Retention Policy"):
            bucket.patch()
    bucket.reload()
    bucket.retention_period = 7200
    bucket.patch()
    assert (bucket.retention_period, bucket.retention_policy_locked) == (7200, True)


@pytest.mark.parametrize("hold", ["temporary_hold", "event_based_hold"])
def test_a_hold_keeps_an_object_until_it_is_released(versioned: Any, hold: str) -> None:
    blob = write(versioned, "a")
    setattr(blob, hold, True)
    blob.patch()
    for refused in (blob.delete, lambda: write(versioned, "a"), lambda: versioned.blob("a").delete()):
        with pytest.raises(Forbidden) as error:
            refused()
        assert reason(error.value) == "objectUnderActiveHold"
    setattr(blob, hold, False)
    blob.patch()
    blob.delete()


def test_a_released_event_begins_the_retention_anew(cloud: Cloud, bucket: Any) -> None:
    bucket.retention_period = 3600
    bucket.default_event_based_hold = True
    bucket.patch()
    blob = write(bucket, "a")
    assert (blob.event_based_hold, blob.retention_expiration_time) == (True, None)
    cloud.clock.advance(7200)
    blob.event_based_hold = False
    blob.patch()
    with pytest.raises(Forbidden):
        blob.delete()
    cloud.clock.advance(3601)
    blob.delete()


def test_an_encrypted_object_is_read_with_its_key_alone(bucket: Any) -> None:
    bucket.blob("a", encryption_key=KEY).upload_from_string("secret")
    assert bucket.blob("a", encryption_key=KEY).download_as_bytes() == b"secret"
    with pytest.raises(BadRequest, match="encrypted by a customer-supplied"):
        bucket.blob("a").download_as_bytes()
    with pytest.raises(BadRequest, match="key is incorrect"):
        bucket.blob("a", encryption_key=OTHER_KEY).download_as_bytes()
    shown = bucket.get_blob("a")
    assert (shown.crc32c, shown.md5_hash) == (None, None)
    assert bucket.get_blob("a", encryption_key=KEY).crc32c is not None
    bucket.blob("plain").upload_from_string("x")
    with pytest.raises(BadRequest, match="is not encrypted"):
        bucket.blob("plain", encryption_key=KEY).download_as_bytes()


def test_a_key_is_changed_by_a_rewrite(bucket: Any) -> None:
    old = bucket.blob("a", encryption_key=KEY)
    old.upload_from_string("secret")
    new = bucket.blob("a", encryption_key=OTHER_KEY)
    with pytest.raises(BadRequest, match="encrypted by a customer-supplied"):
        new.rewrite(bucket.blob("a"))
    new.rewrite(old)
    assert new.download_as_bytes() == b"secret"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"algorithm": "ROT13"}, "customerEncryptionAlgorithmIsInvalid"),
        ({"key": "short"}, "customerEncryptionKeyFormatIsInvalid"),
        ({"key-sha256": "no"}, "customerEncryptionKeySha256IsInvalid"),
    ],
)
def test_a_key_that_is_none_is_refused(
    cloud: Cloud, bucket: Any, change: dict[str, str], reason: str
) -> None:
    hashed = base64.b64encode(hashlib.sha256(KEY).digest()).decode()
    sent = {"algorithm": "AES256", "key": base64.b64encode(KEY).decode(), "key-sha256": hashed, **change}
    headers = {f"x-goog-encryption-{name}": value for name, value in sent.items()}
    path = "/upload/storage/v1/b/bucket-1/o?uploadType=media&name=a"
    reply = requests.post(url(cloud, path), data=b"x", headers=headers, timeout=10)
    assert (reply.status_code, reply.json()["error"]["errors"][0]["reason"]) == (400, reason)


def test_entity_tags_are_conditions(cloud: Cloud, bucket: Any) -> None:
    tag = write(bucket, "a").etag
    for path in ("/storage/v1/b/bucket-1/o/a", "/storage/v1/b/bucket-1/o/a?alt=media"):
        for header, value, status in (
            ("If-None-Match", tag, 304),
            ("If-None-Match", "other", 200),
            ("If-Match", tag, 200),
            ("If-Match", "nope", 412),
        ):
            reply = requests.get(url(cloud, path), headers={header: value}, timeout=10)
            assert reply.status_code == status
    changed = requests.patch(
        url(cloud, "/storage/v1/b/bucket-1"), json={}, headers={"If-Match": "nope"}, timeout=10
    )
    assert changed.status_code == 412


def test_gzip_is_undone_for_who_does_not_take_it(cloud: Cloud, bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.content_encoding = "gzip"
    blob.upload_from_string(gzip.compress(b"plain text"), content_type="text/plain")
    path = url(cloud, "/download/storage/v1/b/bucket-1/o/a?alt=media")
    plain = requests.get(path, headers={"Accept-Encoding": "identity", "Range": "bytes=0-3"}, timeout=10)
    assert (plain.status_code, plain.content) == (200, b"plain text")
    assert "Content-Encoding" not in plain.headers
    packed = requests.get(path, headers={"Accept-Encoding": "gzip"}, timeout=10, stream=True)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.raw.read(decode_content=False)) == b"plain text"
    assert blob.download_as_bytes() == b"plain text"


def test_lifecycle_rules_delete_by_age_on_the_emulators_clock(cloud: Cloud, bucket: Any) -> None:
    bucket.add_lifecycle_delete_rule(age=3, matches_prefix=["old/"])
    bucket.add_lifecycle_set_storage_class_rule("COLDLINE", age=1, matches_suffix=[".bin"])
    bucket.patch()
    write(bucket, "old/a"), write(bucket, "kept"), write(bucket, "b.bin")
    cloud.clock.advance(2 * DAY)
    assert {blob.name: blob.storage_class for blob in bucket.list_blobs()} == {
        "b.bin": "COLDLINE",
        "kept": "STANDARD",
        "old/a": "STANDARD",
    }
    cloud.clock.advance(2 * DAY)
    assert [blob.name for blob in bucket.list_blobs()] == ["b.bin", "kept"]


def test_lifecycle_rules_thin_out_versions(cloud: Cloud, versioned: Any) -> None:
    versioned.add_lifecycle_delete_rule(number_of_newer_versions=2, is_live=False)
    versioned.patch()
    kept = [write(versioned, "a", str(turn)).generation for turn in range(5)][3:]
    cloud.clock.advance(DAY)
    assert [blob.generation for blob in versioned.list_blobs(versions=True)] == kept


def test_a_storage_class_is_kept_and_told_by_downloads(cloud: Cloud, bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.storage_class = "NEARLINE"
    blob.upload_from_string("x")
    path = url(cloud, "/storage/v1/b/bucket-1/o/a?alt=media")
    assert requests.get(path, timeout=10).headers["X-Goog-Storage-Class"] == "NEARLINE"
    blob.update_storage_class("ARCHIVE")
    assert bucket.get_blob("a").storage_class == "ARCHIVE"
    path = "/upload/storage/v1/b/bucket-1/o?uploadType=resumable&name=b"
    reply = requests.post(url(cloud, path), json={"storageClass": "BANANA"}, timeout=10)
    assert reply.status_code == 400


def test_lists_of_access_are_shown_only_when_asked_for(cloud: Cloud, bucket: Any) -> None:
    write(bucket, "a")
    number = cloud.world.projects[cloud.project].number
    for path in ("/storage/v1/b/bucket-1", "/storage/v1/b/bucket-1/o/a"):
        assert "acl" not in requests.get(url(cloud, path), timeout=10).json()
        shown = requests.get(url(cloud, path + "?projection=full"), timeout=10).json()
        assert {"entity": f"project-viewers-{number}", "role": "READER"}.items() <= next(
            one for one in shown["acl"] if "viewers" in one["entity"]
        ).items()
        assert "entity" in shown["owner"]
    assert requests.get(url(cloud, path + "?projection=some"), timeout=10).status_code == 400


def test_under_uniform_access_there_are_no_lists(cloud: Cloud, client: Any) -> None:
    made = client.bucket("uniform")
    made.iam_configuration.uniform_bucket_level_access_enabled = True
    made.create()
    write(made, "a")
    shown = requests.get(url(cloud, "/storage/v1/b/uniform/o/a?projection=full"), timeout=10).json()
    assert "acl" not in shown
    with pytest.raises(BadRequest, match="uniform bucket-level access"):
        made.blob("b").upload_from_string("x", predefined_acl="private")


def test_a_part_in_base64_is_decoded(cloud: Cloud, bucket: Any) -> None:
    body = (
        b"--B\r\nContent-Type: application/json\r\n\r\n{}\r\n--B\r\nContent-Type: text/plain\r\n"
        b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.b64encode(b"hello") + b"\r\n--B--"
    )
    path = url(cloud, "/upload/storage/v1/b/bucket-1/o?uploadType=multipart&name=a")
    headers = {"Content-Type": "multipart/related; boundary=B"}
    assert requests.post(path, data=body, headers=headers, timeout=10).status_code == 200
    assert bucket.blob("a").download_as_bytes() == b"hello"


def test_a_body_may_come_in_gzip(cloud: Cloud, bucket: Any) -> None:
    path = url(cloud, "/upload/storage/v1/b/bucket-1/o?uploadType=media&name=a")
    sent = requests.post(path, data=gzip.compress(b"hello"), headers={"Content-Encoding": "gzip"}, timeout=10)
    assert (sent.status_code, bucket.blob("a").download_as_bytes()) == (200, b"hello")
    broken = requests.post(path, data=b"hello", headers={"Content-Encoding": "gzip"}, timeout=10)
    assert broken.status_code == 400


def test_a_head_tells_what_a_get_would(cloud: Cloud, bucket: Any) -> None:
    write(bucket, "a", "hello")
    reply = requests.head(url(cloud, "/storage/v1/b/bucket-1/o/a?alt=media"), timeout=10)
    assert (reply.status_code, reply.headers["Content-Length"], reply.content) == (200, "5", b"")
    assert requests.head(url(cloud, "/storage/v1/b/bucket-1/o/b"), timeout=10).status_code == 404


def test_a_move_keeps_what_the_object_says_of_itself(bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.metadata = {"k": "v"}
    blob.upload_from_string("x", content_type="text/x-mine")
    moved = bucket.move_blob(blob, "b")
    assert (moved.metadata, moved.content_type) == ({"k": "v"}, "text/x-mine")
    assert [found.name for found in bucket.list_blobs()] == ["b"]


def test_a_compose_may_delete_what_it_is_made_of(cloud: Cloud, bucket: Any) -> None:
    write(bucket, "a", "one"), write(bucket, "b", "two")
    body = {"sourceObjects": [{"name": "a"}, {"name": "b"}], "deleteSourceObjects": True}
    reply = requests.post(url(cloud, "/storage/v1/b/bucket-1/o/ab/compose"), json=body, timeout=10)
    assert reply.status_code == 200
    assert [found.name for found in bucket.list_blobs()] == ["ab"]


def test_a_finished_upload_keeps_no_bytes_of_its_own(cloud: Cloud) -> None:
    found = cloud.world.part(Storage)
    found.add_bucket("bucket-2")
    path = url(cloud, "/resumable/upload/storage/v1/b/bucket-2/o?uploadType=resumable&name=a")
    sessions = []
    for _ in range(3):
        sessions.append(requests.post(path, timeout=10).headers["Location"])
        assert requests.put(sessions[-1], data=b"x" * 1000, timeout=10).status_code == 200
    assert len(list(Path(found._kept.name).iterdir())) == 1
    assert requests.put(sessions[0], data=b"", headers={"Content-Range": "bytes */1000"}, timeout=10).ok
    cloud.clock.advance(7 * DAY + 1)
    assert requests.put(sessions[0], data=b"", timeout=10).status_code == 404


def test_a_signed_address_is_refused_by_name(cloud: Cloud, bucket: Any) -> None:
    write(bucket, "a")
    reply = requests.get(url(cloud, "/bucket-1/a?X-Goog-Algorithm=GOOG4&X-Goog-Signature=ab"), timeout=10)
    assert reply.status_code == 501
    assert "signed address" in reply.text


def test_parts_are_held_to_googles_rules(cloud: Cloud, bucket: Any) -> None:
    path = url(cloud, "/bucket-1/a")
    started = requests.post(f"{path}?uploads", timeout=10).text
    upload = started.partition("<UploadId>")[2].partition("<")[0]
    sent = [
        requests.put(f"{path}?partNumber={number}&uploadId={upload}", data=b"small", timeout=10)
        for number in (1, 2)
    ]
    rows = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{reply.headers['ETag']}</ETag></Part>"
        for number, reply in enumerate(sent, 1)
    )
    body = f"<CompleteMultipartUpload>{rows}</CompleteMultipartUpload>"
    refused = requests.post(f"{path}?uploadId={upload}", data=body, timeout=10)
    assert (refused.status_code, "EntityTooSmall" in refused.text) == (400, True)
    assert requests.delete(f"{path}?uploadId={upload}", timeout=10).status_code == 204
    gone = requests.put(f"{path}?partNumber=1&uploadId={upload}", data=b"x", timeout=10)
    assert (gone.status_code, "NoSuchUpload" in gone.text) == (404, True)
