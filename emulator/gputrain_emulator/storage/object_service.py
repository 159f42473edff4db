"""The JSON API's objects: metadata, bytes and lists."""

from __future__ import annotations

from typing import Any

from gputrain_emulator.call import Call, Reply
from gputrain_emulator.storage import acl, media
from gputrain_emulator.storage.conditions import Conditions, number
from gputrain_emulator.storage.encryption import check_key, key_sha256
from gputrain_emulator.storage.fields import read_message
from gputrain_emulator.storage.listing import Wanted, Which, page
from gputrain_emulator.storage.objects import Objects
from gputrain_emulator.storage.refusals import invalid, not_carried_out, required
from gputrain_emulator.storage.resources import object_resource
from gputrain_emulator.storage.service import Answer, check_fields, is_full, serves, shown, writer
from gputrain_emulator.storage.state import Storage

_OBJECTS = "/storage/v1/b/{bucket}/o"
_OBJECT = "/storage/v1/b/{bucket}/o/{object}"


@serves("GET", _OBJECTS, "storage.objects.list", "storage.objects.list")
def list_objects(call: Call) -> dict[str, Any]:
    objects, query = _objects(call), call.query
    if query.get("filter"):
        raise not_carried_out("A list of objects by filter")
    found = page(
        objects,
        call.params["bucket"],
        Wanted(
            prefix=query.get("prefix", ""),
            delimiter=query.get("delimiter", ""),
            start=query.get("startOffset", ""),
            end=query.get("endOffset", ""),
            glob=query.get("matchGlob", ""),
            include_trailing_delimiter=query.get("includeTrailingDelimiter") == "true",
            page_size=max(0, number(query, "maxResults") or 0),
            page_token=query.get("pageToken", ""),
            which=_which(call),
        ),
    )
    answer: dict[str, Any] = {"kind": "storage#objects"}
    if found.next_token:
        answer["nextPageToken"] = found.next_token
    if found.prefixes:
        answer["prefixes"] = list(found.prefixes)
    bucket, full = objects.buckets.get(call.params["bucket"]), is_full(call)
    fresh = [
        object_resource(item, bucket, call.base_url, full=full)
        for item in found.items
        if not (call.stale_s and item.created > call.world.clock.now() - call.stale_s)
    ]
    if fresh:
        answer["items"] = fresh
    return answer


@serves("GET", _OBJECT, "storage.objects.get", "storage.objects.get")
def get_object(call: Call) -> Answer:
    return _read(call)


@serves(
    "GET", "/download" + _OBJECT, "storage.objects.download", "storage.objects.get",
    document="storage.objects.get",
)  # fmt: skip
def download(call: Call) -> Answer:
    return _read(call)


@serves("DELETE", _OBJECT, "storage.objects.delete", "storage.objects.delete")
def delete_object(call: Call) -> Reply:
    _objects(call).delete(
        call.params["bucket"],
        call.params["object"],
        generation=number(call.query, "generation"),
        conditions=Conditions.of(call.query, headers=call.headers),
    )
    return Reply(status=204)


@serves("PATCH", _OBJECT, "storage.objects.patch", "storage.objects.update")
def patch_object(call: Call) -> Answer:
    return _change(call, whole=False)


@serves("PUT", _OBJECT, "storage.objects.update", "storage.objects.update")
def update_object(call: Call) -> Answer:
    return _change(call, whole=True)


@serves(
    "POST",
    _OBJECT + "/restore",
    "storage.objects.restore",
    "storage.objects.create",
    "storage.objects.restore",
)
def restore_object(call: Call) -> Answer:
    generation = number(call.query, "generation")
    if generation is None:
        raise required("Required parameter: generation")
    restored = _objects(call).restore(
        call.params["bucket"],
        call.params["object"],
        generation,
        conditions=Conditions.of(call.query, headers=call.headers),
        writer=writer(call, call.params["bucket"]),
    )
    return shown(call, restored)


def _which(call: Call) -> Which:
    versions, deleted = (call.query.get(name) == "true" for name in ("versions", "softDeleted"))
    if versions and deleted:
        raise invalid("versions and softDeleted cannot both be true.")
    if deleted:
        return Which.SOFT_DELETED
    return Which.ALL if versions else Which.LIVE


def _read(call: Call) -> Answer:
    deleted = call.query.get("softDeleted") == "true"
    stored = _objects(call).get(
        call.params["bucket"],
        call.params["object"],
        generation=number(call.query, "generation"),
        conditions=Conditions.of(call.query, headers=call.headers),
        soft_deleted=deleted,
    )
    if call.query.get("alt") != "media":
        given = key_sha256(call.headers)
        if given:
            check_key(stored, given)
        return shown(call, stored)
    if deleted:
        raise invalid("The bytes of a soft-deleted object cannot be read; restore it first.")
    check_key(stored, key_sha256(call.headers))
    return media.download(stored, call.headers)


def _change(call: Call, *, whole: bool) -> Answer:
    objects, name = _objects(call), call.params["object"]
    if call.query.get("predefinedAcl"):
        raise not_carried_out("Changing access control lists (predefinedAcl)")
    asked = read_message("Object", call.raw_body)
    generation = number(call.query, "generation")
    held = objects.get(call.params["bucket"], name, generation=generation)
    if asked.pop("name", name) != name:
        raise invalid("The name of an object is changed by a move or a rewrite.")
    lists = acl.of_object(held, objects.buckets.get(held.bucket), call.base_url)
    acl.check(asked.pop("acl", None), lists.get("acl", []), "an object's acl")
    changed = objects.patch(
        held.bucket,
        name,
        check_fields(asked),
        generation=generation,
        conditions=Conditions.of(call.query, headers=call.headers),
        whole=whole,
    )
    return shown(call, changed)


def _objects(call: Call) -> Objects:
    return call.world.part(Storage).objects
