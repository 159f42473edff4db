"""What Google serves and the emulator does not, beta and alpha versions among it: 501 by name, never 404."""

from __future__ import annotations

import functools
from urllib.parse import unquote

from gputrain_emulator import tables

Row = tuple[tuple[str, ...], str]  # the segments of a path, those that may be anything empty; and the id


def method_id(verb: str, path: str) -> str:
    """The id and version of Google's method at a path that no route of ours has, "" where it has none either.

    The table is read when it is first asked: most emulators never meet such a path.
    """
    segments = [unquote(segment) for segment in path.lstrip("/").split("/")]
    last, _, custom = segments[-1].rpartition(":")
    if last:
        segments[-1] = last
    for pattern, id_ in _table().get((verb, len(segments), custom if last else ""), ()):
        if all(got and want in ("", got) for want, got in zip(pattern, segments)):
            return id_
    return ""


@functools.cache
def _table() -> dict[tuple[str, int, str], list[Row]]:
    """Segments and id of every method, by its verb, the number of segments and what follows the colon."""
    found: dict[tuple[str, int, str], list[Row]] = {}
    for bases, id_, verb, path in tables.rows("unserved.tsv"):
        for base in bases.split():
            head, _, custom = f"{base}{path}".lstrip("/").partition(":")
            segments = tuple("" if part.startswith("{") else part for part in head.split("/"))
            row = (segments, f"{id_} of {base.strip('/')}")
            found.setdefault((verb, len(segments), custom), []).append(row)
    return found
