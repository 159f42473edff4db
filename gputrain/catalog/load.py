"""The one door to the bulk tables: prices and places."""

from __future__ import annotations

import os
from functools import cache

_DATA = os.path.join(os.path.dirname(__file__), "data")


@cache
def rows(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of one table, its heading left out.

    A table is tab-separated text with one heading line and no quoting: reading it this way takes a
    fifth of the time that importing `csv` or `json` does. An empty cell means unknown.
    """
    lines = _read(f"{name}.tsv").splitlines()
    return tuple(tuple(line.split("\t")) for line in lines[1:])


def _read(file: str) -> str:
    loader = __spec__.loader if __spec__ else None
    path = os.path.join(_DATA, file)
    if loader is not None and hasattr(loader, "get_data"):
        return str(loader.get_data(path), "utf-8")  # also works from inside a zip file
    with open(path, encoding="utf-8") as stream:
        return stream.read()
