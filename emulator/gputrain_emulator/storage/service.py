"""The JSON API's buckets, and who may do what; `object_service` and `upload_service` have the rest."""

from __future__ import annotations

from typing import Any

from gputrain_emulator.call import Call, Reply
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.routes import Service
from gputrain_emulator.storage.conditions import Conditions
from gputrain_emulator.storage.resources import bucket_resource
from gputrain_emulator.storage.state import Storage
from gputrain_emulator.storage.uploads import read_metadata
from gputrain_emulator.world import unknown_project

SERVICE = Service(name="storage", style=Style.STORAGE)

_BUCKET_FIELDS = frozenset(
    {"labels", "lifecycle", "versioning", "iamConfiguration", "storageClass", "softDeletePolicy", "cors",
     "autoclass", "encryption", "hierarchicalNamespace", "retentionPolicy", "rpo", "website", "logging",
     "billing", "defaultEventBasedHold", "customPlacementConfig"}
)  # fmt: skip


def may(call: Call, permission: str) -> None:
    """Refuse a caller without the permission, in Cloud Storage's words."""
    if not call.caller.may(permission):
        what = "object" if permission.startswith("storage.objects") else "bucket"
        raise ApiError(
            403,
            f"{call.caller.email} does not have {permission} access to the Google Cloud Storage {what}. "
            f"Permission '{permission}' denied on resource (or it may not exist).",
            reason="forbidden",
        )


@SERVICE.route("GET", "/storage/v1/b", "storage.buckets.list", permission="-")
def list_buckets(call: Call) -> dict[str, Any]:
    may(call, "storage.buckets.list")
    project = call.world.find_project(call.query.get("project", ""))
    if project is None:
        raise unknown_project(call.query.get("project", ""), Style.COMPUTE)
    found = call.world.part(Storage).objects.buckets(project.id)
    prefix = call.query.get("prefix", "")
    items = [bucket_resource(bucket, call.base_url) for bucket in found if bucket.name.startswith(prefix)]
    return {"kind": "storage#buckets", **({"items": items} if items else {})}


@SERVICE.route("POST", "/storage/v1/b", "storage.buckets.insert", permission="-")
def insert_bucket(call: Call) -> dict[str, Any]:
    may(call, "storage.buckets.create")
    asked = read_metadata(call.raw_body)
    project = call.world.find_project(call.query.get("project", ""))
    if project is None:
        raise unknown_project(call.query.get("project", ""), Style.COMPUTE)
    location = asked.get("location", "US")
    if not isinstance(asked.get("name"), str) or not isinstance(location, str):
        raise ApiError(400, "Required parameter: name", reason="required")
    bucket = call.world.part(Storage).objects.add_bucket(
        asked["name"],
        project=project.id,
        project_number=project.number,
        location=location,
        fields={key: value for key, value in asked.items() if key in _BUCKET_FIELDS},
    )
    call.world.ledger.write("create", f"buckets/{bucket.name}", caller=call.caller.email)
    return bucket_resource(bucket, call.base_url)


@SERVICE.route("GET", "/storage/v1/b/{bucket}", "storage.buckets.get", permission="-")
def get_bucket(call: Call) -> dict[str, Any]:
    may(call, "storage.buckets.get")
    bucket = call.world.part(Storage).objects.bucket(call.params["bucket"])
    Conditions.of(call.query).check(bucket.generation, bucket.metageneration, reading=True)
    return bucket_resource(bucket, call.base_url)


@SERVICE.route("PATCH", "/storage/v1/b/{bucket}", "storage.buckets.patch", permission="-")
def patch_bucket(call: Call) -> dict[str, Any]:
    may(call, "storage.buckets.update")
    asked = {key: v for key, v in read_metadata(call.raw_body).items() if key in _BUCKET_FIELDS}
    objects = call.world.part(Storage).objects
    return bucket_resource(
        objects.patch_bucket(call.params["bucket"], asked, Conditions.of(call.query)), call.base_url
    )


@SERVICE.route("DELETE", "/storage/v1/b/{bucket}", "storage.buckets.delete", permission="-")
def delete_bucket(call: Call) -> Reply:
    may(call, "storage.buckets.delete")
    call.world.part(Storage).objects.drop_bucket(call.params["bucket"], Conditions.of(call.query))
    return Reply(status=204)


@SERVICE.route(
    "GET", "/storage/v1/b/{bucket}/iam/testPermissions", "storage.buckets.testIamPermissions", permission="-"
)
def test_permissions(call: Call) -> dict[str, Any]:
    call.world.part(Storage).objects.bucket(call.params["bucket"])
    asked = call.query_all.get("permissions", [])
    held = [permission for permission in asked if call.caller.may(permission)]
    return {"kind": "storage#testIamPermissionsResponse", **({"permissions": held} if held else {})}
