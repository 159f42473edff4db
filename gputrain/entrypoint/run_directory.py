"""The run directory: JSON documents that the nodes of one attempt share, in a folder or in a bucket.

Both kinds have the same four calls, each of which raises OSError where the folder or the bucket cannot be
reached, and ``poll_s``: how often to look for news.
"""

from __future__ import annotations

import calendar
import contextlib
import json
import os
import re
import time
from typing import Any, Dict

from . import host

Document = Dict[str, Any]

FOLDER_POLL_S, BUCKET_POLL_S = 0.2, 3.0

_GOOGLES = "https://storage.googleapis.com"


def open_directory(place: str) -> Folder | BucketPrefix:
    """The directory that `place` names: a folder, ``gs://BUCKET/PREFIX``, or ``http(s)://HOST/BUCKET/PREFIX``
    where another endpoint stands in for Google's.
    """
    url = re.sub(r"^gs:/", _GOOGLES, place)
    if not re.match(r"https?://", url):
        return Folder(place)
    from .cloud import Bucket  # http and ssl, which a folder needs not

    scheme, _, host, bucket, prefix = f"{url}/".split("/", 4)
    return BucketPrefix(Bucket(f"{scheme}//{host}", bucket), f"{prefix.strip('/')}/".lstrip("/"))


class Folder:
    """A run directory in a folder that all nodes see. A document appears whole or not at all."""

    poll_s = FOLDER_POLL_S

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)

    def put(self, name: str, document: Document) -> None:
        """Write a document whole, over one that is there."""
        os.makedirs(os.path.dirname(self._file(name)), mode=0o700, exist_ok=True)
        host.put(self._file(name), json.dumps(document))

    def create(self, name: str, document: Document) -> bool:
        """Write it unless there is one of that name; whether that was this call."""
        draft = os.path.join(os.path.dirname(name), f".{os.urandom(6).hex()}")
        self.put(draft, document)
        try:
            os.link(self._file(draft), self._file(name))
        except FileExistsError:
            return False
        finally:
            os.unlink(self._file(draft))
        return True

    def get(self, name: str) -> Document | None:
        """None where there is none, or anything but a JSON object."""
        try:
            with open(self._file(name), "rb") as file:
                return host.json_object(file.read())
        except FileNotFoundError:
            return None

    def list(self, prefix: str) -> dict[str, float]:
        """When each document below a prefix was written, by name, in seconds by the store's own clock."""
        folder, _, start = prefix.rpartition("/")
        found: Dict[str, float] = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self._file(folder)) as entries:
            for entry in entries:
                if entry.name.startswith(start) and entry.is_file():
                    found[f"{folder}/{entry.name}".lstrip("/")] = entry.stat().st_mtime
        return found

    def _file(self, name: str) -> str:
        return os.path.join(self._path, name)


class BucketPrefix:
    """A run directory in Cloud Storage, read and written as this machine's service account."""

    poll_s = BUCKET_POLL_S

    def __init__(self, bucket: Any, prefix: str) -> None:
        self._bucket, self._prefix = bucket, prefix

    def put(self, name: str, document: Document) -> None:
        self._bucket.put(self._prefix + name, json.dumps(document).encode())

    def create(self, name: str, document: Document) -> bool:
        body = json.dumps(document).encode()
        return self._bucket.put(self._prefix + name, body, if_generation="0") is not None

    def get(self, name: str) -> Document | None:
        data = self._bucket.get(self._prefix + name)
        return None if data is None else host.json_object(data)

    def list(self, prefix: str) -> Dict[str, float]:
        found = self._bucket.items(self._prefix + prefix, "name,updated")
        return {item["name"][len(self._prefix) :]: _seconds(item["updated"]) for item in found}


def _seconds(stamp: str) -> float:
    """Seconds since 1970 of an RFC 3339 stamp in UTC."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction or 0}")
