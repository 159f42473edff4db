# ruff: noqa: S310  # addresses come from our own job document
"""The VM's own metadata, and Google's APIs under the VM's own identity."""

from __future__ import annotations

import json
import os
import time
import urllib.parse
import urllib.request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PASSING = (408, 429, 500, 502, 503, 504)
PAUSES_S = (1, 2, 4, 8, 16, 0)


def metadata(path: str) -> str:
    """A value of this VM's metadata."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}/computeMetadata/v1/instance/{path}"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return str(reply.read().decode())


def access_token() -> str:
    """A token of the VM's service account; the metadata server keeps it until it runs out."""
    return str(json.loads(metadata("service-accounts/default/token"))["access_token"])


def call(method: str, url: str, body: Any = None, accept: Any = (), size: int | None = None) -> Any:
    """What Google answers, opened for reading; None for a status in ``accept``. Raises OSError.

    ``body`` is bytes, or an open file of ``size`` bytes.
    """
    for pause_s in PAUSES_S:
        if size is not None:
            body.seek(0)
        try:
            headers = {
                "Authorization": "Bearer " + access_token(),
                "Content-Type": "application/octet-stream",
            }
            if size is not None:
                headers["Content-Length"] = str(size)
            request = urllib.request.Request(url, data=body, headers=headers, method=method)
            return urllib.request.urlopen(request, timeout=60)
        except OSError as error:
            status = getattr(error, "code", 503)
            if status in accept:
                return None
            if status not in PASSING or not pause_s:
                raise
            time.sleep(pause_s)
    return None


class Bucket:
    """Objects of one bucket."""

    def __init__(self, storage: str, name: str) -> None:
        self._storage, self._name = storage, name

    def put(self, name: str, body: Any, only_if_absent: bool = False, size: int | None = None) -> Any:
        """Write an object; its generation, or None where it was to be new and is not."""
        query = {"uploadType": "media", "name": name, "fields": "generation"}
        if only_if_absent:
            query["ifGenerationMatch"] = "0"
        url = f"{self._storage}/upload/storage/v1/b/{self._name}/o?{urllib.parse.urlencode(query)}"
        answer = call("POST", url, body, accept=(412,) if only_if_absent else (), size=size)
        return None if answer is None else json.loads(answer.read())["generation"]

    def open(self, name: str, generation: str | None = None) -> Any:
        """An object's content, opened for reading; None where there is none."""
        which = "" if generation is None else f"&generation={generation}"
        return call("GET", self._url(name) + "?alt=media" + which, accept=(404,))

    def exists(self, name: str) -> bool:
        """Whether there is an object of that name."""
        return call("GET", self._url(name) + "?fields=name", accept=(404,)) is not None

    def remove(self, name: str) -> None:
        """Delete an object; one that is gone already is gone."""
        call("DELETE", self._url(name), accept=(404,))

    def list(self, prefix: str) -> dict[str, str]:
        """Generation of each object below a prefix, by name."""
        found: dict[str, str] = {}
        token = ""
        while True:
            query = {"prefix": prefix, "fields": "items(name,generation),nextPageToken", "pageToken": token}
            url = f"{self._storage}/storage/v1/b/{self._name}/o?{urllib.parse.urlencode(query)}"
            page = json.loads(call("GET", url).read())
            found.update((item["name"], item["generation"]) for item in page.get("items", ()))
            token = page.get("nextPageToken", "")
            if not token:
                return found

    def _url(self, name: str) -> str:
        return "{}/storage/v1/b/{}/o/{}".format(self._storage, self._name, urllib.parse.quote(name, safe=""))
