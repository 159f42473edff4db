"""The one door to the bulk tables, prices and places, and their sources: the built-in ones, and a user's
that win over them.

`gputrain.refresh` writes the user's file. It is text: a first line with the format's number, the day and a
checksum, then one row a line, tab-separated, its table named first. Whatever is wrong with it, all of it is
left aside: half a price list is worse than an old one.
"""

from __future__ import annotations

import binascii
import logging
import os
import re
from functools import cache

import attrs

from gputrain.tables import Shown

READ_ON = "2026-11-20"
"""The day the built-in tables were read; ISO text, so dates compare as text."""


@attrs.frozen(kw_only=True)
class Source(Shown):
    """A document that facts were read in.

    ``dated`` is the day of the document itself as far as it tells; ``read_on`` the day it was read.
    """

    key: str
    what: str
    dated: str
    read_on: str = READ_ON


_DOCS = "docs.cloud.google.com"
_TRAINING = f"{_DOCS}/gemini-enterprise-agent-platform/machine-learning"
_CALCULATOR = "github.com/Cyclenerd/google-cloud-pricing-cost-calculator"

_ROWS = (
    ("gpus", f"{_DOCS}/compute/docs/gpus", "2026-04-14"),
    ("machines", f"{_DOCS}/compute/docs/accelerator-optimized-machines", "2026-04"),
    ("vertex-machines", f"{_TRAINING}/training/configure-compute", "2026, before 2026-09-15"),
    ("vertex-client", "google-cloud-aiplatform 2.7.0: AcceleratorType, Scheduling, MachineSpec", "2026-11"),
    ("compute-client", "google-cloud-compute 1.56.0 and google-cloud-quotas 0.6.3", "2026-11"),
    ("release-notes", "Compute Engine release notes of 2026-09-22", "2026-09-22"),
    ("machine-regions", f"{_CALCULATOR} machinetyperegion.csv @8bf3293", "2026-08-17"),
    ("accelerator-regions", f"{_CALCULATOR} acceleratortyperegion.csv @1c13e28", "2026-08-10"),
    ("prices", f"{_CALCULATOR} pricing.yml @fd66b26", "2026-07-30"),
    ("flex-start", f"{_TRAINING}/training/schedule-jobs-dws", "2026"),
    ("nvidia", "NVIDIA datasheets and CUDA release notes, general knowledge, not re-read", "undated"),
    ("gpuhunt", "github.com/dstackai/gpuhunt @3584151 src/gpuhunt/providers/gcp.py", "2026-08-19"),
    ("zones", "github.com/skypilot-org/skypilot-catalog catalogs/v9/gcp/vms.csv @2c3d7ea7", "mid-2026"),
    ("vertex-regions", f"{_TRAINING}/general/locations", "2026, before 2026-09-15"),
    ("live-quotas", "quota reads of live projects in seven public repositories", "2026-05 to 2026-09"),
    ("quota-ids", "Google vertex-ai-samples common_util get_quota_id", "undated"),
    ("audit", "audit of a live project, and GKE users' reports, of the newest zones", "2026-06-23"),
    ("networks", "github.com/GoogleCloudPlatform/cluster-toolkit @1047080 and gpu-recipes @2e1fd5e", "2026"),
    ("gib", "AI Hypercomputer docs: Run NCCL on Compute Engine instances", "2026-04-06"),
    ("tcpxo", "github.com/GoogleCloudPlatform/slurm-gcp @13fd92b prologs; a run of 2026-07", "2026-08-06"),
    ("tcpx", "GoogleCloudPlatform/container-engine-accelerators @992db81 gpudirect-tcpx", "2026-06-11"),
    ("fast-socket", "google/nccl-fastsocket @b3ff1c6; cluster-toolkit ml-slurm.yaml", "2023-11-15"),
    ("local-ssd", f"{_DOCS}/compute/docs/disks/add-local-ssd", "2026"),
    ("n1", "cloud.google.com/compute/docs/machine-types: 3.75, 6.5 and 0.9 GB per vCPU", "undated copy"),
    ("wheels", "github.com/pytorch/pytorch issues 90761 and 110153: architectures in each wheel", "undated"),
)

SOURCES = {key: Source(key=key, what=what, dated=dated) for key, what, dated in _ROWS}


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
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,9})?", figure) or not 0 < float(figure) < MOST_USD_H:
        raise ValueError(f"it has a price that is none: {figure[:60]!r}")
    return float(figure)


def _are_words(text: str) -> bool:
    return text.replace("-", "").isalnum()


def _is_date(text: str) -> bool:
    return re.fullmatch(r"[0-9]{4}-[01][0-9]-[0-3][0-9]", text) is not None


def _checksum(body: str) -> str:
    return f"{binascii.crc32(body.encode()):08x}"


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
    return sound(path())


def sound(file: str) -> UserFile | None:
    """What a file holds, or None where there is none; one that is not sound is left aside with a warning."""
    try:
        return read(file)
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
