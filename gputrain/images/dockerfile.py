"""What a Dockerfile says of what it is made from, read as docker reads it: by instructions, not by lines.

Source: the Dockerfile reference of docker/cli and moby/buildkit, read 2026-11-27.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

_ESCAPE = re.compile(
    r"(?:[ \t]*#[ \t]*\w+[ \t]*=.*\n)*?[ \t]*#[ \t]*escape[ \t]*=[ \t]*([\\`])", re.IGNORECASE
)
_HERE = re.compile(r"(?<!\S)\d*<<(-?)([\"']?)([^\s<\"']+)\2(?!\S)")
_TAKES_HERE = re.compile(r"(?:ONBUILD\s+)?(?:RUN|COPY|ADD)\s", re.IGNORECASE)
_FROM = re.compile(r"FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_ARG = re.compile(r"ARG\s+(.*)", re.IGNORECASE | re.DOTALL)
_DEFAULT = re.compile(r"(\w+)(?:=(\"[^\"]*\"|'[^']*'|\S*))?")
_NAMED = re.compile(r"\$(?:(\w+)|\{(\w+)(?::([-+])([^}]*))?\})")


def instructions(text: str) -> Iterator[str]:
    """Each instruction in one line, without comments and here-documents.

    >>> list(instructions("FROM a \\\\\\n  AS b\\n# no\\nRUN <<END\\nFROM c\\nEND\\nCMD d"))
    ['FROM a   AS b', 'RUN <<END', 'CMD d']
    """
    told = _ESCAPE.match(text)
    goes_on = re.compile(re.escape(told[1] if told else "\\") + r"[ \t]*$")
    lines = deque(one.removesuffix("\r") for one in text.split("\n"))
    parts: list[str] = []
    while lines:
        line = lines.popleft()
        if line.lstrip().startswith("#") or not line.strip():
            continue  # docker leaves them out within an instruction, too
        parts.append(goes_on.sub("", line))
        if goes_on.search(line):
            continue
        yield (whole := "".join(parts).strip())
        for is_indented, _, word in _HERE.findall(whole) if _TAKES_HERE.match(whole) else ():
            _leave_out(lines, word, "\t" if is_indented else "")
        parts.clear()
    if parts:
        yield "".join(parts).strip()


def _leave_out(lines: deque[str], word: str, indent: str) -> None:
    """A here-document, where it ends."""
    end = next((number for number, one in enumerate(lines) if one.lstrip(indent or "\0") == word), -1)
    for _ in range(end + 1):
        lines.popleft()


def stages(text: str) -> list[str]:
    """What each stage is made from, through the stages before it; an ARG without a default says nothing.

    >>> stages("ARG V=24.04\\nFROM ubuntu:$V AS one\\nFROM gcc:14\\nFROM one")
    ['ubuntu:24.04', 'gcc:14', 'ubuntu:24.04']
    """
    known: dict[str, str] = {}
    bases: dict[str, str] = {}
    found: list[str] = []
    for one in instructions(text):
        if not found and (told := _ARG.fullmatch(one)):
            for name, value in _DEFAULT.findall(told[1]):
                known[name] = _filled(value.strip("\"'"), known)
        elif made := _FROM.match(one):
            name = _filled(made[1].strip("\"'"), known)
            found.append(bases.get(name.lower(), name))
            if made[2]:
                bases[made[2].lower()] = found[-1]
    return found


def _filled(text: str, known: dict[str, str]) -> str:
    """With what the arguments before it say, in the forms that docker knows."""

    def said(found: re.Match[str]) -> str:
        value = known.get(found[1] or found[2], "")
        if found[3] == "-":
            return value or found[4]
        return (value and found[4]) if found[3] == "+" else value

    return _NAMED.sub(said, text)
