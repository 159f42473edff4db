"""Lifecycle rules: checked when they are set, and carried out once a day, as Google does.

A day's rules are carried out when the bucket is first looked at after its midnight (UTC), by the emulator's
clock. Source: cloud.google.com/storage/docs/lifecycle, read 2026-11-22.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from gputrain_emulator.clock import parse_time
from gputrain_emulator.storage.refusals import invalid, not_carried_out
from gputrain_emulator.storage.values import Stored

DAY_S = 86400
CLASSES = (
    "STANDARD", "MULTI_REGIONAL", "REGIONAL", "DURABLE_REDUCED_AVAILABILITY", "NEARLINE", "COLDLINE",
    "ARCHIVE",
)  # fmt: skip
"""The storage classes, the coldest last."""
DELETE, SET_CLASS, ABORT = "Delete", "SetStorageClass", "AbortIncompleteMultipartUpload"
_OF_ABORT = frozenset({"age", "matchesPrefix", "matchesSuffix"})

Rule = Mapping[str, Any]


def check(rules: Iterable[Rule]) -> None:
    """400 for a rule that Google refuses, 501 for a condition that is not carried out."""
    for rule in rules:
        action, condition = rule.get("action") or {}, rule.get("condition") or {}
        kind = action.get("type")
        if kind not in (DELETE, SET_CLASS, ABORT):
            raise invalid(f"Invalid value for lifecycle.rule.action.type: '{kind}'.")
        if (kind == SET_CLASS) is not ("storageClass" in action):
            raise invalid("A lifecycle action has a storageClass if, and only if, it is SetStorageClass.")
        if kind == SET_CLASS and action["storageClass"] not in CLASSES:
            raise invalid(f"Invalid storage class: '{action['storageClass']}'.")
        if not condition:
            raise invalid("A lifecycle management rule needs at least one condition.")
        if kind == ABORT and condition.keys() - _OF_ABORT:
            raise invalid(f"{ABORT} takes no condition but age, matchesPrefix and matchesSuffix.")
        if "matchesPattern" in condition:
            raise not_carried_out("A lifecycle rule's matchesPattern")
        if any(int(condition.get(name) or 0) < 0 for name in _COUNTS):
            raise invalid("A lifecycle condition counts from 0.")


def action(rules: Iterable[Rule], stored: Stored, newer: int, now: float) -> Mapping[str, Any] | None:
    """What is to be done with an object that has `newer` newer generations; to delete goes first."""
    look = _Look(stored=stored, newer=newer, now=now)
    due = [
        rule["action"]
        for rule in rules
        if rule["action"]["type"] != ABORT and _holds(rule["condition"], look)
    ]
    deletes = [one for one in due if one["type"] == DELETE]
    changes = [one for one in due if one["type"] == SET_CLASS]
    coldest = max(changes, key=lambda one: CLASSES.index(one["storageClass"]), default=None)
    return deletes[0] if deletes else coldest


def aborts(rules: Iterable[Rule], name: str, started: float, now: float) -> bool:
    """Whether a multipart upload that began at `started` has been given up for its owner."""
    return any(
        rule["action"]["type"] == ABORT
        and _names(rule["condition"], name)
        and now >= started + rule["condition"].get("age", 0) * DAY_S
        for rule in rules
    )


@dataclass(frozen=True, kw_only=True)
class _Look:
    """One object as the rules of a day see it."""

    stored: Stored
    newer: int
    now: float

    def days_since(self, when: float | None, days: int) -> bool:
        return when is not None and self.now >= when + days * DAY_S

    @property
    def custom(self) -> float | None:
        text = self.stored.fields.get("customTime")
        return parse_time(text) if text else None


def _holds(condition: Mapping[str, Any], look: _Look) -> bool:
    return _names(condition, look.stored.name) and all(
        test(condition[name], look) for name, test in _TESTS.items() if condition.get(name) is not None
    )


def _names(condition: Mapping[str, Any], name: str) -> bool:
    prefixes, suffixes = condition.get("matchesPrefix"), condition.get("matchesSuffix")
    return (not prefixes or name.startswith(tuple(prefixes))) and (
        not suffixes or name.endswith(tuple(suffixes))
    )


def _midnight(day: str) -> float:
    return datetime.fromisoformat(day).replace(tzinfo=timezone.utc).timestamp()


def _before(when: float | None, day: str) -> bool:
    return when is not None and when < _midnight(day)


_COUNTS = (
    "age",
    "daysSinceCustomTime",
    "daysSinceNoncurrentTime",
    "numNewerVersions",
    "sizeAboveBytes",
    "sizeBelowBytes",
)
_TESTS: Mapping[str, Callable[[Any, _Look], bool]] = {
    "age": lambda days, look: look.days_since(look.stored.created, days),
    "createdBefore": lambda day, look: _before(look.stored.created, day),
    "customTimeBefore": lambda day, look: _before(look.custom, day),
    "daysSinceCustomTime": lambda days, look: look.days_since(look.custom, days),
    "daysSinceNoncurrentTime": lambda days, look: look.days_since(look.stored.deleted, days),
    "isLive": lambda live, look: live is (look.stored.deleted is None),
    "matchesStorageClass": lambda names, look: look.stored.storage_class in names,
    "noncurrentTimeBefore": lambda day, look: _before(look.stored.deleted, day),
    "numNewerVersions": lambda count, look: look.newer >= count,
    "sizeAboveBytes": lambda size, look: look.stored.content.size > int(size),
    "sizeBelowBytes": lambda size, look: look.stored.content.size < int(size),
}
