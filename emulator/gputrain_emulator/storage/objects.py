"""Objects: the state machine behind the JSON API, thread-safe, without a wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from gputrain_emulator.storage import names, settings
from gputrain_emulator.storage.buckets import ANY, Buckets
from gputrain_emulator.storage.conditions import Conditions
from gputrain_emulator.storage.content import Content, Folder
from gputrain_emulator.storage.encryption import check_key
from gputrain_emulator.storage.refusals import invalid, not_found, required
from gputrain_emulator.storage.shelf import Shelf
from gputrain_emulator.storage.values import NOTHING, Stored, Writer

MAX_COMPOSE = 32
HOLDS = ("temporaryHold", "eventBasedHold")
NOBODY = Writer()


@dataclass(frozen=True, kw_only=True)
class Part:
    """One object that a compose is made of."""

    name: str
    generation: int | None = None
    conditions: Conditions = ANY


class Objects:
    """Every object of the emulated world, in its buckets."""

    def __init__(self, folder: Folder, now: Callable[[], float]) -> None:
        self.folder = folder
        self.buckets = Buckets(now)
        self._lock = self.buckets.lock

    def get(
        self,
        bucket: str,
        name: str,
        *,
        generation: int | None = None,
        conditions: Conditions = ANY,
        soft_deleted: bool = False,
    ) -> Stored:
        """The live object, or that of a generation; 404 where there is none."""
        with self._lock:
            shelf = self.buckets.shelf(bucket)
            look = self._buried if soft_deleted else Shelf.find
            found = look(shelf, name, generation)
        if found is None:
            raise not_found(bucket, name)
        conditions.check(found.generation, found.metageneration, reading=True)
        return found

    def exists(self, bucket: str, name: str) -> bool:
        """Whether there is a live object of that name."""
        with self._lock:
            return self.buckets.shelf(bucket).find(name, None) is not None

    def check_write(self, bucket: str, name: str, conditions: Conditions) -> None:
        """Refuse a write early, as the start of a resumable upload does; holds wait for its end."""
        names.check_object(name)
        with self._lock:
            conditions.check(*_numbers(self.buckets.shelf(bucket).find(name, None)))

    def put(
        self,
        bucket: str,
        name: str,
        content: Content,
        fields: Mapping[str, Any] = NOTHING,
        *,
        conditions: Conditions = ANY,
        components: int = 0,
        writer: Writer = NOBODY,
    ) -> Stored:
        """Write a new generation, if the preconditions hold at this very moment."""
        names.check_object(name)
        with self._lock:
            shelf = self.buckets.shelf(bucket)
            old = shelf.find(name, None)
            conditions.check(*_numbers(old))
            now = self.buckets.now()
            if old is not None:
                shelf.guard(old, now)
            kept = {key: value for key, value in fields.items() if value is not None}
            named = settings.check_class(kept.pop("storageClass", shelf.bucket.storage_class))
            if shelf.bucket.fields.get("defaultEventBasedHold"):
                kept.setdefault("eventBasedHold", True)
            new = Stored(
                bucket=bucket, name=name, generation=self.buckets.generation(), metageneration=1,
                content=content, fields=MappingProxyType(kept), storage_class=named,
                created=now, updated=now, class_updated=now, retained_from=now,
                components=components, writer=writer,
            )  # fmt: skip
            if old is not None:
                shelf.retire(old, now)
            shelf.put(new)
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
            shelf = self.buckets.shelf(bucket)
            old = self.get(bucket, name, generation=generation)
            conditions.check(*_numbers(old))
            if fields.get("storageClass", old.storage_class) != old.storage_class:
                raise invalid("The storage class of an object is changed by a rewrite.")
            now = self.buckets.now()
            chosen = {key: value for key, value in fields.items() if key != "storageClass"}
            merged = chosen if whole else settings.merge(old.fields, chosen)
            kept = {key: value for key, value in merged.items() if value is not None}
            released = old.fields.get("eventBasedHold") and not kept.get("eventBasedHold")
            new = replace(
                old,
                fields=MappingProxyType(kept),
                metageneration=old.metageneration + 1,
                updated=now,
                retained_from=now if released else old.retained_from,
            )
            shelf.swap(old, new)
            return new

    def delete(
        self, bucket: str, name: str, *, generation: int | None = None, conditions: Conditions = ANY
    ) -> None:
        """Delete the live object, or for good the generation that is named."""
        with self._lock:
            shelf = self.buckets.shelf(bucket)
            old = self.get(bucket, name, generation=generation)
            conditions.check(*_numbers(old))
            for_good = generation is not None
            shelf.guard(old, self.buckets.now(), for_good=for_good)
            shelf.retire(old, self.buckets.now(), for_good=for_good)

    def restore(
        self,
        bucket: str,
        name: str,
        generation: int,
        *,
        conditions: Conditions = ANY,
        writer: Writer = NOBODY,
    ) -> Stored:
        """A new generation made of a soft-deleted one, which stays restorable."""
        with self._lock:
            old = self._buried(self.buckets.shelf(bucket), name, generation)
            if old is None:
                raise not_found(bucket, name)
            fields = {**_copied_fields(old), "storageClass": old.storage_class}
            kept = replace(writer, key_sha256=old.writer.key_sha256)
            return self.put(
                bucket,
                name,
                old.content,
                fields,
                conditions=conditions,
                components=old.components,
                writer=kept,
            )

    def compose(
        self,
        bucket: str,
        name: str,
        parts: Sequence[Part],
        fields: Mapping[str, Any],
        conditions: Conditions = ANY,
        *,
        writer: Writer = NOBODY,
        deleting: bool = False,
    ) -> Stored:
        """Concatenate up to 32 objects of one bucket into one; `deleting` deletes them then."""
        if not 1 <= len(parts) <= MAX_COMPOSE:
            count = f"The number of source components provided ({len(parts)})"
            raise invalid(f"{count} is not between 1 and {MAX_COMPOSE}")
        with self._lock:
            shelf = self.buckets.shelf(bucket)
            draft = self.folder.draft()
            sources = []
            for part in parts:
                found = self.get(bucket, part.name, generation=part.generation)
                part.conditions.check(*_numbers(found))
                check_key(found, writer.key_sha256)
                if deleting:
                    shelf.guard(found, self.buckets.now())
                draft.append_all(found.content)
                sources.append(found)
            content = draft.finish(md5="")  # Google has no MD5 of composed objects
            components = sum(max(1, found.components) for found in sources)
            new = self.put(
                bucket, name, content, fields, conditions=conditions, components=components, writer=writer
            )
            for found in {one.generation: one for one in sources}.values() if deleting else ():
                if found.name != name:
                    shelf.retire(found, self.buckets.now())
            return new

    def copy(
        self,
        source: Stored,
        bucket: str,
        name: str,
        fields: Mapping[str, Any] | None,
        conditions: Conditions = ANY,
        *,
        writer: Writer = NOBODY,
    ) -> Stored:
        """A copy under another name; fields None keeps the source's, without its holds."""
        kept = _copied_fields(source) if fields is None else fields
        return self.put(
            bucket,
            name,
            source.content,
            kept,
            conditions=conditions,
            components=source.components,
            writer=writer,
        )

    def move(
        self, source: Stored, name: str, conditions: Conditions = ANY, *, writer: Writer = NOBODY
    ) -> Stored:
        """The live object under another name of its bucket, in one step; a hold keeps it where it is."""
        with self._lock:
            shelf = self.buckets.shelf(source.bucket)
            if shelf.find(source.name, None) is not source:
                raise not_found(source.bucket, source.name)
            if name == source.name:
                raise invalid("The source and the destination of a move are the same object.")
            now = self.buckets.now()
            shelf.guard(source, now)
            fields = {**_copied_fields(source), "storageClass": source.storage_class}
            kept = replace(writer, key_sha256=source.writer.key_sha256)
            new = self.copy(source, source.bucket, name, fields, conditions, writer=kept)
            shelf.retire(source, now)
            return new

    def walk(self, bucket: str, start: str = "") -> list[Stored]:
        """The live objects from `start` on, in order of their names, as they are at this moment."""
        with self._lock:
            return self.buckets.shelf(bucket).walk(start)

    def walk_all(self, bucket: str, start: str = "") -> list[Stored]:
        """Like `walk`, with every noncurrent generation."""
        with self._lock:
            return self.buckets.shelf(bucket).walk_all(start)

    def walk_soft_deleted(self, bucket: str, start: str = "") -> list[Stored]:
        """What can be restored; 400 in a bucket that keeps nothing of the kind."""
        with self._lock:
            shelf = self.buckets.shelf(bucket)
            _need_policy(shelf)
            return shelf.walk_buried(start)

    def _buried(self, shelf: Shelf, name: str, generation: int | None) -> Stored | None:
        _need_policy(shelf)
        if generation is None:
            raise required("Required parameter: generation")
        return shelf.restorable(name, generation)


def _need_policy(shelf: Shelf) -> None:
    if not shelf.bucket.soft_delete_s:
        raise invalid(f"Soft delete policy is not enabled for bucket '{shelf.bucket.name}'.")


def _copied_fields(source: Stored) -> dict[str, Any]:
    return {key: value for key, value in source.fields.items() if key not in HOLDS}


def _numbers(stored: Stored | None) -> tuple[int, int]:
    return (0, 0) if stored is None else (stored.generation, stored.metageneration)
