"""The tables of ``data/``, each read where it is first needed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

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
