"""Buckets and objects as the JSON API prints them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from gputrain_emulator.storage import acl, settings
from gputrain_emulator.storage.conditions import etag
from gputrain_emulator.storage.encryption import ALGORITHM
from gputrain_emulator.storage.times import milliseconds
from gputrain_emulator.storage.values import Bucket, Stored


def object_resource(
    stored: Stored, bucket: Bucket, base_url: str, *, full: bool = False, key_sha256: str = ""
) -> dict[str, Any]:
    """`storage#object`; `base_url` is the address under which the caller reached us.

    Without the key that it is encrypted with, an object's hashes are left out.
    """
    path = f"b/{stored.bucket}/o/{quote(stored.name, safe='')}"
    created = milliseconds(stored.created)
    resource: dict[str, Any] = {
        "kind": "storage#object",
        "id": f"{stored.bucket}/{stored.name}/{stored.generation}",
        "selfLink": f"{base_url}/storage/v1/{path}",
        "mediaLink": f"{base_url}/download/storage/v1/{path}?generation={stored.generation}&alt=media",
        "name": stored.name,
        "bucket": stored.bucket,
        "generation": str(stored.generation),
        "metageneration": str(stored.metageneration),
        "storageClass": stored.storage_class,
        "size": str(stored.content.size),
        "etag": etag(stored.generation, stored.metageneration),
        "timeCreated": created,
        "updated": milliseconds(stored.updated),
        "timeStorageClassUpdated": milliseconds(stored.class_updated),
        "timeFinalized": created,
    }
    if stored.writer.key_sha256 == key_sha256 or not stored.writer.key_sha256:
        resource["crc32c"] = stored.content.crc32c
        if stored.content.md5:
            resource["md5Hash"] = stored.content.md5
    if stored.writer.key_sha256:
        key = {"encryptionAlgorithm": ALGORITHM, "keySha256": stored.writer.key_sha256}
        resource["customerEncryption"] = key
    if stored.components:
        resource["componentCount"] = stored.components
    if stored.deleted is not None:
        resource["timeDeleted"] = milliseconds(stored.deleted)
    if stored.soft_deleted is not None:
        resource["softDeleteTime"] = milliseconds(stored.soft_deleted)
        resource["hardDeleteTime"] = milliseconds(stored.hard_delete)
    if bucket.retention_s and not stored.fields.get("eventBasedHold"):
        resource["retentionExpirationTime"] = milliseconds(stored.retained_from + bucket.retention_s)
    resource.update(stored.fields)
    return {**resource, **acl.of_object(stored, bucket, base_url)} if full else resource


def bucket_resource(bucket: Bucket, base_url: str, *, full: bool = False) -> dict[str, Any]:
    """`storage#bucket`."""
    kind = settings.location_type(bucket.location)
    resource: dict[str, Any] = {
        "kind": "storage#bucket",
        "id": bucket.name,
        "selfLink": f"{base_url}/storage/v1/b/{bucket.name}",
        "projectNumber": bucket.project_number,
        "name": bucket.name,
        "timeCreated": milliseconds(bucket.created),
        "updated": milliseconds(bucket.updated),
        "generation": str(bucket.generation),
        "metageneration": str(bucket.metageneration),
        "location": bucket.location,
        "locationType": kind,
        "etag": etag(bucket.generation, bucket.metageneration),
    }
    if kind != "region":
        resource["rpo"] = "DEFAULT"
    resource.update(bucket.fields)
    return {**resource, **acl.of_bucket(bucket, base_url)} if full else resource
