"""The three ways to upload: media, multipart and resumable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from gputrain_emulator.call import Call, Reply
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.conditions import Conditions, invalid
from gputrain_emulator.storage.content import Content
from gputrain_emulator.storage.resources import chosen, object_resource
from gputrain_emulator.storage.service import SERVICE, may
from gputrain_emulator.storage.state import Storage
from gputrain_emulator.storage.uploads import Session, read_metadata, split_multipart
from gputrain_emulator.storage.values import Stored

MAX_UPLOAD = 1 << 30  # of one request; the emulator holds it in memory while it reads it
_PATH = "/upload/storage/v1/b/{bucket}/o"


@SERVICE.route("POST", _PATH, "storage.objects.insert", permission="-", max_body=MAX_UPLOAD)
def insert(call: Call) -> dict[str, Any] | Reply:
    kind = call.query.get("uploadType", "")
    if kind == "resumable":
        return _start(call)
    if kind == "multipart":
        asked, media, data = split_multipart(call.headers.get("content-type", ""), call.raw_body)
    elif kind == "media":
        asked, media, data = {}, call.headers.get("content-type", ""), call.raw_body
    else:
        raise invalid("Invalid upload request: uploadType must be media, multipart or resumable.")
    name, fields = _target(call, asked, media)
    storage = call.world.part(Storage)
    content = storage.objects.folder.keep(data)
    _check_hashes(content, {**_header_hashes(call), **asked})
    return _write(call, call.params["bucket"], name, content, fields, Conditions.of(call.query))


@SERVICE.route("PUT", _PATH, "storage.objects.insertChunk", permission="-", max_body=MAX_UPLOAD)
def put_chunk(call: Call) -> dict[str, Any] | Reply:
    storage = call.world.part(Storage)
    session = storage.uploads.find(call.query.get("upload_id", ""))
    with session.lock:
        if session.result is None:
            content_range = call.headers.get("content-range", "")
            progress = storage.uploads.take(session, content_range, call.raw_body)
            if progress.content is None:
                done = {"Range": f"bytes=0-{progress.received - 1}"} if progress.received else {}
                return Reply(status=308, headers=done)
            _check_hashes(progress.content, {**session.hashes, **_header_hashes(call)})
            session.result = _write(
                call, session.bucket, session.name, progress.content, session.fields, session.conditions
            )
        return session.result


@SERVICE.route("DELETE", _PATH, "storage.objects.cancelUpload", permission="-")
def cancel_upload(call: Call) -> Reply:
    call.world.part(Storage).uploads.cancel(call.query.get("upload_id", ""))
    return Reply(status=499)


def _start(call: Call) -> Reply:
    asked = read_metadata(call.raw_body)
    name, fields = _target(call, asked, call.headers.get("x-upload-content-type", ""))
    bucket, conditions = call.params["bucket"], Conditions.of(call.query)
    storage = call.world.part(Storage)
    storage.objects.check_write(bucket, name, conditions)
    upload_id = storage.uploads.start(
        Session(
            bucket=bucket,
            name=name,
            fields=fields,
            conditions=conditions,
            hashes={key: str(asked[key]) for key in ("crc32c", "md5Hash") if key in asked},
            draft=storage.objects.folder.draft(),
        )
    )
    query = f"uploadType=resumable&name={quote(name, safe='')}&upload_id={upload_id}"
    where = f"{call.base_url}/upload/storage/v1/b/{quote(bucket, safe='')}/o?{query}"
    return Reply(status=200, headers={"Location": where, "X-GUploader-UploadID": upload_id})


def _target(call: Call, asked: Mapping[str, Any], media: str) -> tuple[str, dict[str, object]]:
    may(call, "storage.objects.create")
    name = call.query.get("name") or asked.get("name")
    if not isinstance(name, str) or not name:
        raise ApiError(400, "Required object name is missing.", reason="required")
    fields = chosen(asked)
    if media:
        fields.setdefault("contentType", media)
    if call.query.get("contentEncoding"):
        fields["contentEncoding"] = call.query["contentEncoding"]
    return name, fields


def _write(
    call: Call,
    bucket: str,
    name: str,
    content: Content,
    fields: Mapping[str, object],
    conditions: Conditions,
) -> dict[str, Any]:
    objects = call.world.part(Storage).objects
    if not call.caller.may("storage.objects.delete"):
        _forbid_overwrite(call, bucket, name)
    stored: Stored = objects.put(bucket, name, content, fields, conditions=conditions)
    return object_resource(stored, call.base_url)


def _forbid_overwrite(call: Call, bucket: str, name: str) -> None:
    """Overwriting needs the permission to delete, as it replaces what was there."""
    try:
        call.world.part(Storage).objects.get(bucket, name)
    except ApiError:
        return
    may(call, "storage.objects.delete")


def _header_hashes(call: Call) -> dict[str, str]:
    """`X-Goog-Hash: crc32c=...,md5=...` and `Content-MD5` as the metadata would say them."""
    found = {}
    for part in call.headers.get("x-goog-hash", "").split(","):
        name, _, value = part.strip().partition("=")
        if name in ("crc32c", "md5"):
            found["md5Hash" if name == "md5" else name] = value
    if call.headers.get("content-md5"):
        found["md5Hash"] = call.headers["content-md5"]
    return found


def _check_hashes(content: Content, told: Mapping[str, Any]) -> None:
    for key, label, actual in (("crc32c", "CRC32C", content.crc32c), ("md5Hash", "MD5 hash", content.md5)):
        given = told.get(key)
        if given is not None and given != actual:
            raise invalid(f'Provided {label} "{given}" doesn\'t match calculated {label} "{actual}".')
