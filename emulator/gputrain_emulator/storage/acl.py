"""Predefined access control lists, as `projection=full` shows them.

Access is decided by the callers' permissions alone, as under uniform bucket-level access; so a list that lets
strangers in is refused, not shown and ignored. Source:
cloud.google.com/storage/docs/access-control/lists#predefined-acl, read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gputrain_emulator.storage.refusals import invalid, not_carried_out
from gputrain_emulator.storage.values import DEFAULT_ACL, Bucket, Stored

Entry = tuple[str, str]  # entity and role

_OWNERS, _EDITORS, _VIEWERS, _USER = "project-owners-", "project-editors-", "project-viewers-", "user-"
_BUCKET_LISTS: Mapping[str, Sequence[Entry]] = {
    "private": ((_OWNERS, "OWNER"),),
    "projectPrivate": ((_OWNERS, "OWNER"), (_EDITORS, "OWNER"), (_VIEWERS, "READER")),
}
_OBJECT_LISTS: Mapping[str, Sequence[Entry]] = {
    "private": ((_USER, "OWNER"),),
    "projectPrivate": (
        (_OWNERS, "OWNER"), (_EDITORS, "OWNER"), (_VIEWERS, "READER"), (_USER, "OWNER"),
    ),
    "bucketOwnerRead": ((_OWNERS, "READER"), (_USER, "OWNER")),
    "bucketOwnerFullControl": ((_OWNERS, "OWNER"), (_USER, "OWNER")),
}  # fmt: skip


def chosen(name: str | None, *, uniform: bool, default: str = DEFAULT_ACL) -> str:
    """The list that a call names, or the default one; 400 under uniform access, 501 for strangers' access."""
    if name is None:
        return default
    if uniform:
        raise invalid(
            "Cannot use ACL API to update bucket policy when uniform bucket-level access is enabled. Read "
            "more at https://cloud.google.com/storage/docs/uniform-bucket-level-access"
        )
    if name not in _OBJECT_LISTS:
        raise not_carried_out(f"The predefined access control list {name}")
    return name


def check(asked: Any, shown: Sequence[Mapping[str, Any]], what: str) -> None:
    """501 for a list in a request that differs from the one that there is."""
    if asked is None:
        return
    if {(one.get("entity"), one.get("role")) for one in asked} != {
        (one["entity"], one["role"]) for one in shown
    }:
        raise not_carried_out(f"Setting {what}")


def of_bucket(bucket: Bucket, base_url: str) -> dict[str, Any]:
    """`acl`, `defaultObjectAcl` and `owner`, as far as a bucket has them."""
    owner = {"owner": {"entity": f"{_OWNERS}{bucket.project_number}"}}
    if bucket.uniform_access:
        return owner
    own = _BUCKET_LISTS.get(bucket.acl, _BUCKET_LISTS[DEFAULT_ACL])
    place = f"b/{bucket.name}"
    lists = {
        "acl": [
            {
                **_entry("storage#bucketAccessControl", entity, role, bucket.project_number),
                "id": f"{bucket.name}/{entity}{bucket.project_number}",
                "selfLink": f"{base_url}/storage/v1/{place}/acl/{entity}{bucket.project_number}",
                "bucket": bucket.name,
            }
            for entity, role in own
        ],
        "defaultObjectAcl": [
            _entry("storage#objectAccessControl", entity, role, bucket.project_number)
            for entity, role in _OBJECT_LISTS[bucket.object_acl]
            if entity != _USER
        ],
    }
    return {**lists, **owner}


def of_object(stored: Stored, bucket: Bucket, base_url: str) -> dict[str, Any]:
    """`acl` and `owner`, which an object under uniform access has not."""
    if bucket.uniform_access:
        return {}
    place = f"b/{stored.bucket}/o/{quote(stored.name, safe='')}"
    entries = []
    for entity, role in _OBJECT_LISTS[stored.writer.acl or bucket.object_acl]:
        whose = stored.writer.email if entity == _USER else bucket.project_number
        entries.append(
            {
                **_entry("storage#objectAccessControl", entity, role, whose),
                "id": f"{stored.bucket}/{stored.name}/{stored.generation}/{entity}{whose}",
                "selfLink": f"{base_url}/storage/v1/{place}/acl/{entity}{whose}",
                "bucket": stored.bucket,
                "object": stored.name,
                "generation": str(stored.generation),
            }
        )
    return {"acl": entries, "owner": {"entity": f"{_USER}{stored.writer.email}"}}


def _entry(kind: str, entity: str, role: str, whose: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": kind, "entity": f"{entity}{whose}", "role": role}
    if entity == _USER:
        return {**entry, "email": whose}
    return {**entry, "projectTeam": {"projectNumber": whose, "team": entity.split("-")[1]}}
