"""The JSON API's buckets."""

from __future__ import annotations

from typing import Any

from gputrain_emulator.call import Call, Reply
from gputrain_emulator.errors import Style
from gputrain_emulator.storage import acl, settings
from gputrain_emulator.storage.buckets import Buckets
from gputrain_emulator.storage.conditions import Conditions, number
from gputrain_emulator.storage.fields import read_message
from gputrain_emulator.storage.refusals import invalid, no_bucket, not_carried_out, required
from gputrain_emulator.storage.resources import bucket_resource
from gputrain_emulator.storage.service import Answer, is_full, serves
from gputrain_emulator.storage.state import Storage
from gputrain_emulator.storage.tokens import decode, encode
from gputrain_emulator.storage.values import Bucket
from gputrain_emulator.world import Project, unknown_project

_BUCKETS = "/storage/v1/b"
_BUCKET = "/storage/v1/b/{bucket}"
_MAX_PAGE = 1000


@serves("GET", _BUCKETS, "storage.buckets.list", "storage.buckets.list")
def list_buckets(call: Call) -> dict[str, Any]:
    if call.query.get("softDeleted") == "true":
        raise not_carried_out("A list of soft-deleted buckets")
    after, prefix = decode(call.query.get("pageToken", "")), call.query.get("prefix", "")
    found = [
        bucket
        for bucket in _buckets(call).of_project(_project(call).id)
        if bucket.name.startswith(prefix) and bucket.name > after
    ]
    size = min(max(0, number(call.query, "maxResults") or 0) or _MAX_PAGE, _MAX_PAGE)
    answer: dict[str, Any] = {"kind": "storage#buckets"}
    if found[:size]:
        answer["items"] = [
            bucket_resource(bucket, call.base_url, full=is_full(call)) for bucket in found[:size]
        ]
    if found[size:]:
        answer["nextPageToken"] = encode(found[size - 1].name)
    return answer


@serves("POST", _BUCKETS, "storage.buckets.insert", "storage.buckets.create")
def insert_bucket(call: Call) -> dict[str, Any]:
    asked = read_message("Bucket", call.raw_body)
    project = _project(call)
    if not asked.get("name"):
        raise required("Required parameter: name")
    if call.query.get("enableObjectRetention") == "true":
        raise not_carried_out("Object retention (enableObjectRetention)")
    for name in ("acl", "defaultObjectAcl"):
        if asked.get(name):
            raise not_carried_out(f"A bucket's {name}")
    access = (asked.get("iamConfiguration") or {}).get("uniformBucketLevelAccess") or {}
    uniform = bool(access.get("enabled"))
    bucket = _buckets(call).add(
        asked["name"],
        project=project.id,
        project_number=project.number,
        location=asked.get("location") or "US",
        fields=asked,
        acl=acl.chosen(call.query.get("predefinedAcl"), uniform=uniform),
        object_acl=acl.chosen(call.query.get("predefinedDefaultObjectAcl"), uniform=uniform),
    )
    call.world.ledger.write("create", f"buckets/{bucket.name}", caller=call.caller.email)
    return bucket_resource(bucket, call.base_url, full=is_full(call))


@serves("GET", _BUCKET, "storage.buckets.get", "storage.buckets.get")
def get_bucket(call: Call) -> dict[str, Any]:
    bucket = _buckets(call).get(call.params["bucket"])
    if call.query.get("softDeleted") == "true" or number(call.query, "generation") not in (
        None,
        bucket.generation,
    ):
        raise no_bucket()  # what is deleted is not kept
    Conditions.of(call.query, headers=call.headers).check(
        bucket.generation, bucket.metageneration, reading=True
    )
    return bucket_resource(bucket, call.base_url, full=is_full(call))


@serves("PATCH", _BUCKET, "storage.buckets.patch", "storage.buckets.update")
def patch_bucket(call: Call) -> dict[str, Any]:
    return _change(call, whole=False)


@serves("PUT", _BUCKET, "storage.buckets.update", "storage.buckets.update")
def update_bucket(call: Call) -> dict[str, Any]:
    return _change(call, whole=True)


@serves("DELETE", _BUCKET, "storage.buckets.delete", "storage.buckets.delete")
def delete_bucket(call: Call) -> Reply:
    _buckets(call).drop(call.params["bucket"], Conditions.of(call.query, headers=call.headers))
    return Reply(status=204)


@serves(
    "POST", f"{_BUCKET}/lockRetentionPolicy", "storage.buckets.lockRetentionPolicy", "storage.buckets.update"
)
def lock_retention_policy(call: Call) -> dict[str, Any]:
    bucket = _buckets(call).lock_retention(call.params["bucket"], Conditions.of(call.query))
    return bucket_resource(bucket, call.base_url, full=is_full(call, "full"))


@serves("GET", f"{_BUCKET}/storageLayout", "storage.buckets.getStorageLayout", "storage.objects.list")
def get_storage_layout(call: Call) -> dict[str, Any]:
    bucket = _buckets(call).get(call.params["bucket"])
    return {
        "kind": "storage#storageLayout",
        "bucket": bucket.name,
        "location": bucket.location,
        "locationType": settings.location_type(bucket.location),
    }


@serves("GET", f"{_BUCKET}/managedFolders", "storage.managedFolders.list", "storage.managedFolders.list")
def list_managed_folders(call: Call) -> dict[str, Any]:
    """None: no way is served to make one. `gcloud storage rm` of a bucket asks."""
    _buckets(call).get(call.params["bucket"])
    return {"kind": "storage#managedFolders"}


@serves("GET", f"{_BUCKET}/iam/testPermissions", "storage.buckets.testIamPermissions")
def test_permissions(call: Call) -> Answer:
    _buckets(call).get(call.params["bucket"])
    held = [one for one in call.query_all.get("permissions", []) if call.caller.may(one)]
    return {"kind": "storage#testIamPermissionsResponse", **({"permissions": held} if held else {})}


def _change(call: Call, *, whole: bool) -> dict[str, Any]:
    buckets = _buckets(call)
    bucket = buckets.get(call.params["bucket"])
    asked = read_message("Bucket", call.raw_body)
    _check_unmoved(call, bucket, asked)
    changed = buckets.change(bucket.name, asked, Conditions.of(call.query, headers=call.headers), whole=whole)
    return bucket_resource(changed, call.base_url, full=is_full(call))


def _check_unmoved(call: Call, bucket: Bucket, asked: dict[str, Any]) -> None:
    """A change keeps a bucket's name, place and lists: those that are sent back are taken out of `asked`."""
    name, location = asked.pop("name", bucket.name), asked.pop("location", bucket.location)
    if (name, str(location).upper()) != (bucket.name, bucket.location):
        raise invalid("The name and the location of a bucket cannot be changed.")
    lists = acl.of_bucket(bucket, call.base_url)
    for key in ("acl", "defaultObjectAcl"):
        acl.check(asked.pop(key, None), lists.get(key, []), f"a bucket's {key}")
    for parameter in ("predefinedAcl", "predefinedDefaultObjectAcl"):
        if call.query.get(parameter):
            acl.chosen(call.query[parameter], uniform=bucket.uniform_access)
            raise not_carried_out(f"Changing access control lists ({parameter})")


def _buckets(call: Call) -> Buckets:
    return call.world.part(Storage).buckets


def _project(call: Call) -> Project:
    project = call.world.find_project(call.query["project"])
    if project is None:
        raise unknown_project(call.query["project"], Style.COMPUTE)
    return project
