"""Preconditions on generation, metageneration and entity tag."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

from gputrain_emulator.storage.refusals import condition_not_met, invalid, not_modified


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What must be true of an object, or absent object (generation 0), for a call to go ahead."""

    generation_match: int | None = None
    generation_not_match: int | None = None
    metageneration_match: int | None = None
    metageneration_not_match: int | None = None
    tags: frozenset[str] | None = None
    """Of `If-Match`; `*` is any."""
    other_tags: frozenset[str] | None = None
    """Of `If-None-Match`."""

    @classmethod
    def of(
        cls, query: Mapping[str, str], infix: str = "", headers: Mapping[str, str] | None = None
    ) -> Conditions:
        """Read `if{infix}GenerationMatch` and its kin; infix is `Source` for the source of a copy.

        `headers` are those of a call about one bucket or object, where entity tags say something.
        """
        return cls(
            generation_match=number(query, f"if{infix}GenerationMatch"),
            generation_not_match=number(query, f"if{infix}GenerationNotMatch"),
            metageneration_match=number(query, f"if{infix}MetagenerationMatch"),
            metageneration_not_match=number(query, f"if{infix}MetagenerationNotMatch"),
            tags=_tags((headers or {}).get("if-match")),
            other_tags=_tags((headers or {}).get("if-none-match")),
        )

    def check(self, generation: int, metageneration: int, *, reading: bool = False) -> None:
        """Raise 412, or 304 where a read asks only for something newer; an absent object is (0, 0)."""
        tags = {"*", etag(generation, metageneration)} if generation else set()
        if self.generation_match not in (None, generation):
            raise condition_not_met()
        if self.metageneration_match not in (None, metageneration):
            raise condition_not_met()
        if self.tags is not None and not self.tags & tags:
            raise condition_not_met()
        unchanged = (
            generation == self.generation_not_match
            or (generation and metageneration == self.metageneration_not_match)
            or (self.other_tags is not None and self.other_tags & tags)
        )
        if unchanged:
            raise not_modified() if reading else condition_not_met()


def etag(generation: int, metageneration: int) -> str:
    """The entity tag of one state of an object or a bucket."""
    return base64.b64encode((generation * 1000 + metageneration).to_bytes(9, "big")).decode()


def number(query: Mapping[str, str], name: str) -> int | None:
    """An int64 of a query or of a document, None where it is absent."""
    text = query.get(name)
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise invalid(f"Invalid value for {name}: '{text}' is not a valid integer") from None
    if not -(2**63) <= value < 2**63:
        raise invalid(f"Invalid value for {name}: '{text}' is out of range")
    return value


def _tags(header: str | None) -> frozenset[str] | None:
    if header is None:
        return None
    return frozenset(one.strip().removeprefix("W/").strip('"') for one in header.split(","))
