"""Where a bucket may be, what it may be called, and its settings: kept, or refused with 501 by name.

Sources: cloud.google.com/storage/docs/locations, /storage-classes and /buckets#naming, read 2026-11-22.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gputrain_emulator import facts
from gputrain_emulator.storage.refusals import invalid, not_carried_out

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
    if found not in MULTI_REGIONS | DUAL_REGIONS | OTHER_REGIONS and found.lower() not in facts.regions():
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
