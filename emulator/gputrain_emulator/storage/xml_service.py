"""As much of the XML API as Google's clients for the JSON API use: multipart uploads.

google-cloud-storage's transfer manager sends large files this way. Signed addresses, the other use of it, are
refused: there is no key here to check a signature with.
Source: cloud.google.com/storage/docs/xml-api/post-object-multipart and its neighbours, read 2026-11-22.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from gputrain_emulator.call import Call, Reply
from gputrain_emulator.errors import ApiError
from gputrain_emulator.routes import LAST
from gputrain_emulator.storage import lifecycle
from gputrain_emulator.storage.copy_service import forbid_overwrite
from gputrain_emulator.storage.encryption import check_key_of, key_sha256
from gputrain_emulator.storage.refusals import invalid, not_carried_out
from gputrain_emulator.storage.service import SERVICE, may, writer
from gputrain_emulator.storage.state import Storage
from gputrain_emulator.storage.upload_service import MAX_UPLOAD, check_hashes, header_hashes
from gputrain_emulator.storage.xml_uploads import MultipartUpload

_OBJECT = "/{bucket}/{object=**}"
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_UPLOAD = frozenset({"uploadId"})
_SIGNATURES = frozenset({"X-Goog-Signature", "X-Amz-Signature", "Signature"})
_PART = re.compile(r"[0-9]{1,9}")
_FIELDS = {
    "cache-control": "cacheControl",
    "content-disposition": "contentDisposition",
    "content-encoding": "contentEncoding",
    "content-language": "contentLanguage",
    "content-type": "contentType",
    "x-goog-custom-time": "customTime",
    "x-goog-storage-class": "storageClass",
}
_CODES = {403: "AccessDenied", 404: "NoSuchKey", 412: "PreconditionFailed", 501: "NotImplemented"}

Answer = Callable[[Call], Reply]


def _serves(
    verb: str, method_id: str, marks: frozenset[str], max_body: int = 1 << 20
) -> Callable[[Answer], Answer]:
    """Answer a path that only its query tells from others; what is refused is told in XML."""

    def register(handler: Answer) -> Answer:
        def run(call: Call) -> Reply:
            try:
                return handler(call)
            except ApiError as error:
                return _refused(error)

        SERVICE.route(verb, _OBJECT, method_id, permission="-", max_body=max_body, marks=marks)(run)
        return handler

    return register


@_serves("POST", "storage.xml.startUpload", frozenset({"uploads"}))
def start(call: Call) -> Reply:
    may(call, "storage.objects.create")
    storage, bucket, name = call.world.part(Storage), call.params["bucket"], call.params["object"]
    fields: dict[str, Any] = {
        key: call.headers[header] for header, key in _FIELDS.items() if header in call.headers
    }
    metadata = {
        header.removeprefix("x-goog-meta-"): value
        for header, value in call.headers.items()
        if header.startswith("x-goog-meta-")
    }
    if metadata:
        fields["metadata"] = metadata
    if call.headers.get("x-goog-encryption-kms-key-name"):
        raise not_carried_out("A Cloud KMS key (x-goog-encryption-kms-key-name)")
    if call.headers.get("x-goog-acl"):
        raise not_carried_out("An access control list (x-goog-acl)")
    upload_id = storage.multipart.start(bucket, name, fields, writer(call, bucket))
    parts = {"Bucket": bucket, "Key": name, "UploadId": upload_id}
    return _document("InitiateMultipartUploadResult", parts)


@_serves("PUT", "storage.xml.uploadPart", frozenset({"uploadId", "partNumber"}), MAX_UPLOAD)
def put_part(call: Call) -> Reply:
    may(call, "storage.objects.create")
    storage, upload = call.world.part(Storage), _upload(call)
    check_key_of(upload.writer.key_sha256, key_sha256(call.headers))
    text = call.query.get("partNumber", "")
    content = storage.objects.folder.keep(call.content)
    check_hashes(content, header_hashes(call.headers))
    storage.multipart.take(upload, int(text) if _PART.fullmatch(text) else 0, content)
    return Reply(
        headers={
            "ETag": f'"{_hex(content.md5)}"',
            "X-Goog-Hash": f"crc32c={content.crc32c},md5={content.md5}",
        }
    )


@_serves("POST", "storage.xml.finishUpload", _UPLOAD)
def finish(call: Call) -> Reply:
    may(call, "storage.objects.create")
    storage, upload = call.world.part(Storage), _upload(call)
    check_key_of(upload.writer.key_sha256, key_sha256(call.headers))
    content = storage.multipart.finish(upload, _wanted(call.raw_body))
    check_hashes(
        content, {key: value for key, value in header_hashes(call.headers).items() if key == "crc32c"}
    )
    forbid_overwrite(call, upload.bucket, upload.name)
    stored = storage.objects.put(upload.bucket, upload.name, content, upload.fields, writer=upload.writer)
    storage.multipart.drop(call.query["uploadId"])
    parts = {
        "Location": f"{call.base_url}/{upload.bucket}/{upload.name}",
        "Bucket": upload.bucket,
        "Key": upload.name,
        "ETag": f'"{stored.generation:x}"',
    }
    hashes = {"X-Goog-Hash": f"crc32c={content.crc32c}", "X-Goog-Generation": str(stored.generation)}
    return _document("CompleteMultipartUploadResult", parts, hashes)


@_serves("DELETE", "storage.xml.abortUpload", _UPLOAD)
def abort(call: Call) -> Reply:
    may(call, "storage.objects.create")
    _upload(call)
    call.world.part(Storage).multipart.drop(call.query["uploadId"])
    return Reply(status=204)


def signed(_: Call) -> Reply:
    raise not_carried_out("A signed address (no key here can check a signature)")


for _verb in ("GET", "PUT", "POST", "DELETE"):
    for _mark in sorted(_SIGNATURES):
        _serves(_verb, "storage.xml.signedUrl", frozenset({_mark}))(signed)


def unserved(call: Call) -> Reply:
    """501 by name for an address of the XML API: only a bucket's name tells such a path from any other."""
    if all(bucket.name != call.params["bucket"] for bucket in call.world.part(Storage).buckets.all()):
        raise ApiError(404, f"The requested URL {call.path[:200]} was not found on this server.")
    return _refused(ApiError.unimplemented(call.method.id))


for _verb in ("GET", "PUT", "POST", "DELETE"):
    for _template, _what in ((_OBJECT, "Object"), ("/{bucket}", "Bucket")):
        _id = f"storage.xml.{_verb.lower()}{_what}"
        SERVICE.route(_verb, _template, _id, permission="-", marks=LAST)(unserved)


def _upload(call: Call) -> MultipartUpload:
    storage, bucket = call.world.part(Storage), call.params["bucket"]
    found = storage.multipart.find(call.query["uploadId"], bucket, call.params["object"])
    rules = storage.buckets.get(bucket).rules
    if lifecycle.aborts(rules, found.name, found.started, call.world.clock.now()):
        storage.multipart.drop(call.query["uploadId"])
        return storage.multipart.find(call.query["uploadId"], bucket, call.params["object"])
    return found


def _wanted(body: bytes) -> list[tuple[int, str]]:
    """The number and the MD5, in base64, of each part that the upload is to be made of."""
    try:
        if b"<!" in body:
            raise ValueError("no declarations in a list of parts")
        root = ElementTree.fromstring(body)  # noqa: S314 - a document without declarations
        found = []
        for part in root.iter():
            if part.tag.rpartition("}")[2] == "Part":
                texts = {one.tag.rpartition("}")[2]: (one.text or "").strip() for one in part}
                plain = bytes.fromhex(texts["ETag"].strip('"'))
                found.append((int(texts["PartNumber"]), base64.b64encode(plain).decode()))
    except (ElementTree.ParseError, LookupError, ValueError, binascii.Error):
        raise invalid("The XML you provided was not well-formed.", reason="MalformedXML") from None
    return found


def _hex(md5: str) -> str:
    return base64.b64decode(md5).hex()


def _document(name: str, parts: dict[str, str], headers: dict[str, str] | None = None) -> Reply:
    inside = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in parts.items())
    text = f"<?xml version='1.0' encoding='UTF-8'?><{name} xmlns='{_NAMESPACE}'>{inside}</{name}>"
    return Reply(body=text.encode(), content_type="application/xml; charset=UTF-8", headers=headers or {})


def _refused(error: ApiError) -> Reply:
    reason = error.reason[:1].upper() + error.reason[1:]
    code = (
        reason
        if error.status == 400 or error.domain == "xml" or "Hold" in reason or "Policy" in reason
        else ""
    )
    code = code or _CODES.get(error.status, reason)
    text = (
        f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{escape(code)}</Code>"
        f"<Message>{escape(error.message)}</Message></Error>"
    )
    return Reply(status=error.status, body=text.encode(), content_type="application/xml; charset=UTF-8")
