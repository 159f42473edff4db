"""The JSON API's objects made of others: compose, copy, rewrite and move."""

from __future__ import annotations

from typing import Any

from gputrain_emulator.call import Call
from gputrain_emulator.storage.conditions import Conditions, number
from gputrain_emulator.storage.encryption import check_key, key_sha256
from gputrain_emulator.storage.fields import read_message
from gputrain_emulator.storage.objects import Objects, Part
from gputrain_emulator.storage.refusals import required
from gputrain_emulator.storage.service import Answer, check_fields, may, serves, shown, writer
from gputrain_emulator.storage.state import Storage
from gputrain_emulator.storage.values import Stored

_OBJECT = "/storage/v1/b/{bucket}/o/{object}"
_SOURCE = "/storage/v1/b/{source}/o/{name}"
_MAKE = ("storage.objects.create", "storage.objects.get")


@serves("POST", _OBJECT + "/compose", "storage.objects.compose", *_MAKE)
def compose(call: Call) -> Answer:
    asked = read_message("ComposeRequest", call.raw_body)
    sources = asked.get("sourceObjects")
    if not sources:
        raise required()
    bucket, name = call.params["bucket"], call.params["object"]
    forbid_overwrite(call, bucket, name)
    deleting = bool(asked.get("deleteSourceObjects"))
    if deleting:
        may(call, "storage.objects.delete")
    stored = _objects(call).compose(
        bucket,
        name,
        [_part(source) for source in sources],
        check_fields(asked.get("destination") or {}),
        Conditions.of(call.query, headers=call.headers),
        writer=writer(call, bucket, "destinationPredefinedAcl"),
        deleting=deleting,
    )
    return shown(call, stored)


@serves("POST", _SOURCE + "/rewriteTo/b/{bucket}/o/{object}", "storage.objects.rewrite", *_MAKE)
def rewrite(call: Call) -> Answer:
    stored = _copied(call)
    size = str(stored.content.size)
    return {
        "kind": "storage#rewriteResponse",
        "totalBytesRewritten": size,
        "objectSize": size,
        "done": True,
        "resource": shown(call, stored),
    }


@serves("POST", _SOURCE + "/copyTo/b/{bucket}/o/{object}", "storage.objects.copy", *_MAKE)
def copy(call: Call) -> Answer:
    return shown(call, _copied(call))


@serves(
    "POST",
    "/storage/v1/b/{bucket}/o/{name}/moveTo/o/{object}",
    "storage.objects.move",
    *_MAKE,
    "storage.objects.delete",
)
def move(call: Call) -> Answer:
    bucket = call.params["bucket"]
    source = _objects(call).get(bucket, call.params["name"])
    Conditions.of(call.query, "Source").check(source.generation, source.metageneration)
    moved = _objects(call).move(
        source,
        call.params["object"],
        Conditions.of(call.query, headers=call.headers),
        writer=writer(call, bucket),
    )
    return shown(call, moved)


def forbid_overwrite(call: Call, bucket: str, name: str) -> None:
    """Overwriting needs the permission to delete, as it replaces what was there."""
    if not call.caller.may("storage.objects.delete") and _objects(call).exists(bucket, name):
        may(call, "storage.objects.delete")


def _copied(call: Call) -> Stored:
    bucket, name = call.params["bucket"], call.params["object"]
    source = _objects(call).get(
        call.params["source"], call.params["name"], generation=number(call.query, "sourceGeneration")
    )
    Conditions.of(call.query, "Source").check(source.generation, source.metageneration)
    check_key(source, key_sha256(call.headers, of_source=True))
    forbid_overwrite(call, bucket, name)
    asked = check_fields(read_message("Object", call.raw_body))
    return _objects(call).copy(
        source,
        bucket,
        name,
        asked or None,
        Conditions.of(call.query, headers=call.headers),
        writer=writer(call, bucket, "destinationPredefinedAcl"),
    )


def _part(source: dict[str, Any]) -> Part:
    if not source.get("name"):
        raise required()
    asked = source.get("objectPreconditions") or {}
    return Part(
        name=source["name"],
        generation=number(source, "generation"),
        conditions=Conditions.of({key: value for key, value in asked.items() if value is not None}),
    )


def _objects(call: Call) -> Objects:
    return call.world.part(Storage).objects
