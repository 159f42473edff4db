"""The user's own copy of the dated tables: where it lies, how it is written, what is believed of it.

`gputrain.refresh` writes it and `load` lets it win over the built-in tables. It is text: a first line with
the format's number, the day and a checksum, then one row a line, tab-separated, its table named first.
Whatever is wrong with it, all of it is left aside: half a price list is worse than an old one.
"""

from __future__ import annotations

import binascii
import os

import attrs

from .sources import SOURCES

Rows = tuple[tuple[str, ...], ...]

_MAGIC = "gputrain-catalog"
FORMAT = "1"
_MOST_BYTES = 4 << 20
MOST_USD_H = 100_000
"""No machine costs as much an hour."""
_CELLS = {"source": 3, "places": 4, "prices": 6}
LISTS = ("machine-regions", "machine-zones", "gpu-regions", "gpu-zones")
"""The lists of ``places`` that a refresh replaces; the others are not in any API."""


@attrs.frozen(kw_only=True)
class UserFile:
    """What a sound file holds: rows as in the built-in tables, and the documents they name."""

    read_on: str
    sources: Rows
    places: Rows
    prices: Rows

    @property
    def lists(self) -> frozenset[str]:
        """The lists of places that it replaces."""
        return frozenset(row[0] for row in self.places)


def path() -> str:
    """``$GPUTRAIN_CATALOG``, else ``$GPUTRAIN_HOME/catalog.tsv``, else ``gputrain/catalog.tsv`` in the
    folder of the user's data (``$XDG_DATA_HOME``, else ``~/.local/share``).
    """
    named, home = os.environ.get("GPUTRAIN_CATALOG"), os.environ.get("GPUTRAIN_HOME")
    if named:
        return os.path.expanduser(named)
    if home:
        return os.path.join(os.path.expanduser(home), "catalog.tsv")
    data = os.environ.get("XDG_DATA_HOME", "")
    folder = data if os.path.isabs(data) else os.path.expanduser("~/.local/share")
    return os.path.join(folder, "gputrain", "catalog.tsv")


def written(file: UserFile) -> str:
    """The text of a file; `parsed` gives the same back.

    >>> parsed(written(UserFile(read_on="2026-11-21", sources=(), places=(), prices=()))).read_on
    '2026-11-21'
    """
    tables = {"source": file.sources, "places": file.places, "prices": file.prices}
    lines = ["\t".join((table, *row)) for table, rows in tables.items() for row in rows]
    body = "".join(f"{line}\n" for line in lines)
    return f"{_MAGIC}\t{FORMAT}\t{file.read_on}\t{_checksum(body)}\n{body}"


def read(file: str) -> UserFile | None:
    """The file at a path, or None where there is none.

    Raises:
        ValueError: it is not one that we wrote, or not as we wrote it; the text says what is wrong.
        OSError: it cannot be read.
    """
    if not os.path.isfile(file):  # neither a pipe, which would keep us waiting, nor /dev/null
        return None
    with open(file, "rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
    if not data.isascii():
        raise ValueError("it holds characters that no catalog has")
    return parsed(data.decode("ascii"))


def parsed(text: str) -> UserFile:
    """What a file's text holds.

    Raises:
        ValueError: as `read`.
    """
    head, _, body = text.partition("\n")
    magic, number, read_on, checksum = (*head.split("\t"), "", "", "", "")[:4]
    if magic != _MAGIC:
        raise ValueError("it is no catalog")
    if number != FORMAT:
        raise ValueError(f"it has format {number[:20]!r}, and this version reads {FORMAT!r}")
    if checksum != _checksum(body):
        raise ValueError("it was cut short or changed after it was written")
    if not _is_date(read_on):
        raise ValueError("its first line names no day")
    if not body.replace("\t", "").replace("\n", "").isprintable():
        raise ValueError("it holds characters that no catalog has")
    tables: dict[str, list[tuple[str, ...]]] = {table: [] for table in _CELLS}
    for line in body.split("\n")[:-1]:
        table, *row = line.split("\t")
        if len(row) != _CELLS.get(table, -1):
            raise ValueError(f"it has a row that is none: {line[:60]!r}")
        tables[table].append(tuple(row))
    sources, places, prices = (tuple(rows) for rows in tables.values())
    file = UserFile(read_on=read_on, sources=sources, places=places, prices=prices)
    _check(file)
    return file


def _check(file: UserFile) -> None:
    keys = {*SOURCES, *(key for key, _, _ in file.sources)}
    for key, _, dated in file.sources:
        if not _is_date(dated):
            raise ValueError(f"source {key!r} has no date")
    _once("source", file.sources, 1)
    _once("place", file.places, 2)
    _once("price", file.prices, 2)
    for of_list, names, source, places in file.places:
        if of_list not in LISTS or not _are_words(names.replace(",", "") + places.replace(" ", "")):
            raise ValueError(f"it has a list of places that is none: {of_list[:60]!r} of {names[:60]!r}")
        _known(source, keys)
    for what, region, *figures, source in file.prices:
        if not what or not _are_words(what + region):
            raise ValueError(f"it has a price of what cannot be: {what[:60]!r} in {region[:60]!r}")
        _known(source, keys)
        standard, spot, _ = [_usd_h(figure) for figure in figures]
        if 0 < standard < spot:
            raise ValueError(f"its spot price of {what} in {region} is above the standard price")


def _once(table: str, rows: Rows, cells: int) -> None:
    if len({row[:cells] for row in rows}) != len(rows):
        raise ValueError(f"it states a {table} twice")


def _known(source: str, keys: set[str]) -> None:
    if source not in keys:
        raise ValueError(f"it names a source that it does not hold: {source[:60]!r}")


def _usd_h(figure: str) -> float:
    """A price; 0 where the cell is empty."""
    if not figure:
        return 0.0
    if not figure.replace(".", "", 1).isdigit() or not 0 < float(figure) < MOST_USD_H:
        raise ValueError(f"it has a price that is none: {figure[:60]!r}")
    return float(figure)


def _are_words(text: str) -> bool:
    return text.replace("-", "").isalnum()


def _is_date(text: str) -> bool:
    year, _, rest = text.partition("-")
    return len(text) == 10 and text[7] == "-" and (year + rest.replace("-", "")).isdigit()


def _checksum(body: str) -> str:
    return f"{binascii.crc32(body.encode()):08x}"
