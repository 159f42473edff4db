"""A bucket and an object, each a frozen value: a change makes a new one, so nobody sees half of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gputrain_emulator.storage.content import Content

NOTHING: Mapping[str, Any] = MappingProxyType({})

DEFAULT_ACL = "projectPrivate"


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Who writes an object, and what they ask of it beside its bytes and its fields."""

    email: str = ""
    acl: str = ""
    """Name of the predefined access control list; "" is the bucket's default."""
    key_sha256: str = ""
    """Of the customer-supplied key that it is encrypted with, "" without one."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One generation of one object."""

    bucket: str
    name: str
    generation: int
    metageneration: int
    content: Content
    fields: Mapping[str, Any]  # what the writer chose: contentType, metadata, cacheControl, ...
    created: float
    updated: float
    components: int = 0  # more than 0 for composed objects
    writer: Writer = Writer()
    storage_class: str = "STANDARD"
    class_updated: float
    retained_from: float
    """When its retention period began: when it was made, or let go of an event-based hold."""
    deleted: float | None = None
    """Since when it is no longer the live one."""
    soft_deleted: float | None = None
    hard_delete: float = 0.0
    """When a soft-deleted object is gone for good."""


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A bucket; `project_number` tells whose it is."""

    name: str
    project: str
    project_number: str
    location: str
    created: float
    updated: float
    generation: int
    metageneration: int = 1
    fields: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    acl: str = DEFAULT_ACL
    object_acl: str = DEFAULT_ACL
    """Names of predefined access control lists: its own, and that of objects made without one."""

    @property
    def storage_class(self) -> str:
        return str(self.fields["storageClass"])

    @property
    def versioned(self) -> bool:
        return bool((self.fields.get("versioning") or {}).get("enabled"))

    @property
    def uniform_access(self) -> bool:
        """Whether access is a matter of the bucket alone, so that nothing in it has a list of its own."""
        return bool(self.fields["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"])

    @property
    def soft_delete_s(self) -> int:
        """How long what is deleted can be restored; 0 for not at all."""
        return int(self.fields["softDeletePolicy"]["retentionDurationSeconds"])

    @property
    def retention_s(self) -> int:
        """How long objects may not be deleted or replaced."""
        return int((self.fields.get("retentionPolicy") or {}).get("retentionPeriod", 0))

    @property
    def rules(self) -> list[Mapping[str, Any]]:
        """Its lifecycle rules."""
        return list((self.fields.get("lifecycle") or {}).get("rule") or ())
