"""Buckets: the shelves of all projects, thread-safe, without a wire."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gputrain_emulator.storage import lifecycle, names, settings
from gputrain_emulator.storage.conditions import Conditions
from gputrain_emulator.storage.refusals import bucket_not_empty, bucket_taken, invalid, no_bucket
from gputrain_emulator.storage.shelf import Shelf
from gputrain_emulator.storage.values import DEFAULT_ACL, NOTHING, Bucket

ANY = Conditions()


class Buckets:
    """Every bucket of the emulated world; `lock` covers what lies in them too.

    Generations are microseconds of the emulator's clock, made strictly increasing, as Google's look.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.lock = threading.RLock()
        self._shelves: dict[str, Shelf] = {}
        self._last = 0

    def add(
        self,
        name: str,
        *,
        project: str,
        project_number: str,
        location: str = "US",
        fields: Mapping[str, Any] = NOTHING,
        acl: str = DEFAULT_ACL,
        object_acl: str = DEFAULT_ACL,
    ) -> Bucket:
        """Create a bucket; 409 where the name is taken, by whomever."""
        names.check_bucket(name)
        with self.lock:
            now = self.now()
            placed, chosen = settings.place(location), settings.new(fields, now)
            taken = self._shelves.get(name)
            if taken is not None:
                raise bucket_taken(ours=taken.bucket.project == project)
            bucket = Bucket(
                name=name,
                project=project,
                project_number=project_number,
                location=placed,
                created=now,
                updated=now,
                generation=self.generation(),
                fields=MappingProxyType(chosen),
                acl=acl,
                object_acl=object_acl,
            )
            self._shelves[name] = Shelf(bucket=bucket, day=int(now // lifecycle.DAY_S))
            return bucket

    def get(self, name: str) -> Bucket:
        with self.lock:
            return self.shelf(name).bucket

    def of_project(self, project: str) -> tuple[Bucket, ...]:
        """A project's buckets, by name."""
        found = [bucket for bucket in self.all() if bucket.project == project]
        return tuple(sorted(found, key=lambda bucket: bucket.name))

    def all(self) -> tuple[Bucket, ...]:
        with self.lock:
            return tuple(shelf.bucket for shelf in self._shelves.values())

    def change(
        self, name: str, fields: Mapping[str, Any], conditions: Conditions = ANY, *, whole: bool = False
    ) -> Bucket:
        """Change settings; None takes one away, `whole` takes away all that are not named."""
        with self.lock:
            shelf = self.shelf(name)
            old = shelf.bucket
            conditions.check(old.generation, old.metageneration)
            now = self.now()
            chosen = settings.changed(old, fields, now, whole=whole)
            shelf.bucket = replace(
                old, fields=MappingProxyType(chosen), metageneration=old.metageneration + 1, updated=now
            )
            return shelf.bucket

    def lock_retention(self, name: str, conditions: Conditions) -> Bucket:
        """Lock the retention policy for ever."""
        with self.lock:
            shelf = self.shelf(name)
            old = shelf.bucket
            conditions.check(old.generation, old.metageneration)
            policy = old.fields.get("retentionPolicy")
            if not policy or policy.get("isLocked"):
                raise invalid(f"Bucket '{name}' has no unlocked retention policy to lock.")
            fields = {**old.fields, "retentionPolicy": {**policy, "isLocked": True}}
            shelf.bucket = replace(
                old,
                fields=MappingProxyType(fields),
                metageneration=old.metageneration + 1,
                updated=self.now(),
            )
            return shelf.bucket

    def drop(self, name: str, conditions: Conditions = ANY) -> None:
        """Delete an empty bucket, and with it what could be restored in it."""
        with self.lock:
            shelf = self.shelf(name)
            conditions.check(shelf.bucket.generation, shelf.bucket.metageneration)
            if not shelf.empty:
                raise bucket_not_empty()
            del self._shelves[name]

    def shelf(self, name: str) -> Shelf:
        """What lies in a bucket, as it is by now; the caller holds `lock`."""
        found = self._shelves.get(name)
        if found is None:
            raise no_bucket()
        found.settle(self.now())
        return found

    def generation(self) -> int:
        """A new one, for an object or a bucket."""
        self._last = max(self._last + 1, int(self.now() * 1_000_000))
        return self._last
