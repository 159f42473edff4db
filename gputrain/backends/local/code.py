"""Where the code of a job lies: a function's script beside the jobs, other code where it is."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gputrain.backends.base import Bundle
from gputrain.keeper import folder
from gputrain.records.folder import explained, make_private
from gputrain.staging import CodeSource

_FUNCTIONS = ".functions"


def stage(source: CodeSource, root: Path) -> Bundle:
    """The code as it lies; a function's script will lie beside the jobs, under a name of its content."""
    if not source.made_files:
        return Bundle(location=source.folder, argv=source.argv)
    name, text = next(iter(source.made_files.items()))
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = root / _FUNCTIONS / digest[:16] / name
    argv = (str(path), *source.argv[1:])
    return Bundle(location=source.folder, argv=argv, sha256=digest, content=text.encode())


def send(bundle: Bundle, root: Path) -> None:
    """Write a function's script; other code lies where it is."""
    if bundle.content:
        path = Path(bundle.argv[0])
        with explained(str(root)):
            make_private(path.parent)
            folder.write_whole(str(path), bundle.content)
