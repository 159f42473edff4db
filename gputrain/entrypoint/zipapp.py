"""The entrypoint, its prelude and ``gputrain.ddp`` as one small file that any Python from 3.7 on can run.

``python gputrain.pyz [options] -- train.py`` needs Python in the image, and torch where the script uses it,
but not gputrain; a script that it runs can ``from gputrain import ddp``.
"""

from __future__ import annotations

import io
import os
import zipfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Tuple

_MAIN = b"from gputrain.entrypoint.__main__ import main\n\nmain()\n"
_FOLDERS = ("entrypoint", "ddp")
_FILES = (
    "keeper/__init__.py",
    "keeper/cloud.py",
    "keeper/errand.py",
    "keeper/packages.py",
    "keeper/prelude.py",
)
_LEFT_OUT = (__name__.rpartition(".")[2] + ".py",)
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build() -> bytes:
    """The zipapp's bytes: the same for the same gputrain, whenever and from whichever folder it is built.

    The sources go in as they are, but for the words at the head of each: to take all comments out would cost
    a submit more time than it saves.

    >>> build() == build()
    True
    """
    buffer = io.BytesIO()
    try:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, content in _members():
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.create_system = 3
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, content, compresslevel=9)
    except ValueError as error:  # closing complains of an entry that a Ctrl-C left half written
        raise error.__context__ or error from None
    return buffer.getvalue()


def _members() -> Iterator[Tuple[str, bytes]]:
    yield "__main__.py", _MAIN
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = ["__init__.py", *_FILES]
    for folder in _FOLDERS:
        names = sorted(os.listdir(os.path.join(root, folder)))
        paths += [f"{folder}/{name}" for name in names if name.endswith(".py") and name not in _LEFT_OUT]
    for path in paths:
        with open(os.path.join(root, path), "rb") as file:
            yield f"gputrain/{path}", _headless(file.read())


def _headless(source: bytes) -> bytes:
    """Without the words at its head, and with its lines where they were, since tracebacks name them."""
    mark = b'"""'
    if not source.startswith(mark):
        return source
    _, words, rest = source.split(mark, 2)
    return b"\n" * words.count(b"\n") + rest
