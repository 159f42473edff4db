"""Buckets and objects, their names, settings and preconditions, without a wire.

Sources: cloud.google.com/storage/docs/locations, /storage-classes and /buckets#naming, read 2026-11-22.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gputrain_emulator.errors import ApiError
from gputrain_emulator.faults import Refuse
from gputrain_emulator.storage.content import Content, Folder

if TYPE_CHECKING:
    from gputrain_emulator.world import Project


def invalid(message: str, *, reason: str = "invalid") -> ApiError:
    return ApiError(400, message, reason=reason)


def required(message: str = "Required") -> ApiError:
    return ApiError(400, message, reason="required")


def not_carried_out(what: str) -> ApiError:
    """501 for a rule that Google would keep and the emulator cannot."""
    message = f"{what} is not implemented by this emulator. Leave it out, or try it on Google Cloud."
    return ApiError(501, message)


def too_fast(bucket: str, name: str) -> Refuse:
    """The 429 of a name written more than once a second, for `cloud.fail("storage.objects.insert", ...)`.

    Source: docs.cloud.google.com/storage/docs/gcs429, from memory; the emulator itself sets no such limit.
    """
    message = (
        f"The object {bucket}/{name} exceeded the rate limit for object mutation operations (create, update, "
        "and delete). Please reduce your request rate. See https://cloud.google.com/storage/docs/gcs429."
    )
    return Refuse(error=ApiError(429, message, domain="usageLimits"))


_NOT_MET = "At least one of the pre-conditions you specified did not hold."


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
            raise ApiError(412, _NOT_MET)
        if self.metageneration_match not in (None, metageneration):
            raise ApiError(412, _NOT_MET)
        if generation == self.generation_not_match or (
            generation and metageneration == self.metageneration_not_match
        ):
            raise ApiError(304, "Not Modified", reason="notModified") if reading else ApiError(412, _NOT_MET)


def etag(generation: int, metageneration: int) -> str:
    """The entity tag of one state of an object or a bucket."""
    return base64.b64encode((generation * 1000 + metageneration).to_bytes(9, "big")).decode()


def number(query: Mapping[str, Any], name: str) -> int | None:
    """An int64 of a query or of a document, None where it is absent."""
    return int(query[name]) if query.get(name) is not None else None


MULTI_REGIONS = frozenset({"US", "EU", "ASIA"})
DUAL_REGIONS = frozenset({"ASIA1", "EUR4", "EUR5", "EUR7", "EUR8", "NAM4"})
_REGION = re.compile(r"[A-Z]+-[A-Z]+[0-9]+")
"""Cloud Storage is in more regions than have the machines that the emulator knows."""
CLASSES = ("STANDARD", "MULTI_REGIONAL", "REGIONAL", "DURABLE_REDUCED_AVAILABILITY", "NEARLINE", "COLDLINE",
           "ARCHIVE")  # fmt: skip

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{1,220})[a-z0-9]")
_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_MAX_LABELS = 64
_LABEL = re.compile(r"[\w-]{0,63}")
_OFF = (None, False, "", "0", "NotRestricted", "Disabled", "DEFAULT")
_NOT_CARRIED_OUT = (
    "acl", "autoclass", "billing", "cors", "customPlacementConfig", "defaultEventBasedHold",
    "defaultObjectAcl", "encryption", "hierarchicalNamespace", "ipFilter", "lifecycle", "logging",
    "retentionPolicy", "rpo", "softDeletePolicy", "versioning", "website",
)  # fmt: skip


def check_name(name: str) -> None:
    """400 for a name that no bucket may have."""
    parts = name.split(".")
    longest = 63 if len(parts) == 1 else 222
    fine = _NAME.fullmatch(name) and len(name) <= longest and all(0 < len(part) <= 63 for part in parts)
    misread = name.replace("0", "o").replace("1", "l").replace("3", "e")
    if not fine or _ADDRESS.fullmatch(name) or name.startswith("goog") or "google" in misread:
        raise invalid(f"Invalid bucket name: '{name}'")


def place(location: str) -> str:
    """A location as buckets show it; 400 for one that Cloud Storage has not."""
    found = location.upper()
    if found not in MULTI_REGIONS | DUAL_REGIONS and not _REGION.fullmatch(found):
        raise invalid("The specified location constraint is not valid.")
    return found


def location_type(location: str) -> str:
    if location in MULTI_REGIONS:
        return "multi-region"
    return "dual-region" if location in DUAL_REGIONS else "region"


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """JSON merge patch (RFC 7396): None removes, objects are merged, all else replaces."""
    merged = dict(old)
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            before = merged.get(key)
            merged[key] = merge(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def complete(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a bucket, with the defaults of those that are not named."""
    for name in _NOT_CARRIED_OUT:
        if _says_something(asked.get(name)):
            raise not_carried_out(f"A bucket's {name}")
    storage_class = asked.get("storageClass") or "STANDARD"
    if storage_class not in CLASSES:
        raise invalid(f"Invalid storage class: '{storage_class}'.")
    found: dict[str, Any] = {
        "storageClass": storage_class,
        "iamConfiguration": _access(asked.get("iamConfiguration") or {}),
        "softDeletePolicy": {"retentionDurationSeconds": "0"},  # what is deleted is gone
    }
    labels = {key: value for key, value in (asked.get("labels") or {}).items() if value is not None}
    if labels:
        _check_labels(labels)
        found["labels"] = labels
    return found


def _says_something(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_says_something(part) for key, part in value.items() if key != "effectiveTime")
    return bool(value) if isinstance(value, list) else value not in _OFF


def _access(asked: Mapping[str, Any]) -> dict[str, Any]:
    """`iamConfiguration`; uniform access goes by its old name, `bucketPolicyOnly`, too."""
    wanted = asked.get("uniformBucketLevelAccess") or asked.get("bucketPolicyOnly") or {}
    uniform = {"enabled": bool(wanted.get("enabled"))}
    prevention = asked.get("publicAccessPrevention") or "inherited"
    if prevention not in ("inherited", "enforced", "unspecified"):
        raise invalid(f"Invalid value for iamConfiguration.publicAccessPrevention: '{prevention}'.")
    return {
        "bucketPolicyOnly": uniform,
        "uniformBucketLevelAccess": uniform,
        "publicAccessPrevention": "inherited" if prevention == "unspecified" else prevention,
    }


def _check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > _MAX_LABELS:
        raise invalid(f"A bucket can have at most {_MAX_LABELS} labels.")
    for key, value in labels.items():
        if not key or any(not _LABEL.fullmatch(text) or text != text.lower() for text in (key, value)):
            raise invalid(f"Invalid label: '{key}: {value}'.")


_TAKEN_BY_US = "Your previous request to create the named bucket succeeded and you already own it."
_TAKEN = (
    "The requested bucket name is not available. The bucket namespace is shared by all users of the system. "
    "Please select a different name and try again."
)
NOTHING: Mapping[str, Any] = MappingProxyType({})
ANY = Conditions()


@dataclass(frozen=True, kw_only=True)
class Stored:
    """One object; a change makes a new one, so nobody sees half of one."""

    bucket: str
    name: str
    generation: int
    metageneration: int = 1
    content: Content
    fields: Mapping[str, Any]
    """What the writer chose: contentType, metadata, cacheControl, ..."""
    storage_class: str
    created: float
    updated: float
    components: int = 0
    """More than 0 for composed objects."""


@dataclass(kw_only=True)
class Bucket:
    """A bucket and what lies in it; read and changed under the lock of all of them."""

    name: str
    project: Project
    location: str
    created: float
    updated: float
    generation: int
    metageneration: int = 1
    fields: Mapping[str, Any]
    live: dict[str, Stored] = field(default_factory=dict)


class Buckets:
    """Every bucket of the emulated world; `lock` covers what lies in them too.

    Generations are microseconds of the emulator's clock, made strictly increasing, as Google's look.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.lock = threading.RLock()
        self._by_name: dict[str, Bucket] = {}
        self._last = 0

    def add(
        self,
        name: str,
        *,
        project: Project,
        location: str = "US",
        fields: Mapping[str, Any] = NOTHING,
    ) -> Bucket:
        """Create a bucket; 409 where the name is taken, by whomever."""
        check_name(name)
        placed, chosen = place(location), complete(fields)
        with self.lock:
            taken = self._by_name.get(name)
            if taken is not None:
                sentence = _TAKEN_BY_US if taken.project is project else _TAKEN
                raise ApiError(409, sentence, reason="conflict")
            now = self.now()
            self._by_name[name] = Bucket(
                name=name,
                project=project,
                location=placed,
                created=now,
                updated=now,
                generation=self.generation(),
                fields=chosen,
            )
            return self._by_name[name]

    def get(self, name: str) -> Bucket:
        """A bucket; 404 where there is none."""
        found = self._by_name.get(name)
        if found is None:
            raise ApiError(404, "The specified bucket does not exist.")
        return found

    def all(self) -> tuple[Bucket, ...]:
        """By name."""
        with self.lock:
            return tuple(self._by_name[name] for name in sorted(self._by_name))

    def change(self, name: str, fields: Mapping[str, Any], conditions: Conditions = ANY) -> Bucket:
        """Change settings; None takes one away."""
        with self.lock:
            bucket = self.get(name)
            conditions.check(bucket.generation, bucket.metageneration)
            merged = merge(bucket.fields, fields)
            if fields.get("labels") == {}:
                del merged["labels"]  # a patch of no labels takes all of them away
            bucket.fields = complete(merged)
            bucket.metageneration += 1
            bucket.updated = self.now()
            return bucket

    def drop(self, name: str, conditions: Conditions = ANY) -> None:
        """Delete an empty bucket."""
        with self.lock:
            bucket = self.get(name)
            conditions.check(bucket.generation, bucket.metageneration)
            if bucket.live:
                raise ApiError(409, "The bucket you tried to delete is not empty.", reason="conflict")
            del self._by_name[name]

    def generation(self) -> int:
        """A new one, for an object or a bucket."""
        self._last = max(self._last + 1, int(self.now() * 1_000_000))
        return self._last


MAX_COMPOSE = 32
MAX_NAME_BYTES = 1024


@dataclass(frozen=True, kw_only=True)
class Part:
    """One object that a compose is made of."""

    name: str
    generation: int | None = None
    conditions: Conditions = ANY


class Objects:
    """Every object of the emulated world, in its buckets. What is deleted or replaced is gone."""

    def __init__(self, folder: Folder, now: Callable[[], float]) -> None:
        self.folder = folder
        self.buckets = Buckets(now)
        self._lock = self.buckets.lock

    def get(
        self, bucket: str, name: str, *, generation: int | None = None, conditions: Conditions = ANY
    ) -> Stored:
        """The object, if it is of that generation; 404 where there is none."""
        with self._lock:
            found = self.buckets.get(bucket).live.get(name)
        if found is None or generation not in (None, found.generation):
            raise ApiError(404, f"No such object: {bucket}/{name}")
        conditions.check(found.generation, found.metageneration, reading=True)
        return found

    def check_write(self, bucket: str, name: str, conditions: Conditions) -> None:
        """Refuse a write early, as the start of a resumable upload does."""
        _check_name(name)
        with self._lock:
            conditions.check(*_numbers(self.buckets.get(bucket).live.get(name)))

    def put(
        self,
        bucket: str,
        name: str,
        content: Content,
        fields: Mapping[str, Any] = NOTHING,
        *,
        conditions: Conditions = ANY,
        components: int = 0,
    ) -> Stored:
        """Write a new generation, if the preconditions hold at this very moment."""
        with self._lock:
            self.check_write(bucket, name, conditions)
            place, now = self.buckets.get(bucket), self.buckets.now()
            kept = {key: value for key, value in fields.items() if value is not None}
            new = Stored(
                bucket=bucket,
                name=name,
                generation=self.buckets.generation(),
                content=content,
                fields=MappingProxyType(kept),
                storage_class=place.fields["storageClass"],
                created=now,
                updated=now,
                components=components,
            )
            place.live[name] = new
        return new

    def patch(
        self,
        bucket: str,
        name: str,
        fields: Mapping[str, Any],
        *,
        generation: int | None = None,
        conditions: Conditions = ANY,
    ) -> Stored:
        """Change what the writer may choose; None removes a field."""
        with self._lock:
            old = self.get(bucket, name, generation=generation)
            conditions.check(*_numbers(old))
            new = replace(
                old,
                fields=MappingProxyType(merge(old.fields, fields)),
                metageneration=old.metageneration + 1,
                updated=self.buckets.now(),
            )
            self.buckets.get(bucket).live[name] = new
            return new

    def delete(
        self, bucket: str, name: str, *, generation: int | None = None, conditions: Conditions = ANY
    ) -> None:
        """Delete the object."""
        with self._lock:
            conditions.check(*_numbers(self.get(bucket, name, generation=generation)))
            del self.buckets.get(bucket).live[name]

    def compose(
        self,
        bucket: str,
        name: str,
        parts: Sequence[Part],
        fields: Mapping[str, Any],
        conditions: Conditions = ANY,
    ) -> Stored:
        """Concatenate up to 32 objects of one bucket into one."""
        if not 1 <= len(parts) <= MAX_COMPOSE:
            count = f"The number of source components provided ({len(parts)})"
            raise invalid(f"{count} is not between 1 and {MAX_COMPOSE}")
        with self._lock:
            draft = self.folder.draft()
            components = 0
            for part in parts:
                found = self.get(bucket, part.name, generation=part.generation)
                part.conditions.check(*_numbers(found))
                draft.append_all(found.content)
                components += max(1, found.components)
            draft.is_composed = True
            return self.put(bucket, name, draft, fields, conditions=conditions, components=components)

    def walk(self, bucket: str, start: str = "") -> list[Stored]:
        """The objects from `start` on, in order of their names, as they are at this moment."""
        with self._lock:
            live = self.buckets.get(bucket).live
            return [live[name] for name in sorted(live) if name >= start]  # the order of UTF-8, too


def _check_name(name: str) -> None:
    """400 for a name that no object may have (cloud.google.com/storage/docs/objects#naming)."""
    if not name:
        raise required("Required object name is missing.")
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise invalid("The maximum object name length is 1024 characters, but got a longer name.")
    if name in (".", "..") or "\n" in name or "\r" in name or name.startswith(".well-known/acme-challenge/"):
        raise invalid("Invalid object name.")


def _numbers(stored: Stored | None) -> tuple[int, int]:
    return (0, 0) if stored is None else (stored.generation, stored.metageneration)
