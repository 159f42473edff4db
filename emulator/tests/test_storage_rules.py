"""The rules that a bucket and an object carry are kept: versions, soft delete, retention, holds, keys."""

from __future__ import annotations

import base64
import hashlib
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

from gputrain_emulator import Cloud
from gputrain_emulator.storage import Storage

DAY = 86400.0
KEY, OTHER_KEY = bytes(range(32)), bytes(32)


@pytest.fixture
def bucket(storage_client: Any) -> Any:
    return storage_client.create_bucket("bucket-1")


@pytest.fixture
def versioned(storage_client: Any) -> Any:
    made = storage_client.bucket("versioned")
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


def test_a_new_bucket_has_googles_defaults(cloud: Cloud, storage_client: Any) -> None:
    made = storage_client.create_bucket("plain-bucket")
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


def test_a_bucket_without_soft_delete_keeps_no_bytes(cloud: Cloud, storage_client: Any) -> None:
    made = storage_client.bucket("forgetful")
    made.soft_delete_policy.retention_duration_seconds = 0
    made.create()
    for _ in range(5):
        write(made, "a", "x" * 100_000)
    with pytest.raises(BadRequest):
        list(made.list_blobs(soft_deleted=True))
    made.blob("a").delete()
    assert list(cloud.world.part(Storage).objects.folder.path.iterdir()) == []


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
