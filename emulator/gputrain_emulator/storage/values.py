"""A bucket and an object, each a frozen value: a change makes a new one, so nobody sees half of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from gputrain_emulator.storage.content import Content

NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One object, one generation."""

    bucket: str
    name: str
    generation: int
    metageneration: int
    content: Content
    fields: Mapping[str, object]  # what the writer chose: contentType, metadata, cacheControl, ...
    created: float
    updated: float
    components: int = 0  # more than 0 for composed objects


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A bucket; `project_number` tells whose it is."""

    name: str
    project: str
    project_number: str
    location: str
    created: float
    generation: int
    metageneration: int = 1
    fields: Mapping[str, object] = field(default_factory=lambda: NOTHING)
