# ruff: noqa: S310  # addresses come from our own job document
"""Google's APIs under this machine's own identity: its metadata server, tokens, and objects.

The loader has nothing else before there is any code.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any

REPEATED = (408, 425, 429, 500, 502, 503, 504)
"""The answers after which a call is made again, as where none came."""

PAUSES_S = (1, 2, 4, 8, 16, 0)
LAST_S = 900.0
"""How long the end of a job waits for a bucket that does not answer: that much of the machine is cheaper than
to run and pay again what was not reported."""

TIMEOUT_S = 60


class Stay(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: the token would go along."""

    def redirect_request(self, *_: Any) -> None:
        return None


OPENER = urllib.request.build_opener(Stay)
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}), Stay)
"""For the metadata server: a proxy that stands in the environment would answer with its own identity."""


def order(word: str) -> Any:
    """A job document, as a word or in a file of that name: the kernel takes no word of over 128 KiB."""
    if word.startswith("{"):
        return json.loads(word)
    with open(word, encoding="utf-8") as file:
        return json.load(file)


class CallFailed(OSError):
    """A call that was not answered as it has to be; its text names the address without the query."""

    def __init__(self, url: str, why: object, code: int) -> None:
        super().__init__("cannot call {}: {}".format(url.partition("?")[0], why))
        self.code = code


def is_no_answer(error: object) -> bool:
    """Whether it may help to ask again later; any other fault would be the same then."""
    return getattr(error, "code", 0) in REPEATED


def metadata(path: str) -> str:
    """A value of this machine's metadata, below ``instance/``."""
    request = metadata_request(path)

    def once() -> str:
        with DIRECT.open(request, timeout=TIMEOUT_S) as reply:
            return str(reply.read().decode())

    return str(repeated(once, request.full_url, ()))


def metadata_request(path: str) -> urllib.request.Request:
    host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    url = f"http://{host}/computeMetadata/v1/instance/{path}"
    return urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})


def access_token() -> str:
    """A token of the machine's service account; the metadata server keeps it until it runs out."""
    return str(json.loads(metadata("service-accounts/default/token"))["access_token"])


def call(method: str, url: str, body: Any = None, accept: Any = ()) -> Any:
    """What Google answers, as bytes; None for a status in ``accept``. Raises CallFailed."""

    def once() -> Any:
        sent = {"Authorization": "Bearer " + access_token(), "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(url, data=body, headers=sent, method=method)
        with OPENER.open(request, timeout=TIMEOUT_S) as reply:
            return reply.read()

    return repeated(once, url, accept)


def repeated(once: Any, url: str, accept: Any) -> Any:
    """What ``once`` gives, tried again where that may help; None for a status in ``accept``."""
    for pause_s in PAUSES_S:
        try:
            return once()
        except CallFailed:
            raise
        except urllib.error.HTTPError as error:
            if error.code in accept:
                return None
            if error.code not in REPEATED or not pause_s:
                raise CallFailed(url, _reason(error), error.code) from None
        except (OSError, HTTPException) as error:  # no answer, or half of one
            if not pause_s:
                raise CallFailed(url, error, 503) from None
        time.sleep(pause_s)
    return None


def _reason(error: urllib.error.HTTPError) -> str:
    """The status, and the sentence that Google says beside it: a hold, a policy or a right that lacks."""
    try:
        return "{}: {}".format(error, json.loads(error.read(1 << 16))["error"]["message"])
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return str(error)


class Bucket:
    """Objects of one bucket."""

    def __init__(self, storage: str, name: str) -> None:
        self._storage, self._name = storage, name

    def put(self, name: str, body: Any, if_generation: str = "") -> Any:
        """Write an object over one of a generation, or over none (``"0"``); its own generation, or None where
        another one is there."""
        query = {"uploadType": "media", "name": name, "fields": "generation"}
        if if_generation:
            query["ifGenerationMatch"] = if_generation
        url = f"{self._storage}/upload/storage/v1/b/{self._name}/o?{urllib.parse.urlencode(query)}"
        answer = call("POST", url, body, accept=(412,) if if_generation else ())
        return None if answer is None else json.loads(answer)["generation"]

    def get(self, name: str) -> Any:
        """An object's content; None where there is none."""
        return call("GET", self._url(name) + "?alt=media", accept=(404,))

    def metadata_of(self, name: str) -> Any:
        """An object's metadata; None where there is no such object."""
        answer = call("GET", self._url(name) + "?fields=metadata", accept=(404,))
        return None if answer is None else json.loads(answer).get("metadata", {})

    def list(self, prefix: str) -> dict[str, str]:
        """Generation of each object below a prefix, by name."""
        return {item["name"]: item["generation"] for item in self.items(prefix, "name,generation")}

    def items(self, prefix: str, fields: str) -> Iterator[Any]:
        """What is said of each object below a prefix, as far as these fields go."""
        query = {"prefix": prefix, "fields": f"items({fields}),nextPageToken"}
        while query.get("pageToken", True):
            url = f"{self._storage}/storage/v1/b/{self._name}/o?{urllib.parse.urlencode(query)}"
            page = json.loads(call("GET", url))
            yield from page.get("items", ())
            query["pageToken"] = page.get("nextPageToken", "")

    def _url(self, name: str) -> str:
        return "{}/storage/v1/b/{}/o/{}".format(self._storage, self._name, urllib.parse.quote(name, safe=""))
