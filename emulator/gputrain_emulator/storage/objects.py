"""Objects: the state machine behind the JSON API, thread-safe, without a wire."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from gputrain_emulator.storage import settings
from gputrain_emulator.storage.buckets import ANY, NOTHING, Buckets, Stored
from gputrain_emulator.storage.conditions import Conditions
from gputrain_emulator.storage.content import Content, Folder
from gputrain_emulator.storage.refusals import invalid, not_found, required

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
            raise not_found(bucket, name)
        conditions.check(found.generation, found.metageneration, reading=True)
        return found

    def exists(self, bucket: str, name: str) -> bool:
        """Whether there is an object of that name."""
        return name in self.buckets.get(bucket).live

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
            if name not in place.live:
                insort(place.names, name)
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
        whole: bool = False,
    ) -> Stored:
        """Change what the writer may choose; None removes a field, `whole` removes all that are not named."""
        with self._lock:
            old = self.get(bucket, name, generation=generation)
            conditions.check(*_numbers(old))
            merged = fields if whole else settings.merge(old.fields, fields)
            kept = {key: value for key, value in merged.items() if value is not None}
            new = replace(
                old,
                fields=MappingProxyType(kept),
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
            place = self.buckets.get(bucket)
            del place.live[name]
            del place.names[bisect_left(place.names, name)]

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
            content = draft.finish(md5="")  # Google has no MD5 of composed objects
            return self.put(bucket, name, content, fields, conditions=conditions, components=components)

    def copy(
        self,
        source: Stored,
        bucket: str,
        name: str,
        fields: Mapping[str, Any] | None = None,
        conditions: Conditions = ANY,
    ) -> Stored:
        """A copy under another name; fields None keeps the source's."""
        kept = source.fields if fields is None else fields
        return self.put(
            bucket, name, source.content, kept, conditions=conditions, components=source.components
        )

    def move(self, source: Stored, name: str, conditions: Conditions = ANY) -> Stored:
        """The object under another name of its bucket, in one step."""
        with self._lock:
            if name == source.name:
                raise invalid("The source and the destination of a move are the same object.")
            self.get(source.bucket, source.name, generation=source.generation)
            new = self.copy(source, source.bucket, name, conditions=conditions)
            self.delete(source.bucket, source.name)
            return new

    def walk(self, bucket: str, start: str = "") -> list[Stored]:
        """The objects from `start` on, in order of their names, as they are at this moment."""
        with self._lock:
            place = self.buckets.get(bucket)
            return [place.live[name] for name in place.names[bisect_left(place.names, start) :]]


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
