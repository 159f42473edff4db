"""Preconditions on generation and metageneration."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gputrain_emulator.storage.refusals import condition_not_met, not_modified


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What must be true of an object, or absent object (generation 0), for a call to go ahead."""

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, Any], infix: str = "") -> Conditions:
        """Read `if{infix}GenerationMatch` and its kin; infix is `Source` for the source of a copy."""
        return cls(
            generation_match=number(query, f"if{infix}GenerationMatch"),
            generation_not_match=number(query, f"if{infix}GenerationNotMatch"),
            metageneration_match=number(query, f"if{infix}MetagenerationMatch"),
            metageneration_not_match=number(query, f"if{infix}MetagenerationNotMatch"),
        )

    def check(self, generation: int, metageneration: int, *, reading: bool = False) -> None:
        """Raise 412, or 304 where a read asks only for something newer; an absent object is (0, 0)."""
        if self.generation_match not in (None, generation):
            raise condition_not_met()
        if self.metageneration_match not in (None, metageneration):
            raise condition_not_met()
        if generation == self.generation_not_match or (
            generation and metageneration == self.metageneration_not_match
        ):
            raise not_modified() if reading else condition_not_met()


def etag(generation: int, metageneration: int) -> str:
    """The entity tag of one state of an object or a bucket."""
    return base64.b64encode((generation * 1000 + metageneration).to_bytes(9, "big")).decode()


def number(query: Mapping[str, Any], name: str) -> int | None:
    """An int64 of a query or of a document, None where it is absent."""
    return int(query[name]) if query.get(name) is not None else None
