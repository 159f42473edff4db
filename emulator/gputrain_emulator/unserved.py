"""What Google serves and the emulator does not, beta and alpha versions among it: 501 by name, never 404."""

from __future__ import annotations

import functools
import re

from gputrain_emulator import messages


def method_id(verb: str, path: str) -> str:
    """The id of Google's method at a path that no route of ours has, "" where Google has none either.

    The table is read when it is first asked: most emulators never meet such a path.
    """
    for base, rows in _table().items():
        if path.startswith(base):
            inner = path.removeprefix(base)
            for row_verb, pattern, id_ in rows:
                if row_verb == verb and re.fullmatch(pattern, inner):
                    return f"{id_} of {base.strip('/')}"
    return ""


@functools.cache
def _table() -> dict[str, list[tuple[str, str, str]]]:
    """Base path -> verb, pattern and id of every method below it."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for bases, id_, verb, path in messages.rows("unserved.tsv"):
        pattern = re.sub(r"\\\{.*?\\\}", "[^/]+", re.escape(path))
        for base in bases.split():
            found.setdefault(base, []).append((verb, pattern, id_))
    return found
