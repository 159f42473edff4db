"""The tables of ``data/``, each read where it is first needed."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

_FOLDER = Path(__file__).parent / "data"


def lines(name: str) -> list[str]:
    """The lines of a table without its remarks."""
    text = (_FOLDER / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def rows(name: str) -> Iterator[list[str]]:
    """The rows of a table whose columns are parted by tabs."""
    return (line.split("\t") for line in lines(name))


def records(name: str) -> Iterator[dict[str, str]]:
    """The rows of a table whose first line names its columns."""
    return csv.DictReader(lines(name))


Row = TypeVar("Row")

_READ: Mapping[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    bool: lambda text: text == "yes",
    tuple[str, ...]: lambda text: tuple(text.split()),
    frozenset[str]: lambda text: frozenset(text.split()),
}


def typed(kind: type[Row], name: str) -> list[Row]:
    """The rows of a table whose columns are the fields of a dataclass."""
    types = get_type_hints(kind)
    return [kind(**{key: _READ[types[key]](text) for key, text in row.items()}) for row in records(name)]
