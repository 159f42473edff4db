"""The JSON API's buckets and objects: settings, metadata, bytes and lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gputrain_emulator.call import Call, Reply
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.routes import Service
from gputrain_emulator.storage import buckets, resources
from gputrain_emulator.storage.buckets import (
    Buckets,
    Conditions,
    Objects,
    Part,
    Stored,
    invalid,
    not_carried_out,
    number,
    required,
)
from gputrain_emulator.storage.resources import bucket_resource, decode, encode, object_resource, page
from gputrain_emulator.storage.uploads import Storage
from gputrain_emulator.world import Project, permission_denied, unknown_project

SERVICE = Service(name="storage", style=Style.STORAGE, is_tabled=True)

_MAX_PAGE = 1000
_KEY_HEADERS = ("x-goog-encryption-", "x-goog-copy-source-encryption-")
_NOT_CARRIED_OUT = (
    "contentEncoding", "destinationKmsKeyName", "destinationPredefinedAcl", "enableObjectRetention", "filter",
    "kmsKeyName", "matchGlob", "predefinedAcl", "predefinedDefaultObjectAcl", "softDeleted",
)  # fmt: skip
"""Parameters of a query that would have to change something here."""
_CLOSED = ("private", "projectPrivate", "bucketOwnerFullControl", "bucketOwnerRead")
"""Predefined lists of access that let no stranger in, which nobody is here; gcsfs names two of them."""

_KEPT = ("cacheControl", "contentDisposition", "contentLanguage", "contentType", "customTime", "metadata")
_NOT_KEPT = ("acl", "contentEncoding", "contexts", "eventBasedHold", "retention", "temporaryHold")
"""Fields that a writer may choose at Google; of all others the service alone is the writer."""

Answer = dict[str, Any] | Reply


@SERVICE.method("storage.buckets.list")
def list_buckets(call: Call) -> dict[str, Any]:
    check(call)
    project, prefix = _project(call), call.query.get("prefix", "")
    after = decode(call.query.get("pageToken", ""))
    found = [
        bucket
        for bucket in _buckets(call).all()
        if bucket.project is project and bucket.name.startswith(prefix) and bucket.name > after
    ]
    size = min(call.query.get("maxResults") or _MAX_PAGE, _MAX_PAGE)
    shown = [bucket_resource(bucket, call.base_url) for bucket in found[:size]]
    return {
        "kind": "storage#buckets",
        **({"items": shown} if shown else {}),
        **({"nextPageToken": encode(found[size - 1].name)} if found[size:] else {}),
    }


@SERVICE.method("storage.buckets.insert", permission="storage.buckets.create")
def insert_bucket(call: Call) -> dict[str, Any]:
    check(call)
    asked, project = call.body, _project(call)
    if not asked.get("name"):
        raise required("Required parameter: name")
    bucket = _buckets(call).add(
        asked["name"],
        project=project,
        location=asked.get("location") or "US",
        fields=asked,
    )
    call.world.ledger.write("create", f"buckets/{bucket.name}", caller=call.caller.email)
    return bucket_resource(bucket, call.base_url)


@SERVICE.method("storage.buckets.get")
def get_bucket(call: Call) -> dict[str, Any]:
    check(call)
    bucket = _buckets(call).get(call.params["bucket"])
    if number(call.query, "generation") not in (None, bucket.generation):
        raise ApiError(404, "The specified bucket does not exist.")
    conditions_of(call).check(bucket.generation, bucket.metageneration, reading=True)
    return bucket_resource(bucket, call.base_url)


@SERVICE.method("storage.buckets.patch", permission="storage.buckets.update")
def patch_bucket(call: Call) -> dict[str, Any]:
    check(call)
    bucket, asked = _buckets(call).get(call.params["bucket"]), dict(call.body)
    name, location = asked.pop("name", bucket.name), asked.pop("location", bucket.location)
    if (name, str(location).upper()) != (bucket.name, bucket.location):
        raise invalid("The name and the location of a bucket cannot be changed.")
    changed = _buckets(call).change(bucket.name, asked, conditions_of(call))
    return bucket_resource(changed, call.base_url)


@SERVICE.method("storage.buckets.delete")
def delete_bucket(call: Call) -> Reply:
    _buckets(call).drop(call.params["bucket"], conditions_of(call))
    return Reply(status=204)


@SERVICE.method("storage.buckets.getStorageLayout", permission="storage.objects.list")
def get_storage_layout(call: Call) -> dict[str, Any]:
    bucket = _buckets(call).get(call.params["bucket"])
    return {
        "kind": "storage#storageLayout",
        "bucket": bucket.name,
        "location": bucket.location,
        "locationType": buckets.location_type(bucket.location),
    }


@SERVICE.method("storage.managedFolders.list")
def list_managed_folders(call: Call) -> dict[str, Any]:
    """None: no way is served to make one. `gcloud storage rm` of a bucket asks."""
    _buckets(call).get(call.params["bucket"])
    return {"kind": "storage#managedFolders"}


@SERVICE.method("storage.buckets.testIamPermissions", permission="-")
def test_permissions(call: Call) -> Answer:
    _buckets(call).get(call.params["bucket"])
    held = [one for one in call.query.get("permissions", ()) if call.caller.may(one)]
    return {"kind": "storage#testIamPermissionsResponse", **({"permissions": held} if held else {})}


@SERVICE.method("storage.objects.list")
def list_objects(call: Call) -> dict[str, Any]:
    check(call)  # `versions` is true of what is live too
    items, prefixes, token = page(objects_of(call), call.params["bucket"], call.query)
    answer: dict[str, Any] = {"kind": "storage#objects"}
    if token:
        answer["nextPageToken"] = token
    if prefixes:
        answer["prefixes"] = prefixes
    fresh = [object_resource(item, call.base_url) for item in items if call.shows(item.created)]
    return {**answer, "items": fresh} if fresh else answer


@SERVICE.route(
    "GET", "/download/storage/v1/b/{bucket}/o/{object}", "storage.objects.get",
    request="storage.objects.get", response="storage.Object",
)  # fmt: skip
@SERVICE.method("storage.objects.get")
def get_object(call: Call) -> Answer:
    check(call)
    stored = objects_of(call).get(
        call.params["bucket"],
        call.params["object"],
        generation=number(call.query, "generation"),
        conditions=conditions_of(call),
    )
    if call.query_all.get("alt", [""])[-1] == "media":
        return resources.download(stored, call.headers)
    return object_resource(stored, call.base_url)


@SERVICE.method("storage.objects.delete")
def delete_object(call: Call) -> Reply:
    objects_of(call).delete(
        call.params["bucket"],
        call.params["object"],
        generation=number(call.query, "generation"),
        conditions=conditions_of(call),
    )
    return Reply(status=204)


@SERVICE.method("storage.objects.patch", permission="storage.objects.update")
def patch_object(call: Call) -> Answer:
    check(call)
    bucket, name = call.params["bucket"], call.params["object"]
    if call.body.get("name", name) != name:
        raise invalid("The name of an object is changed by a move or a rewrite.")
    changed = objects_of(call).patch(
        bucket,
        name,
        chosen(call, call.body, bucket),
        generation=number(call.query, "generation"),
        conditions=conditions_of(call),
    )
    return object_resource(changed, call.base_url)


@SERVICE.method("storage.objects.compose", permission="storage.objects.create")
def compose(call: Call) -> Answer:
    check(call)
    may(call, "storage.objects.get")
    bucket, name = _destination(call)
    if not call.body.get("sourceObjects"):
        raise required()
    if call.body.get("deleteSourceObjects"):
        raise not_carried_out("A compose that deletes its sources (deleteSourceObjects)")
    stored = objects_of(call).compose(
        bucket,
        name,
        [_part(source) for source in call.body["sourceObjects"]],
        chosen(call, call.body.get("destination") or {}, bucket),
        conditions_of(call),
    )
    return object_resource(stored, call.base_url)


@SERVICE.method("storage.objects.rewrite", permission="storage.objects.create")
def rewrite(call: Call) -> Answer:
    stored = _copied(call)
    size = str(stored.content.size)
    return {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": size,
        "objectSize": size,
        "done": True,
        "resource": object_resource(stored, call.base_url),
    }


@SERVICE.method("storage.objects.copy", permission="storage.objects.create")
def copy(call: Call) -> Answer:
    return object_resource(_copied(call), call.base_url)


@SERVICE.method("storage.objects.move")
def move(call: Call) -> Answer:
    """To another name in its bucket."""
    moved, source = _copied(call), call.params["sourceObject"]
    if source != moved.name:
        objects_of(call).delete(moved.bucket, source)
    return object_resource(moved, call.base_url)


def objects_of(call: Call) -> Objects:
    """The objects of the call's world."""
    return call.world.part(Storage).objects


def conditions_of(call: Call) -> Conditions:
    """The preconditions on what a call reads or writes; 501 for entity tags."""
    for name in ("if-match", "if-none-match"):
        if name in call.headers:
            raise not_carried_out(f"The header {name}")
    return Conditions.of(call.query)


def may(call: Call, permission: str) -> None:
    """Refuse a caller without the permission."""
    if not call.caller.may(permission):
        raise permission_denied(permission, "", "storage", Style.STORAGE, call.caller.email)


def may_replace(call: Call, bucket: str, name: str) -> None:
    """Overwriting needs the permission to delete, as it replaces what was there."""
    if name in _buckets(call).get(bucket).live:
        may(call, "storage.objects.delete")


def check(call: Call) -> None:
    """501 for a rule that is asked for and not carried out."""
    for name in _NOT_CARRIED_OUT:
        if call.query.get(name) and call.query[name] not in _CLOSED:
            raise not_carried_out(f"The parameter {name}")
    if any(name.startswith(_KEY_HEADERS) for name in call.headers):
        raise not_carried_out("A customer-supplied encryption key (x-goog-encryption-key)")


def chosen(call: Call, asked: Mapping[str, Any], bucket: str) -> dict[str, Any]:
    """What a writer chose for an object; 501 for what is not carried out."""
    for name in _NOT_KEPT:
        if asked.get(name):
            raise not_carried_out(f"An object's {name}")
    own = _buckets(call).get(bucket).fields["storageClass"]
    if asked.get("storageClass", own) != own:
        raise not_carried_out("An object's storageClass that is not its bucket's")
    return {key: value for key, value in asked.items() if key in _KEPT}


def _copied(call: Call) -> Stored:
    check(call)
    may(call, "storage.objects.get")
    source = objects_of(call).get(
        call.params.get("sourceBucket") or call.params["bucket"],
        call.params["sourceObject"],
        generation=number(call.query, "sourceGeneration"),
    )
    Conditions.of(call.query, "Source").check(source.generation, source.metageneration)
    bucket, name = _destination(call)
    asked = chosen(call, call.body, bucket)
    return objects_of(call).put(
        bucket, name, source.content, asked or source.fields,
        conditions=conditions_of(call), components=source.components,
    )  # fmt: skip


def _destination(call: Call) -> tuple[str, str]:
    bucket = call.params.get("destinationBucket") or call.params["bucket"]
    name = call.params["destinationObject"]
    may_replace(call, bucket, name)
    return bucket, name


def _part(source: dict[str, Any]) -> Part:
    if not source.get("name"):
        raise required()
    return Part(
        name=source["name"],
        generation=number(source, "generation"),
        conditions=Conditions.of(source.get("objectPreconditions") or {}),
    )


def _buckets(call: Call) -> Buckets:
    return call.world.part(Storage).buckets


def _project(call: Call) -> Project:
    name = call.query.get("project")
    if not name:
        raise required("Required parameter: project")
    project = call.world.find_project(name)
    if project is None:
        raise unknown_project(name, Style.COMPUTE)
    return project
