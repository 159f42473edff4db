"""Files of a folder as objects below a prefix, sent and brought in blocks that no memory minds."""

from __future__ import annotations

import http.client
import json
import os
import shutil

from .cloud import Bucket, call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, NamedTuple, Tuple

    class Item(NamedTuple):
        """An object: its generation, bytes, and the node that sent it (empty: no node did)."""

        generation: str
        size: int
        node: str

else:
    from collections import namedtuple

    Item = namedtuple("Item", "generation size node")

BLOCK = 1 << 20
LONGEST = 1024
"""Bytes of an object's name."""

RESERVED = ".well-known/acme-challenge/"
EDGE = "gputrain-part"
NODE = "gputrain-node"
"""Of an object's metadata: the rank of the node that sent it."""


class Changed(Exception):
    """The file was written while it was sent, so its object was not made."""


class Unreadable(ValueError):
    """The disk does not give what a file holds: no OSError, which urllib would take for the network's."""


def blocks(file: Any, size: int) -> Iterator[bytes]:
    """So much of an open file, in blocks that no memory minds. Raises Changed, Unreadable."""
    try:
        file.seek(0)
        while size:
            block = file.read(min(BLOCK, size))
            if not block:
                raise Changed("it was made shorter while it was sent")
            size -= len(block)
            yield block
    except OSError as error:
        raise Unreadable(str(error)) from error


class Store(Bucket):
    """The objects below a prefix, sent by one node."""

    def __init__(self, storage: str, bucket: str, prefix: str, node: int) -> None:
        super().__init__(storage, bucket)
        self.prefix, self._node = prefix, str(node)

    def items(self) -> Dict[str, Item]:
        """All that lies there, by its name below the prefix."""
        try:
            return dict(map(self._read, self.told(self.prefix, "name,generation,size,metadata")))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{self._name} was listed as no bucket is: {error!r}") from None

    def _read(self, item: Any) -> Tuple[str, Item]:
        node = str((item.get("metadata") or {}).get(NODE, ""))
        return item["name"][len(self.prefix) :], Item(item["generation"], int(item.get("size", 0)), node)

    def takes(self, path: str) -> bool:
        """Whether an object may be called so. Source: "Object name requirements", Google, read 2026-11-23."""
        name = self.prefix + path
        try:
            size = len(name.encode())
        except UnicodeEncodeError:  # a file's name may be any bytes
            return False
        return size <= LONGEST and not {"\r", "\n"} & set(name) and not name.startswith(RESERVED)

    def send(self, path: str, file: Any, is_whole: Callable[[], bool]) -> str:
        """Make an object of an open file; its generation. Until all of it is there the old one stays.

        Raises Changed where ``is_whole`` says at the end that it was written meanwhile.
        """
        about = {"name": self.prefix + path, "metadata": {NODE: self._node}}
        head = (
            f"--{EDGE}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{json.dumps(about)}\r\n"
            f"--{EDGE}\r\nContent-Type: application/octet-stream\r\n\r\n"
        ).encode()
        tail = f"\r\n--{EDGE}--\r\n".encode()
        size = os.fstat(file.fileno()).st_size

        def pieces() -> Iterator[bytes]:
            yield head
            yield from blocks(file, size)
            if not is_whole():  # the request stays unfinished, which makes no object
                raise Changed
            yield tail

        url = f"{self._storage}/upload/storage/v1/b/{self._name}/o?uploadType=multipart&fields=generation"
        headers = {
            "Content-Type": f"multipart/related; boundary={EDGE}",
            "Content-Length": str(len(head) + size + len(tail)),
        }
        return str(json.loads(call("POST", url, pieces, headers=headers))["generation"])

    def remove(self, path: str, generation: str) -> None:
        """Delete an object; one that is gone is gone, and what others have written since stays."""
        url = f"{self._url(self.prefix + path)}?ifGenerationMatch={generation}"
        call("DELETE", url, accept=(404, 412))

    def bring(self, path: str, generation: str, file: Any) -> bool:
        """Write an object into an open file; False where it is gone."""

        def take(reply: Any) -> bool:
            file.seek(0)
            file.truncate()
            shutil.copyfileobj(reply, file, BLOCK)
            due = reply.headers.get("Content-Length")
            if due is not None and file.tell() != int(due):  # read in blocks, a cut reply ends without a word
                raise http.client.IncompleteRead(b"", int(due) - file.tell())
            return True

        return self.get(self.prefix + path, generation, take=take) is not None
