"""What travels: the entrypoint, the supervisor of a VM and ``gputrain.ddp`` as one small file.

``python gputrain.pyz [options] -- train.py`` needs Python in the image, and torch where the script uses it,
but not gputrain; a script that it runs can ``from gputrain import ddp``.
"""

from __future__ import annotations

import functools
import io
import os
import re
import zipfile
from collections.abc import Iterator

from .contract import ASIDE

_MAIN = b"from gputrain.entrypoint import main\n\nmain()\n"
_FOLDERS = ("runtime", "ddp")

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_EPOCH = (1980, 1, 1, 0, 0, 0)
_DOCSTRING = re.compile(rb'(?m)^( *)"""(?:[^"\\]|\\.|"(?!""))*"""$')
_COMMENT = re.compile(rb"""(?m)^ *#.*$|  # [^"'\n]*$""")
"""One that holds a quote stays: what stands before it may be a text."""


@functools.lru_cache(maxsize=None)
def build() -> bytes:
    """The zipapp's bytes: the same for the same gputrain, whenever and from whichever folder it is built.

    Stored, as the bundle that it travels in compresses all files as one: smaller than each by itself.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in _members():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def _members() -> Iterator[tuple[str, bytes]]:
    yield "__main__.py", _MAIN
    paths = ["__init__.py", "entrypoint.py"]
    for folder in _FOLDERS:
        names = sorted(os.listdir(os.path.join(_ROOT, folder)))
        paths += [f"{folder}/{name}" for name in names if name.endswith(".py") and name != "zipapp.py"]
    for path in paths:
        yield f"gputrain/{path}", _bare(_read(path))


def _bare(source: bytes) -> bytes:
    """Without docstrings and comments, each line where it was, since tracebacks name them."""
    source = _DOCSTRING.sub(lambda found: found[1] + b'""' + b"\n" * found[0].count(b"\n"), source)
    return _COMMENT.sub(b"", source)


def startup() -> str:
    """A VM's startup script, the same for every job: nothing is written into it."""
    return _read("runtime/startup.sh").decode()


def loader() -> str:
    """The program of a container's ``python3 -c``: the client to Google and the loader in one text."""
    text = (_read("runtime/cloud.py") + _read("runtime/loader.py")).decode()
    text = re.sub(r"^(?:#|from __future__ |from \.).*\n", "", text, flags=re.MULTILINE)
    return f"from __future__ import annotations\n{ASIDE.rstrip()}\n{text}"


def _read(path: str) -> bytes:
    with open(os.path.join(_ROOT, path), "rb") as file:
        return file.read()
