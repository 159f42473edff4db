"""How the JSON API's calls are read: their parameters by Google's document, their caller's permissions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gputrain_emulator.call import Call, Reply
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.routes import MAX_JSON_BODY, Service
from gputrain_emulator.storage import acl, settings
from gputrain_emulator.storage.encryption import key_sha256
from gputrain_emulator.storage.fields import check_selection, read_parameters
from gputrain_emulator.storage.refusals import invalid, not_carried_out
from gputrain_emulator.storage.resources import object_resource
from gputrain_emulator.storage.state import Storage
from gputrain_emulator.storage.values import Stored, Writer

SERVICE = Service(name="storage", style=Style.STORAGE)

Answer = dict[str, Any] | Reply
Handler = Callable[[Call], Answer]

_KEYS_OF_KMS = ("kmsKeyName", "destinationKmsKeyName")


def serves(
    verb: str,
    template: str,
    method_id: str,
    *permissions: str,
    document: str = "",
    max_body: int = MAX_JSON_BODY,
) -> Callable[[Handler], Handler]:
    """Answer a method whose parameters are those of `document` (itself), for who has `permissions`."""

    def register(handler: Handler) -> Handler:
        def run(call: Call) -> Answer:
            call.query = read_parameters(document or method_id, call.query_all)
            if call.query.get("fields") and call.query.get("alt") != "media":
                check_selection(document or method_id, call.query["fields"])
            for permission in permissions:
                may(call, permission)
            _check_parameters(call)
            return handler(call)

        SERVICE.route(verb, template, method_id, permission="-", max_body=max_body)(run)
        return handler

    return register


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


def is_full(call: Call, default: str = "noAcl") -> bool:
    """Whether the answer shows access control lists."""
    return bool(call.query.get("projection", default) == "full")


def shown(call: Call, stored: Stored) -> dict[str, Any]:
    """An object as the answer of a call."""
    bucket = call.world.part(Storage).buckets.get(stored.bucket)
    return object_resource(
        stored, bucket, call.base_url, full=is_full(call), key_sha256=key_sha256(call.headers)
    )


def writer(call: Call, bucket: str, parameter: str = "predefinedAcl") -> Writer:
    """Who writes into a bucket by this call, with which list and which key."""
    place = call.world.part(Storage).buckets.get(bucket)
    return Writer(
        email=call.caller.email,
        acl=acl.chosen(call.query.get(parameter), uniform=place.uniform_access, default=""),
        key_sha256=key_sha256(call.headers),
    )


def check_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a writer chose for an object; 501 for what is not carried out."""
    for name in ("acl", "contexts", "retention"):
        if fields.get(name):
            raise not_carried_out(f"An object's {name}")
    if fields.get("storageClass") is not None:
        settings.check_class(fields["storageClass"])
    own = ("acl", "contexts", "retention", "name", "crc32c", "md5Hash")
    return {key: value for key, value in fields.items() if key not in own}


def _check_parameters(call: Call) -> None:
    for name in _KEYS_OF_KMS:
        if call.query.get(name):
            raise not_carried_out(f"A Cloud KMS key ({name})")
    payer = call.query.get("userProject")
    if payer and call.world.find_project(payer) is None:
        raise invalid("User project specified in the request is invalid.", reason="userProjectInvalid")
