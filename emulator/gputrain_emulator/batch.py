"""``POST /batch/compute/v1``: several calls in one multipart/mixed request, as gcloud sends them."""

from __future__ import annotations

import email.parser
import email.policy

from gputrain_emulator.call import Reply, refusal
from gputrain_emulator.dispatch import Dispatcher
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.exchanges import Request, unwrapped

PATHS = frozenset(["/batch", "/batch/compute/v1", "/batch/storage/v1"])
"""The ``batchPath`` of the services' discovery documents."""
_FAILED = "Failed to parse batch request, error"


def answer(dispatcher: Dispatcher, request: Request) -> Reply:
    """Each part is answered as if it had come alone; a part that is dropped drops the whole batch."""
    content_type = request.headers.get("content-type", "")
    head = f"Content-Type: {content_type}\r\nMIME-Version: 1.0\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.body)
    if not content_type.startswith("multipart/mixed") or not message.is_multipart():
        return refusal(ApiError(400, f"{_FAILED}: Expected multipart/mixed."), Style.COMPUTE)
    boundary = "batch_emulator"
    chunks = []
    for part in message.iter_parts():
        payload = part.get_payload(decode=True)
        inner = _inner_request(payload if isinstance(payload, bytes) else b"", request)
        content_id = str(part.get("Content-ID", "")).strip()
        chunks.append(f"--{boundary}\r\n".encode() + _part(dispatcher, inner, content_id))
    body = b"".join(chunks) + f"--{boundary}--\r\n".encode()
    return Reply(body=body, content_type=f"multipart/mixed; boundary={boundary}")


def _inner_request(payload: bytes, outer: Request) -> Request | None:
    head, _, body = payload.replace(b"\r\n", b"\n").partition(b"\n\n")
    line, _, rest = head.decode("latin-1").partition("\n")
    words = line.split()
    if len(words) < 2:
        return None
    headers = {"host": outer.headers.get("host", ""), "authorization": outer.headers.get("authorization", "")}
    for row in rest.splitlines():
        name, colon, value = row.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    target = words[1] if words[1].startswith("/") else "/" + words[1].partition("://")[2].partition("/")[2]
    return unwrapped(Request(verb=words[0], target=target, headers=headers, body=body.strip()))


def _part(dispatcher: Dispatcher, inner: Request | None, content_id: str) -> bytes:
    if inner is None:
        reply = refusal(ApiError(400, f"{_FAILED}: 0 length part."), Style.COMPUTE)
    else:
        reply = dispatcher.handle(inner).reply
    answered = f"<response-{content_id[1:-1]}>" if content_id.startswith("<") else f"response-{content_id}"
    body = reply.body if isinstance(reply.body, bytes) else b""
    head = (
        f"Content-Type: application/http\r\nContent-ID: {answered}\r\n\r\n"
        f"HTTP/1.1 {reply.status} {'OK' if reply.status < 300 else 'Error'}\r\n"
        f"Content-Type: {reply.content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body + b"\r\n"
