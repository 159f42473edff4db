"""The one door to the bulk tables, prices and places, and their sources: the built-in ones, and a user's
that win over them.
"""

from __future__ import annotations

import logging
import os
from functools import cache

from . import user_file
from .sources import SOURCES, Source
from .user_file import UserFile

_DATA = os.path.join(os.path.dirname(__file__), "data")


@cache
def rows(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of one table, its heading left out, as this process first found them.

    The user's rows stand for every list that their file holds; what it does not hold stays built in.
    """
    return merged(name, user_tables())


@cache
def user_tables() -> UserFile | None:
    """What the user's file holds, or None without one; one that is not sound is left aside with a warning."""
    return sound(user_file.path())


def sound(file: str) -> UserFile | None:
    """What a file holds, or None where there is none; one that is not sound is left aside with a warning."""
    try:
        return user_file.read(file)
    except (OSError, ValueError) as error:
        logging.getLogger("gputrain").warning(
            "the catalog's own tables are used, and %s is left aside: %s. "
            "Write it again (python -m gputrain.refresh) or remove it.", file, error,
        )  # fmt: skip
        return None


def merged(name: str, own: UserFile | None) -> tuple[tuple[str, ...], ...]:
    """The rows of one table as they are with a user's file."""
    if own is None:
        return built_in(name)
    if name == "prices":
        return own.prices
    return (*own.places, *(row for row in built_in(name) if row[0] not in own.lists))


@cache
def built_in(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of one table that came with the package, its heading left out.

    A table is tab-separated text with one heading line and no quoting: reading it this way takes a
    fifth of the time that importing `csv` or `json` does. An empty cell means unknown.
    """
    lines = _read(f"{name}.tsv").splitlines()
    return tuple(tuple(line.split("\t")) for line in lines[1:])


def source(key: str) -> Source:
    """The document behind a key, also one that only the user's refreshed tables name.

    >>> source("prices").dated
    '2026-07-30'
    """
    if key in SOURCES:
        return SOURCES[key]
    own = user_tables()
    refreshed = {name: (what, dated) for name, what, dated in own.sources} if own else {}
    what, dated = refreshed[key]
    return Source(key=key, what=what, dated=dated, read_on=dated)


def _read(file: str) -> str:
    loader = __spec__.loader if __spec__ else None
    path = os.path.join(_DATA, file)
    if loader is not None and hasattr(loader, "get_data"):
        return str(loader.get_data(path), "utf-8")  # also works from inside a zip file
    with open(path, encoding="utf-8") as stream:
        return stream.read()
