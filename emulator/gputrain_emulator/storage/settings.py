"""Where a bucket may be, and its settings: read, completed as Google does, or refused.

A setting is carried out or refused with 501 by its name; nothing is shown that does nothing. Sources:
cloud.google.com/storage/docs/locations, /storage-classes, /soft-delete, /bucket-lock and
/uniform-bucket-level-access, read 2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.clock import parse_time
from gputrain_emulator.storage import lifecycle
from gputrain_emulator.storage.refusals import invalid, not_carried_out, policy_locked
from gputrain_emulator.storage.times import milliseconds
from gputrain_emulator.storage.values import Bucket

MULTI_REGIONS = frozenset({"US", "EU", "ASIA"})
DUAL_REGIONS = frozenset({"ASIA1", "EUR4", "EUR5", "EUR7", "EUR8", "NAM4"})
OTHER_REGIONS = frozenset(
    {
        "AFRICA-SOUTH1", "ASIA-NORTHEAST2", "ASIA-SOUTHEAST3", "AUSTRALIA-SOUTHEAST2", "EUROPE-NORTH2",
        "EUROPE-SOUTHWEST1", "EUROPE-WEST10", "EUROPE-WEST12", "EUROPE-WEST8", "ME-CENTRAL1",
        "NORTHAMERICA-SOUTH1", "SOUTHAMERICA-WEST1",
    }
)  # fmt: skip
"""Regions with Cloud Storage and none of the machines that the emulator knows."""
CLASSES = lifecycle.CLASSES

SOFT_DELETE_S = 7 * 86400
MAX_RETENTION_S = 3_155_760_000
_LOCK_S = 90 * 86400  # for so long may uniform access be switched off again
_SOFT_DELETE_RANGE = (SOFT_DELETE_S, 90 * 86400)
_MAX_LABELS = 64

_LABEL = re.compile(r"[\w-]{0,63}")
_OFF = (None, False, "", "NotRestricted", "Disabled", "DEFAULT")
_NOT_CARRIED_OUT = (
    "autoclass", "billing", "cors", "customPlacementConfig", "encryption", "hierarchicalNamespace",
    "ipFilter", "logging", "rpo", "website",
)  # fmt: skip


def place(location: str) -> str:
    """A location as buckets show it; 400 for one that Cloud Storage has not."""
    found = location.upper()
    if found not in MULTI_REGIONS | DUAL_REGIONS | OTHER_REGIONS and found.lower() not in facts.regions():
        raise invalid("The specified location constraint is not valid.")
    return found


def location_type(location: str) -> str:
    if location in MULTI_REGIONS:
        return "multi-region"
    return "dual-region" if location in DUAL_REGIONS else "region"


def check_class(name: object) -> str:
    """A storage class; 400 for one that there is not."""
    if not isinstance(name, str) or name not in CLASSES:
        raise invalid(f"Invalid storage class: '{name}'.")
    return name


def new(asked: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The settings of a new bucket, with Google's defaults for those that are not named."""
    return _complete({}, {key: value for key, value in asked.items() if value is not None}, "", now)


def changed(bucket: Bucket, asked: Mapping[str, Any], now: float, *, whole: bool) -> dict[str, Any]:
    """The settings after a patch, where None takes one away; `whole` takes away all that are not named."""
    merged = dict(asked) if whole else merge(bucket.fields, asked)
    if asked.get("labels") == {}:
        del merged["labels"]  # a patch of no labels takes all of them away
    return _complete(bucket.fields, merged, bucket.name, now)


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


def _complete(old: Mapping[str, Any], asked: Mapping[str, Any], bucket: str, now: float) -> dict[str, Any]:
    for name in _NOT_CARRIED_OUT:
        if _says_something(asked.get(name)):
            raise not_carried_out(f"A bucket's {name}")
    found: dict[str, Any] = {
        "storageClass": check_class(asked.get("storageClass") or "STANDARD"),
        "iamConfiguration": _access(
            old.get("iamConfiguration") or {}, asked.get("iamConfiguration") or {}, now
        ),
        "softDeletePolicy": _soft_delete(
            old.get("softDeletePolicy") or {}, asked.get("softDeletePolicy") or {}, now
        ),
    }
    policy = _retention(bucket, old.get("retentionPolicy") or {}, asked.get("retentionPolicy") or {}, now)
    if policy:
        found["retentionPolicy"] = policy
    rules = (asked.get("lifecycle") or {}).get("rule")
    if rules:
        lifecycle.check(rules)
        found["lifecycle"] = {"rule": rules}
    labels = {key: value for key, value in (asked.get("labels") or {}).items() if value is not None}
    if labels:
        _check_labels(labels)
        found["labels"] = labels
    if (asked.get("versioning") or {}).get("enabled") is not None:
        found["versioning"] = {"enabled": asked["versioning"]["enabled"]}
    if asked.get("defaultEventBasedHold") is not None:
        found["defaultEventBasedHold"] = asked["defaultEventBasedHold"]
    return found


def _says_something(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_says_something(part) for part in value.values())
    if isinstance(value, list):
        return bool(value)
    return value not in _OFF


def _access(old: Mapping[str, Any], asked: Mapping[str, Any], now: float) -> dict[str, Any]:
    """`iamConfiguration`; uniform access goes by its old name, `bucketPolicyOnly`, too."""
    before = dict(old.get("uniformBucketLevelAccess") or {"enabled": False})
    wanted = asked.get("uniformBucketLevelAccess") or {}
    if wanted.get("enabled", before["enabled"]) == before["enabled"]:
        wanted = asked.get("bucketPolicyOnly") or {}
    enabled = bool(wanted.get("enabled", before["enabled"]))
    if enabled and not before["enabled"]:
        before = {"enabled": True, "lockedTime": milliseconds(now + _LOCK_S)}
    elif before["enabled"] and not enabled:
        if now > parse_time(before["lockedTime"]):
            raise invalid("Uniform bucket-level access is locked and cannot be disabled.")
        before = {"enabled": False}
    prevention = asked.get("publicAccessPrevention") or "inherited"
    if prevention not in ("inherited", "enforced", "unspecified"):
        raise invalid(f"Invalid value for iamConfiguration.publicAccessPrevention: '{prevention}'.")
    return {
        "bucketPolicyOnly": before,
        "uniformBucketLevelAccess": before,
        "publicAccessPrevention": "inherited" if prevention == "unspecified" else prevention,
    }


def _soft_delete(old: Mapping[str, Any], asked: Mapping[str, Any], now: float) -> dict[str, Any]:
    if _says_something(asked.get("hardDeletePause")):
        raise not_carried_out("A bucket's softDeletePolicy.hardDeletePause")
    seconds = int(_given(asked.get("retentionDurationSeconds"), SOFT_DELETE_S))
    if seconds and not _SOFT_DELETE_RANGE[0] <= seconds <= _SOFT_DELETE_RANGE[1]:
        raise invalid(
            "Soft delete retention duration must be 0, or between 604800 and 7776000 seconds (7 and 90 days)."
        )
    if old and int(old["retentionDurationSeconds"]) == seconds:
        return dict(old)
    return {"retentionDurationSeconds": str(seconds), "effectiveTime": milliseconds(now)}


def _given(value: Any, default: Any) -> Any:
    """A field as it was sent; one that is null is as one that was not."""
    return default if value is None else value


def _retention(
    bucket: str, old: Mapping[str, Any], asked: Mapping[str, Any], now: float
) -> dict[str, Any] | None:
    before = int(old.get("retentionPeriod", 0))
    if not asked:
        if old.get("isLocked"):
            raise policy_locked(bucket, "removed")
        return None
    seconds = int(asked.get("retentionPeriod") or 0)
    if not 1 <= seconds <= MAX_RETENTION_S:
        raise invalid(f"Invalid value for retentionPolicy.retentionPeriod: '{seconds}'.")
    if old.get("isLocked") and seconds < before:
        raise policy_locked(bucket, "reduced")
    if seconds == before:
        return dict(old)
    effective = {"retentionPeriod": str(seconds), "effectiveTime": milliseconds(now)}
    return {**effective, **({"isLocked": True} if old.get("isLocked") else {})}


def _check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > _MAX_LABELS:
        raise invalid(f"A bucket can have at most {_MAX_LABELS} labels.")
    for key, value in labels.items():
        if not key or any(not _LABEL.fullmatch(text) or text != text.lower() for text in (key, value)):
            raise invalid(f"Invalid label: '{key}: {value}'.")
