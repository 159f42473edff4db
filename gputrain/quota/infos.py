"""Cloud Quotas' documents: from a QuotaInfo to the limit in effect at one place. Pure.

Source: cloudquotas v1 protos and live reads of public repositories, read 2026-11-20.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from gputrain.gcp.forms import mappings, texts

UNLIMITED = -1


@attrs.frozen(kw_only=True)
class DimensionsRow:
    """One row of ``dimensionsInfos``: the places it speaks for, and their limit."""

    dimensions: Mapping[str, str]
    locations: frozenset[str]
    limit: float | None
    """None where the row has no value that can be read."""

    def speaks_for(self, wanted: Mapping[str, str]) -> bool:
        """Whether the row covers the place: its dimensions are the wanted ones, or some of them."""
        if any(wanted.get(name) != value for name, value in self.dimensions.items()):
            return False
        region = wanted.get("region")
        if region is None or "region" in self.dimensions or not self.locations:
            return True
        return bool(self.locations & {region, "global"})


def rows(info: Mapping[str, Any]) -> tuple[DimensionsRow, ...]:
    """The rows of a QuotaInfo as far as they can be read; what has another form than Google's is left out."""
    return tuple(_rows(info.get("dimensionsInfos")))


def limit_at(found: Sequence[DimensionsRow], wanted: Mapping[str, str]) -> float | None:
    """The limit in effect: every row is looked at, and the most specific that speaks for the place wins.

    None where no row does: unknown, not 0.

    >>> info = {"dimensionsInfos": [
    ...     {"details": {"value": "8"}, "applicableLocations": ["us-east1"]},
    ...     {"details": {}, "dimensions": {"region": "us-east1", "gpu_family": "NVIDIA_H100"}},
    ... ]}
    >>> limit_at(rows(info), {"region": "us-east1", "gpu_family": "NVIDIA_H100"})
    0.0
    """
    speaking = [row for row in found if row.speaks_for(wanted)]
    best = max(speaking, key=lambda row: len(row.dimensions), default=None)
    return None if best is None else best.limit


def number(value: Any) -> float | None:
    """A limit or usage as Google writes it, a number or its text; -1 is unlimited; None: not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    if not math.isfinite(found) or found < UNLIMITED:  # NaN is no figure, nor is a debt
        return None
    return float("inf") if found == UNLIMITED else found


def _rows(listed: Any) -> Iterator[DimensionsRow]:
    for one in mappings(listed):
        dimensions = one.get("dimensions", {})
        if not isinstance(dimensions, dict):
            continue
        locations = frozenset(texts(one.get("applicableLocations")))
        yield DimensionsRow(dimensions=dimensions, locations=locations, limit=_limit(one.get("details")))


def _limit(details: Any) -> float | None:
    """The value of a row: a zero is not printed, as everywhere in proto3's JSON (inferred, 2026-11-20)."""
    return number(details.get("value", 0)) if isinstance(details, dict) else None
