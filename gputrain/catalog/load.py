"""Read the catalog's tables: those that came with the package, and a user's newer ones that replace them.

Each table is a CSV file in ``data/``. A refresh writes ``prices.csv`` and ``places.csv`` of the same form
into the user's folder; one with a row that cannot be parsed is not used at all, as half a price list is worse
than an old one.
"""

from __future__ import annotations

import csv
import logging
import os
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache
from types import MappingProxyType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import attrs

from .models import ProvisioningModel, Source

T = TypeVar("T")
Row = Mapping[str, str]

COLUMNS = {
    "prices": ("what", "region", "standard", "spot", "flex_start", "source", "dated"),
    "places": ("list", "of", "places", "source", "dated"),
}
"""Of the tables that a refresh writes."""
LISTS = ("machine-regions", "machine-zones", "gpu-regions", "gpu-zones")
"""The lists of ``places`` that a refresh replaces; the others are not in any API."""
FIGURES = {
    "standard": ProvisioningModel.STANDARD,
    "spot": ProvisioningModel.SPOT,
    "flex_start": ProvisioningModel.FLEX_START,
}
MOST_USD_H = 100_000
"""No machine costs as much an hour."""


def folder() -> str:
    """Where a user's own ``prices.csv`` and ``places.csv`` lie.

    ``$GPUTRAIN_CATALOG``, else ``$GPUTRAIN_HOME/catalog``, else ``gputrain/catalog`` in the folder of the
    user's data (``$XDG_DATA_HOME``, else ``~/.local/share``).
    """
    if named := os.environ.get("GPUTRAIN_CATALOG"):
        return os.path.expanduser(named)
    if home := os.environ.get("GPUTRAIN_HOME"):
        return os.path.join(os.path.expanduser(home), "catalog")
    data = os.environ.get("XDG_DATA_HOME", "")
    data = data if os.path.isabs(data) else os.path.expanduser("~/.local/share")
    return os.path.join(data, "gputrain", "catalog")


@cache
def rows(name: str) -> tuple[Row, ...]:
    """The rows of a table as this process first found them: the user's where there are any, else built in."""
    return merged(name, user_rows(folder(), name) if name in COLUMNS else None)


def merged(name: str, own: Iterable[Row] | None) -> tuple[Row, ...]:
    """The rows of a table with a user's: they replace the prices, and the lists of places that they hold."""
    if own is None:
        return built_in(name)
    own = tuple(own)
    lists = {row["list"] for row in own} if name == "places" else set(LISTS)
    kept = built_in(name) if name == "places" else ()
    return (*own, *(row for row in kept if row["list"] not in lists))


@cache
def built_in(name: str) -> tuple[Row, ...]:
    """The rows of a table that came with the package. An empty cell means unknown."""
    return tuple(map(MappingProxyType, csv.DictReader(data(__package__, f"data/{name}.csv").splitlines())))


def data(package: str, file: str) -> str:
    """The text of a file of the package, also from inside a zip file."""
    content = pkgutil.get_data(package, file)
    assert content is not None, file
    return content.decode()


@cache
def toml(package: str, file: str) -> Mapping[str, Any]:
    """A TOML file of the package."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    document: Mapping[str, Any] = tomllib.loads(data(package, file))
    return document


@cache
def networks() -> Mapping[str, Any]:
    return toml(__package__, "data/networks.toml")


def user_rows(where: str, name: str) -> tuple[Row, ...] | None:
    """The rows of a user's table; None where there is none, or with a warning where it cannot be parsed."""
    file = os.path.join(where, f"{name}.csv")
    if not os.path.isfile(file):
        return None
    try:
        with open(file, encoding="utf-8", newline="") as stream:
            return parsed(name, stream)
    except (OSError, ValueError, csv.Error) as error:
        logging.getLogger("gputrain").warning(
            "%s is not used, but the catalog's own table: %s. "
            "Write it again (python -m gputrain.catalog.refresh) or remove it.", file, error,
        )  # fmt: skip
        return None


def parsed(name: str, lines: Iterable[str]) -> tuple[Row, ...]:
    """The rows of a user's table. ValueError: a row cannot be parsed."""
    reader = csv.DictReader(lines, restval="", strict=True)
    if tuple(reader.fieldnames or ()) != COLUMNS[name]:
        raise ValueError(f"its columns are not {', '.join(COLUMNS[name])}")
    found: list[Row] = []
    for row in reader:
        if wrong := _fault(name, row):
            raise ValueError(f"line {reader.line_num} has {wrong}")
        found.append(row)
    return tuple(found)


def _fault(name: str, row: dict[Any, Any]) -> str:
    """What keeps a row from being used; empty where nothing does."""
    first, second, *_ = COLUMNS[name]
    if None in row or not all(row[one] for one in (first, second, "source", "dated")):
        return "too many cells, or too few"
    if name == "places":
        return "" if row["list"] in LISTS else "no list of places"
    try:
        is_price = all(0 < float(row[one]) < MOST_USD_H for one in FIGURES if row[one])
    except ValueError:
        is_price = False
    return "" if is_price else "a price that cannot be"


def cells(kind: type[Any], row: Row) -> dict[str, Any]:
    """The cells of a row as an attrs class wants them; an empty one is left to its default."""
    types = get_type_hints(kind)
    return {
        name: _value(text, types[name])
        for name, text in row.items()
        if text and name in types and not attrs.has(types[name])
    }


def _value(text: str, kind: Any) -> Any:
    """A cell of text as the type that is wanted."""
    inner = get_args(kind)
    if get_origin(kind) is tuple:
        return tuple(_value(one, inner[0]) for one in text.split("; "))
    if Fraction in inner:
        return Fraction(text) if "/" in text else int(text)
    return (inner[0] if isinstance(kind, UnionType) else kind)(text)


SOURCES = {row["key"]: Source(**row) for row in built_in("sources")}


def source(key: str) -> Source:
    """The document behind a key.

    >>> source("prices").dated
    '2026-07-30'
    """
    return SOURCES[key]


@cache
def source_of(key: str, dated: str) -> Source:
    """The document that a row of prices or places was read in, with the row's own date."""
    if known := SOURCES.get(key):
        return attrs.evolve(known, dated=dated)
    return Source(key=key, what=key, dated=dated, read_on=dated)
