"""Requests to an emulated cloud of this process, answered by a call instead of over a socket."""

import contextlib
import io
import os
from email.utils import formatdate
from http.client import responses

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter

from gputrain_emulator.call import refusal
from gputrain_emulator.errors import ApiError
from gputrain_emulator.exchanges import Request
from gputrain_emulator.server import answered

_MOST_BYTES = 1 << 20


@contextlib.contextmanager
def in_process(cloud):
    """What `requests` sends to this cloud is answered by the thread that sends it, half as dear.

    The socket stays open for all that is about the wire: while faults are ordered, for other processes, for
    bodies that are packed, large or not read yet, and for clients that do not use `requests`.
    """
    over_the_wire, process = HTTPAdapter.send, os.getpid()

    def send(self, request, stream=False, timeout=None, verify=True, cert=None, proxies=None):
        body = request.body.encode() if isinstance(request.body, str) else request.body or b""
        if (
            not request.url.startswith(f"{cloud.server.url}/")
            or proxies
            or os.getpid() != process
            or cloud.world.faults.are_due
            or not isinstance(body, bytes)
            or len(body) > _MOST_BYTES
            or "Content-Encoding" in request.headers
        ):
            return over_the_wire(self, request, stream, timeout, verify, cert, proxies)
        return self.build_response(request, _reply(cloud, request, body))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPAdapter, "send", send)
        patch.setenv("NO_PROXY", "127.0.0.1")  # else requests reads the whole environment, twice a request
        yield


def _reply(cloud, sent, body):
    headers = {name.lower(): _text(value) for name, value in sent.headers.items()}
    headers.setdefault("host", cloud.server.url.partition("//")[2])
    target = sent.url[len(cloud.server.url) :].partition("#")[0]
    try:
        reply = answered(
            cloud.dispatcher, Request(verb=sent.method, target=target, headers=headers, body=body)
        ).reply
    except ApiError as error:
        reply = refusal(error)
    except Exception as error:  # the server answers its own faults so
        cloud.dispatcher.fail(error)
        raise requests.ConnectionError(str(error), request=sent) from error
    content, told = bytes(reply.body), {"Content-Type": reply.content_type, **reply.headers}
    told["Date"] = formatdate(int(cloud.clock.now()), usegmt=True)
    if reply.status not in (204, 304):
        told["Content-Length"] = str(len(content))
    return urllib3.HTTPResponse(
        body=io.BytesIO(b"" if sent.method == "HEAD" else content),
        headers=told,
        status=reply.status,
        reason=responses.get(reply.status, ""),
        request_method=sent.method,
        preload_content=False,
    )


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)
