"""The JSON API's three ways to upload: media, multipart and resumable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from gputrain_emulator import messages, schema
from gputrain_emulator.call import Call, Reply
from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.buckets import Conditions, invalid, required
from gputrain_emulator.storage.content import Content
from gputrain_emulator.storage.resources import object_resource
from gputrain_emulator.storage.service import SERVICE, Answer, check, chosen, conditions_of, may, may_replace
from gputrain_emulator.storage.uploads import Session, Storage, split_multipart

MAX_UPLOAD = 5 << 40
"""Bytes of one request: as many as an object may have.
Source: cloud.google.com/storage/docs/uploads-downloads, read 2026-11-23."""
_INSERT = "storage.objects.insert"
_PATHS = ("/upload/storage/v1/b/{bucket}/o", "/resumable/upload/storage/v1/b/{bucket}/o")
"""The second is where Google's document sends resumable uploads, and gcloud with it."""


def insert(call: Call) -> Answer:
    """A whole upload, the start of a resumable one, or a chunk of one, which gcsfs sends by POST."""
    if "upload_id" in call.query_all:
        return put_chunk(call)
    check(call)
    kind = call.query_all.get("uploadType", [""])[-1]
    data: bytes | memoryview
    if kind == "resumable":
        return _start(call)
    if kind == "multipart":
        metadata, media, data = split_multipart(call.headers.get("content-type", ""), call.raw_body)
    elif kind == "media":
        metadata, media, data = b"", call.headers.get("content-type", ""), call.raw_body
    else:
        raise invalid("Invalid upload request: uploadType must be media, multipart or resumable.")
    asked = _metadata(metadata)
    name, fields = _target(call, asked, media)
    content = call.world.part(Storage).objects.folder.keep(data)
    check_hashes(content, {**header_hashes(call.headers), **asked})
    return _write(call, call.params["bucket"], name, content, fields, conditions_of(call))


def put_chunk(call: Call) -> Answer:
    """Bytes of a resumable upload, or a question how far it is."""
    storage = call.world.part(Storage)
    session = storage.uploads.find(call.query_all.get("upload_id", [""])[-1])
    with session.lock:
        if session.result is None:
            content_range = call.headers.get("content-range", "")
            is_whole = storage.uploads.take(session, content_range, call.raw_body)
            draft = session.draft
            if draft is None or not is_whole:
                received = {"Range": f"bytes=0-{draft.size - 1}"} if draft and draft.size else {}
                return Reply(status=308, headers=received)
            check_hashes(draft, {**session.hashes, **header_hashes(call.headers)})
            session.result = _write(
                call, session.bucket, session.name, draft, session.fields, session.conditions
            )
            session.draft = None  # the object has the bytes now, and they go with it
        return session.result


for _path in _PATHS:
    for _verb, _id, _handler in (("POST", _INSERT, insert), ("PUT", f"{_INSERT}Chunk", put_chunk)):
        SERVICE.route(
            _verb, _path, _id, permission="-", request=_INSERT, response="storage.Object",
            is_raw=True, max_body=MAX_UPLOAD,
        )(_handler)  # fmt: skip


def header_hashes(headers: Mapping[str, str]) -> dict[str, str]:
    """`X-Goog-Hash: crc32c=...,md5=...` as the metadata would say them."""
    found = {}
    for part in headers.get("x-goog-hash", "").split(","):
        name, _, value = part.strip().partition("=")
        if name in ("crc32c", "md5"):
            found["md5Hash" if name == "md5" else name] = value
    return found


def check_hashes(content: Content, told: Mapping[str, Any]) -> None:
    """400 where the bytes are not those that were announced."""
    for key, label, actual in (("crc32c", "CRC32C", content.crc32c), ("md5Hash", "MD5 hash", content.md5)):
        given = told.get(key)
        if given is not None and given != actual:
            raise invalid(f'Provided {label} "{given}" doesn\'t match calculated {label} "{actual}".')


def _start(call: Call) -> Reply:
    asked = _metadata(call.raw_body)
    name, fields = _target(call, asked, call.headers.get("x-upload-content-type", ""))
    bucket, conditions = call.params["bucket"], conditions_of(call)
    storage = call.world.part(Storage)
    storage.objects.check_write(bucket, name, conditions)
    upload_id = storage.uploads.start(
        Session(
            bucket=bucket,
            name=name,
            fields=fields,
            conditions=conditions,
            hashes={key: str(asked[key]) for key in ("crc32c", "md5Hash") if asked.get(key)},
            draft=storage.objects.folder.draft(),
        )
    )
    query = f"uploadType=resumable&name={quote(name, safe='')}&upload_id={upload_id}"
    where = f"{call.base_url}/upload/storage/v1/b/{quote(bucket, safe='')}/o?{query}"
    return Reply(status=200, headers={"Location": where, "X-GUploader-UploadID": upload_id})


def _metadata(raw: bytes) -> dict[str, Any]:
    try:
        document = schema.decoded(raw) if raw.strip() else {}
    except ValueError:
        raise ApiError(400, "Parse Error", reason="parseError") from None
    return schema.read_message(messages.message("storage.Object"), document, "")


def _target(call: Call, asked: Mapping[str, Any], media: str) -> tuple[str, dict[str, Any]]:
    may(call, "storage.objects.create")
    name = call.query.get("name") or asked.get("name")
    if not name:
        raise required("Required object name is missing.")
    fields = chosen(call, asked, call.params["bucket"])
    if media:
        fields.setdefault("contentType", media)
    return name, fields


def _write(
    call: Call, bucket: str, name: str, content: Content, fields: Mapping[str, Any], conditions: Conditions
) -> dict[str, Any]:
    may_replace(call, bucket, name)
    stored = call.world.part(Storage).objects.put(bucket, name, content, fields, conditions=conditions)
    return object_resource(stored, call.base_url)
