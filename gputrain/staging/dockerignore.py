"""What `.dockerignore` holds back of the folder that a Dockerfile reads, as docker reads it.

Paths count from the folder's top, a later line wins, and one with ``!`` takes back what lies in a folder that
stays behind. Of ``**`` that is no part of a path by itself, docker documents nothing: it is ``*`` here.
Source: dockerignore(5) of containers-common 0.62.2, and what it says of Go's filepath.Match, read 2026-11-27.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import attrs

from gputrain.staging.ignore import pattern_of

FILE = ".dockerignore"
_NO_SIGN = re.compile(r"(\\.)|\[!")
"""``[^a]`` is any letter but one here, and ``[!a]`` one of two."""


@attrs.frozen(kw_only=True)
class DockerLine:
    """One line of it."""

    pattern: re.Pattern[str]
    takes_back: bool
    told_by: str
    """Where it stands, and its words: ``.dockerignore: *.log``."""


@attrs.frozen(kw_only=True)
class DockerIgnore:
    """The lines that hold for one Dockerfile."""

    lines: tuple[DockerLine, ...] = ()
    sent: Mapping[str, bytes] = MappingProxyType({})
    """What is to lie in the folder that is sent, so that whoever builds reads the same lines."""

    def holding(self, path: str, *, is_folder: bool = False) -> str:
        """The words of the line by which a path stays behind; empty where it travels.

        A folder travels where some line may take something back that lies in it.

        >>> lines = tuple(_read(["data", "!data/vocab.txt"], FILE))
        >>> rules = DockerIgnore(lines=lines)
        >>> rules.holding("data/run.bin"), rules.holding("data/vocab.txt"), rules.holding("train.py")
        ('.dockerignore: data', '', '')
        """
        if is_folder and any(one.takes_back for one in self.lines):
            return ""
        parts = path.split("/")
        within = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
        for line in reversed(self.lines):
            if any(line.pattern.fullmatch(one) for one in within):
                return "" if line.takes_back else line.told_by
        return ""


NOTHING = DockerIgnore()


def read(dockerfile: str, folder: str) -> DockerIgnore:
    """The lines that hold for a Dockerfile: of the file beside it that bears its name, or of the folder's.

    Raises:
        OSError: there is one, and it cannot be read.
        ValueError: a line of it is none that docker takes.
    """
    own = os.path.expanduser(dockerfile) + FILE
    named = os.path.isfile(own)
    path = own if named else os.path.join(folder, FILE)
    if not os.path.isfile(path):
        return NOTHING
    with open(path, "rb") as file:
        content = file.read()
    text = content.decode("utf-8-sig", "surrogateescape")
    lines = tuple(_read(text.split("\n"), os.path.basename(path)))
    return DockerIgnore(lines=lines, sent={FILE: content} if named else {})


def _read(lines: list[str], name: str) -> Iterator[DockerLine]:
    for raw in lines:
        line = "" if raw.startswith("#") else raw.strip()
        if not line:
            continue
        glob = line.removeprefix("!").strip()
        plain = _NO_SIGN.sub(lambda one: one[1] or r"[\!", posixpath.normpath(glob).lstrip("/"))
        text, told_by = pattern_of(plain), f"{name}: {line}".encode("utf-8", "replace").decode()
        if text is None or not glob:
            raise ValueError(f"{told_by} is no pattern")
        yield DockerLine(
            pattern=re.compile(text, re.DOTALL), takes_back=line.startswith("!"), told_by=told_by
        )
