"""What lies in one bucket: live objects, noncurrent ones, and those that can still be restored."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gputrain_emulator.storage import lifecycle
from gputrain_emulator.storage.refusals import held, retained
from gputrain_emulator.storage.times import milliseconds
from gputrain_emulator.storage.values import Bucket, Stored


@dataclass(kw_only=True)
class Shelf:
    """One bucket's objects; whoever uses it holds the lock of all of them."""

    bucket: Bucket
    day: int
    """The last day whose lifecycle rules were carried out."""
    live: dict[str, Stored] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)  # sorted; Python's order of str is that of UTF-8
    _noncurrent: dict[str, list[Stored]] = field(default_factory=dict)  # the oldest first
    _buried: dict[tuple[str, int], Stored] = field(default_factory=dict)
    _next_end: float = 0.0  # no buried object ends before

    @property
    def empty(self) -> bool:
        return not self.live and not self._noncurrent

    def find(self, name: str, generation: int | None) -> Stored | None:
        """The live object, or the one of a generation that is live or noncurrent."""
        found = self.live.get(name)
        if generation is None or (found is not None and found.generation == generation):
            return found
        return next((one for one in self._noncurrent.get(name, ()) if one.generation == generation), None)

    def restorable(self, name: str, generation: int) -> Stored | None:
        return self._buried.get((name, generation))

    def put(self, stored: Stored) -> None:
        """Make an object the live one; what was is dealt with already."""
        if stored.name not in self.live:
            insort(self._names, stored.name)
        self.live[stored.name] = stored

    def swap(self, old: Stored, new: Stored) -> None:
        """Put another state of the same generation in its place."""
        if self.live.get(old.name) is old:
            self.live[old.name] = new
        else:
            past = self._noncurrent[old.name]
            past[past.index(old)] = new

    def retire(self, stored: Stored, now: float, *, for_good: bool = False) -> None:
        """Take an object away: noncurrent in a versioned bucket, buried in another or `for_good`."""
        if self.live.get(stored.name) is stored:
            del self.live[stored.name]
            del self._names[bisect_left(self._names, stored.name)]
            if self.bucket.versioned and not for_good:
                self._noncurrent.setdefault(stored.name, []).append(replace(stored, deleted=now))
                return
        else:
            past = self._noncurrent[stored.name]
            past.remove(stored)
            if not past:
                del self._noncurrent[stored.name]
        kept_s = self.bucket.soft_delete_s
        if kept_s:
            end = now + kept_s
            self._next_end = min(self._next_end, end) if self._buried else end
            self._buried[stored.name, stored.generation] = replace(stored, soft_deleted=now, hard_delete=end)

    def guard(self, stored: Stored, now: float, *, for_good: bool = False) -> None:
        """403 where a hold or the retention policy keeps an object from being deleted or replaced."""
        for key, kind in (("temporaryHold", "Temporary"), ("eventBasedHold", "Event-Based")):
            if stored.fields.get(key):
                raise held(stored.bucket, stored.name, kind)
        archived = self.bucket.versioned and stored.deleted is None and not for_good
        until = stored.retained_from + self.bucket.retention_s
        if self.bucket.retention_s and now < until and not archived:
            raise retained(stored.bucket, stored.name, milliseconds(until))

    def walk(self, start: str) -> list[Stored]:
        """The live objects from `start` on, by name."""
        return [self.live[name] for name in self._names[bisect_left(self._names, start) :]]

    def walk_all(self, start: str) -> list[Stored]:
        """The live and the noncurrent ones, by name and generation."""
        found = [*self.live.values(), *(one for past in self._noncurrent.values() for one in past)]
        return sorted((one for one in found if one.name >= start), key=_order)

    def walk_buried(self, start: str) -> list[Stored]:
        """Those that can be restored, by name and generation."""
        return sorted((one for one in self._buried.values() if one.name >= start), key=_order)

    def settle(self, now: float) -> None:
        """Let time do its work: what is buried ends, and a new day carries out the lifecycle rules."""
        if self._buried and now >= self._next_end:
            self._buried = {key: one for key, one in self._buried.items() if now < one.hard_delete}
            self._next_end = min((one.hard_delete for one in self._buried.values()), default=0.0)
        today = int(now // lifecycle.DAY_S)
        if today > self.day:
            self.day = today
            if self.bucket.rules:
                self._obey_rules(float(today * lifecycle.DAY_S))

    def _obey_rules(self, midnight: float) -> None:
        for stored in list(self._with_newer()):
            one, newer = stored
            due = lifecycle.action(self.bucket.rules, one, newer, midnight)
            if due is None:
                continue
            if due["type"] == lifecycle.SET_CLASS:
                self.swap(one, replace(one, storage_class=due["storageClass"], class_updated=midnight))
            elif not self._kept(one, midnight):
                self.retire(one, midnight)

    def _with_newer(self) -> Iterator[tuple[Stored, int]]:
        """Every object with the number of its newer generations."""
        for name in {*self.live, *self._noncurrent}:
            versions = [*self._noncurrent.get(name, ()), *([self.live[name]] if name in self.live else [])]
            for newer, one in enumerate(reversed(versions)):
                yield one, newer

    def _kept(self, stored: Stored, now: float) -> bool:
        until = stored.retained_from + self.bucket.retention_s
        holds = stored.fields.get("temporaryHold") or stored.fields.get("eventBasedHold")
        return bool(holds) or (now < until and bool(self.bucket.retention_s))


def _order(stored: Stored) -> tuple[str, int]:
    return stored.name, stored.generation
