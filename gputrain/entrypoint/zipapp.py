"""The entrypoint, the supervisor of a VM and ``gputrain.ddp`` as one small file for any Python from 3.9 on.

``python gputrain.pyz [options] -- train.py`` needs Python in the image, and torch where the script uses it,
but not gputrain; a script that it runs can ``from gputrain import ddp``.
"""

from __future__ import annotations

import functools
import io
import os
import re
import zipfile
from typing import Iterator

_MAIN = b"from gputrain.entrypoint.__main__ import main\n\nmain()\n"
_FOLDERS = ("entrypoint", "ddp", "keeper")
_LEFT_OUT = ("zipapp.py", "texts.py", "folder.py")
"""What is of use on the client's machine only."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
_DOCSTRING = re.compile(rb'(?m)^( *)"""(?:[^"\\]|\\.|"(?!""))*"""$')
_COMMENT = re.compile(rb"(?m)^ *#.*$")


@functools.lru_cache(maxsize=None)
def build() -> bytes:
    """The zipapp's bytes: the same for the same gputrain, whenever and from whichever folder it is built.

    >>> build() == build()
    True
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in _members():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, compresslevel=9)
    return buffer.getvalue()


def _members() -> Iterator[tuple[str, bytes]]:
    yield "__main__.py", _MAIN
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = ["__init__.py"]
    for folder in _FOLDERS:
        names = sorted(os.listdir(os.path.join(root, folder)))
        paths += [f"{folder}/{name}" for name in names if name.endswith(".py") and name not in _LEFT_OUT]
    for path in paths:
        with open(os.path.join(root, path), "rb") as file:
            yield f"gputrain/{path}", _bare(file.read())


def _bare(source: bytes) -> bytes:
    """Without docstrings and comments, each line where it was, since tracebacks name them."""
    source = _DOCSTRING.sub(lambda found: found[1] + b'""' + b"\n" * found[0].count(b"\n"), source)
    return _COMMENT.sub(b"", source)
