"""Buckets and objects as the JSON API prints them."""

from __future__ import annotations

import functools
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from gputrain_emulator.storage import settings
from gputrain_emulator.storage.buckets import Bucket, Stored
from gputrain_emulator.storage.conditions import etag


def object_resource(stored: Stored, base_url: str) -> dict[str, Any]:
    """`storage#object`; `base_url` is the address under which the caller reached us."""
    path = f"b/{stored.bucket}/o/{quote(stored.name, safe='')}"
    created = _milliseconds(stored.created)
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
        "updated": _milliseconds(stored.updated),
        "timeStorageClassUpdated": created,
        "timeFinalized": created,
        "crc32c": stored.content.crc32c,
    }
    if stored.content.md5:
        resource["md5Hash"] = stored.content.md5
    if stored.components:
        resource["componentCount"] = stored.components
    return {**resource, **stored.fields}


def bucket_resource(bucket: Bucket, base_url: str) -> dict[str, Any]:
    """`storage#bucket`."""
    kind = settings.location_type(bucket.location)
    return {
        "kind": "storage#bucket",
        "id": bucket.name,
        "selfLink": f"{base_url}/storage/v1/b/{bucket.name}",
        "projectNumber": bucket.project_number,
        "name": bucket.name,
        "timeCreated": _milliseconds(bucket.created),
        "updated": _milliseconds(bucket.updated),
        "generation": str(bucket.generation),
        "metageneration": str(bucket.metageneration),
        "location": bucket.location,
        "locationType": kind,
        "etag": etag(bucket.generation, bucket.metageneration),
        **({} if kind == "region" else {"rpo": "DEFAULT"}),
        **bucket.fields,
    }


@functools.lru_cache(maxsize=4096)  # an object tells the same moment three times
def _milliseconds(when: float) -> str:
    text = datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
