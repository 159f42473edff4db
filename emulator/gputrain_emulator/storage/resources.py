"""Buckets and objects as the JSON API prints them, and what of an object a caller may choose."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from gputrain_emulator.storage.conditions import invalid
from gputrain_emulator.storage.values import Bucket, Stored

# What a writer may set on an object, with its JSON type; everything else in the resource is the service's
# (discovery document storage v1, read 2026-11-20).
WRITABLE: Mapping[str, type] = {
    "cacheControl": str,
    "contentDisposition": str,
    "contentEncoding": str,
    "contentLanguage": str,
    "contentType": str,
    "customTime": str,
    "eventBasedHold": bool,
    "metadata": dict,
    "storageClass": str,
    "temporaryHold": bool,
}
_READ_ONLY = frozenset(
    {
        "acl", "bucket", "componentCount", "contexts", "crc32c", "customerEncryption", "etag", "generation",
        "hardDeleteTime", "id", "kind", "kmsKeyName", "md5Hash", "mediaLink", "metageneration", "name",
        "owner", "restoreToken", "retention", "retentionExpirationTime", "selfLink", "size", "softDeleteTime",
        "timeCreated", "timeDeleted", "timeFinalized", "timeStorageClassUpdated", "updated",
    }
)  # fmt: skip
_REGION_OF_DUAL = frozenset({"US", "EU", "ASIA"})


def chosen(document: Mapping[str, Any]) -> dict[str, object]:
    """The writer's fields of an object resource; an unknown one or a wrong type is refused."""
    fields: dict[str, object] = {}
    for key, value in document.items():
        kind = WRITABLE.get(key)
        if kind is None:
            if key not in _READ_ONLY:
                raise invalid(f'Invalid JSON payload received. Unknown name "{key}": Cannot find field.')
        elif value is not None and not isinstance(value, kind):
            raise invalid(f"Invalid value for {key}.")
        else:
            fields[key] = value
    metadata = fields.get("metadata")
    if isinstance(metadata, dict) and not all(v is None or isinstance(v, str) for v in metadata.values()):
        raise invalid("Invalid value for metadata.")
    return fields


def object_resource(stored: Stored, base_url: str) -> dict[str, Any]:
    """`storage#object`; `base_url` is the address under which the caller reached us."""
    path = f"b/{quote(stored.bucket, safe='')}/o/{quote(stored.name, safe='')}"
    created, updated = _time(stored.created), _time(stored.updated)
    resource: dict[str, Any] = {
        "kind": "storage#object",
        "id": f"{stored.bucket}/{stored.name}/{stored.generation}",
        "selfLink": f"{base_url}/storage/v1/{path}",
        "mediaLink": f"{base_url}/download/storage/v1/{path}?generation={stored.generation}&alt=media",
        "name": stored.name,
        "bucket": stored.bucket,
        "generation": str(stored.generation),
        "metageneration": str(stored.metageneration),
        "storageClass": "STANDARD",
        "size": str(stored.content.size),
        "crc32c": stored.content.crc32c,
        "etag": etag(stored),
        "timeCreated": created,
        "updated": updated,
        "timeStorageClassUpdated": created,
        "timeFinalized": created,
    }
    if stored.content.md5:
        resource["md5Hash"] = stored.content.md5
    if stored.components:
        resource["componentCount"] = stored.components
    resource.update({key: value for key, value in stored.fields.items() if value is not None})
    return resource


def bucket_resource(bucket: Bucket, base_url: str) -> dict[str, Any]:
    """`storage#bucket`."""
    created = _time(bucket.created)
    resource: dict[str, Any] = {
        "kind": "storage#bucket",
        "id": bucket.name,
        "selfLink": f"{base_url}/storage/v1/b/{bucket.name}",
        "projectNumber": bucket.project_number,
        "name": bucket.name,
        "timeCreated": created,
        "updated": created,
        "generation": str(bucket.generation),
        "metageneration": str(bucket.metageneration),
        "iamConfiguration": {
            "bucketPolicyOnly": {"enabled": True},
            "uniformBucketLevelAccess": {"enabled": True},
            "publicAccessPrevention": "enforced",
        },
        "location": bucket.location,
        "locationType": "multi-region" if bucket.location in _REGION_OF_DUAL else "region",
        "storageClass": "STANDARD",
        "etag": _tag(bucket.metageneration),
    }
    resource.update(bucket.fields)
    return resource


def etag(stored: Stored) -> str:
    return _tag(stored.generation * 1000 + stored.metageneration)


def _tag(number: int) -> str:
    return base64.b64encode(number.to_bytes(9, "big")).decode()


def _time(when: float) -> str:
    text = datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
