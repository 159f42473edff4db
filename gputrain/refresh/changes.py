"""What a refresh found otherwise than the tables had it: one row a difference."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import attrs

from gputrain.tables import Table


class ChangeKind(enum.Enum):
    """What happened."""

    NEW_GPU = "new GPU, not taken up"
    """Google lists a GPU that the catalog knows nothing of."""
    NEW_MACHINE = "new machine type, not taken up"
    """Its terms of sale and its network are in no API."""
    OTHER_MACHINE = "machine type differs"
    """Its GPUs, vCPUs or memory are not what the catalog says: the catalog is wrong, or a trap."""
    GONE = "gone"
    """Listed nowhere any more: a machine type, or a GPU that is attached."""
    PLACES_ADDED = "zones added"
    PLACES_REMOVED = "zones removed"
    PRICE_CHANGED = "price changed"
    PRICE_NEW = "price new"
    PRICE_GONE = "price gone"
    PRICE_REFUSED = "price refused"
    """Not believed, such as Spot above standard; the price before stays."""
    SKU_UNREAD = "SKU not understood"


@attrs.frozen(kw_only=True)
class Change:
    """One difference. ``before`` and ``now`` are as in the tables; prices in US dollars an hour."""

    kind: ChangeKind
    of: str
    """Machine type, GPU kind or SKU."""
    region: str = ""
    provisioning_model: str = ""
    before: str = ""
    now: str = ""

    @property
    def percent(self) -> float | None:
        """How much dearer, in percent of the price before; None for what is no changed price."""
        if self.kind is not ChangeKind.PRICE_CHANGED:
            return None
        return (float(self.now) / float(self.before) - 1) * 100

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {**attrs.asdict(self), "kind": self.kind.value, "percent": self.percent}


def table(changes: Iterable[Change], *, title: str, caption: str) -> Table:
    """The changes as a person reads them: what is alike stands in one row, and long lists are counted."""
    order = list(ChangeKind)
    ordered = sorted(changes, key=lambda one: (order.index(one.kind), _group(one)))
    return Table(
        title=title,
        columns=("change", "of", "region", "provisioning model", "before", "now", "%"),
        rows=tuple(_line(tuple(some)) for _, some in groupby(ordered, key=_group)),
        right=("before", "now", "%"),
        caption=caption,
    )


_COUNTED = (ChangeKind.PRICE_NEW, ChangeKind.PRICE_GONE)
_MOVED = (ChangeKind.PLACES_ADDED, ChangeKind.PLACES_REMOVED)
_MANY = 3


def _group(one: Change) -> tuple[str, ...]:
    """What changes in one row have in common; a changed price has a row of its own."""
    if one.kind in _COUNTED:
        return one.kind.value, one.of, one.provisioning_model
    if one.kind in _MOVED:
        return one.kind.value, one.before, one.now
    return one.kind.value, one.of, one.provisioning_model, one.region, one.before, one.now


def _line(rows: tuple[Change, ...]) -> tuple[str, ...]:
    first = rows[0]
    names = list(dict.fromkeys(row.of for row in rows))
    of = ", ".join(names) if len(names) < _MANY else f"{names[0]} and {len(names) - 1} more"
    region, before, now = first.region, first.before, first.now
    if first.kind in _MOVED:
        before, now = _counted(before, "places"), _counted(now, "places")
    if len(rows) > 1 and first.kind in _COUNTED:
        region = _counted(" ".join(row.region for row in rows), "regions")
        before, now = _range(row.before for row in rows), _range(row.now for row in rows)
    percent = "" if first.percent is None else f"{first.percent:+.1f}"
    return first.kind.value, of, region, first.provisioning_model, before, now, percent


def _counted(places: str, word: str) -> str:
    names = places.split()
    return ", ".join(names) if len(names) <= _MANY else f"{len(names)} {word}"


def _range(figures: Iterable[str]) -> str:
    known = sorted((figure for figure in figures if figure), key=float)
    return f"{known[0]} to {known[-1]}" if known else ""
