"""The run directory: JSON documents that the nodes of one attempt share, in a folder or in a bucket."""

from __future__ import annotations

import calendar
import contextlib
import json
import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Protocol

    from .cloud import Bucket

    Document = Dict[str, Any]

    class RunDirectory(Protocol):
        """Four calls. Each raises OSError where the folder or the bucket cannot be reached."""

        poll_s: float
        """How often to look for news."""

        def put(self, name: str, document: Document) -> None:
            """Write a document whole, over one that is there."""

        def create(self, name: str, document: Document) -> bool:
            """Write it unless there is one of that name; whether that was this call."""

        def get(self, name: str) -> Optional[Document]:
            """None where there is none, or anything but a JSON object."""

        def list(self, prefix: str) -> Dict[str, float]:
            """When each document below a prefix was written, by name, in seconds by the store's own clock."""


FOLDER_POLL_S, BUCKET_POLL_S = 0.2, 3.0

_GOOGLES = "https://storage.googleapis.com"


def open_directory(place: str) -> RunDirectory:
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
        os.replace(self._written(name, document), self._file(name))

    def create(self, name: str, document: Document) -> bool:
        fresh = self._written(name, document)
        try:
            os.link(fresh, self._file(name))
        except FileExistsError:
            return False
        finally:
            os.unlink(fresh)
        return True

    def get(self, name: str) -> Optional[Document]:
        try:
            with open(self._file(name), "rb") as file:
                return _document(file.read())
        except FileNotFoundError:
            return None

    def list(self, prefix: str) -> Dict[str, float]:
        folder, _, start = prefix.rpartition("/")
        found: Dict[str, float] = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self._file(folder)) as entries:
            for entry in entries:
                if entry.name.startswith(start) and entry.is_file():
                    found[f"{folder}/{entry.name}".lstrip("/")] = entry.stat().st_mtime
        return found

    def _file(self, name: str) -> str:
        return os.path.join(self._path, name)

    def _written(self, name: str, document: Document) -> str:
        folder, _, base = self._file(name).rpartition("/")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        fresh = f"{folder}/.{base}.{os.urandom(6).hex()}"
        with open(fresh, "w", encoding="utf-8") as file:
            json.dump(document, file)
        return fresh


class BucketPrefix:
    """A run directory in Cloud Storage, read and written as this machine's service account."""

    poll_s = BUCKET_POLL_S

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket, self._prefix = bucket, prefix

    def put(self, name: str, document: Document) -> None:
        self._bucket.put(self._prefix + name, json.dumps(document).encode())

    def create(self, name: str, document: Document) -> bool:
        body = json.dumps(document).encode()
        return self._bucket.put(self._prefix + name, body, if_generation="0") is not None

    def get(self, name: str) -> Optional[Document]:
        data = self._bucket.get(self._prefix + name)
        return None if data is None else _document(data)

    def list(self, prefix: str) -> Dict[str, float]:
        found = self._bucket.items(self._prefix + prefix, "name,updated")
        return {item["name"][len(self._prefix) :]: _seconds(item["updated"]) for item in found}


def _document(data: bytes) -> Optional[Document]:
    try:
        document = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _seconds(stamp: str) -> float:
    """Seconds since 1970 of an RFC 3339 stamp in UTC.

    >>> _seconds("1970-01-01T00:01:00.250Z")
    60.25
    """
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction or 0}")
