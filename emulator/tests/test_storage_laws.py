"""Whatever is done to a bucket, in whatever order: nothing is lost before its time, nothing is told twice."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gputrain_emulator.errors import ApiError
from gputrain_emulator.storage.conditions import Conditions
from gputrain_emulator.storage.content import Folder
from gputrain_emulator.storage.listing import Wanted, Which, page
from gputrain_emulator.storage.objects import Objects

NAMES = st.sampled_from(["a", "a/1", "a/2", "b"])
SOFT_DELETE_S = 7 * 86400
KEPT_S = 3600


def refusal(call: Callable[[], object]) -> int:
    """The status that a call is refused with, 0 where it is not."""
    try:
        call()
    except ApiError as refused:
        return refused.status
    return 0


class BucketMachine(RuleBasedStateMachine):
    """One bucket beside a plain list of every generation that was ever written."""

    @initialize(versioned=st.booleans(), soft=st.booleans(), retained=st.booleans())
    def begin(self, versioned: bool, soft: bool, retained: bool) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.now = 1_800_000_000.0
        self.objects = Objects(Folder(lambda: Path(self.folder.name)), lambda: self.now)
        self.versioned, self.soft, self.retained = versioned, soft, retained
        fields = {
            "versioning": {"enabled": versioned},
            "softDeletePolicy": {"retentionDurationSeconds": str(SOFT_DELETE_S if soft else 0)},
            **({"retentionPolicy": {"retentionPeriod": str(KEPT_S)}} if retained else {}),
        }
        self.objects.buckets.add("bucket", project="p", project_number="1", fields=fields)
        self.written: dict[int, tuple[str, float]] = {}  # name and time of each generation
        self.live: dict[str, int] = {}
        self.past: set[int] = set()
        self.buried: dict[int, float] = {}  # until when each can be restored
        self.held: set[int] = set()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def kept(self, generation: int) -> bool:
        """Whether the rules keep a generation from going for good."""
        young = self.retained and self.now < self.written[generation][1] + KEPT_S
        return generation in self.held or young

    def bury(self, generation: int) -> None:
        if self.soft:
            self.buried[generation] = self.now + SOFT_DELETE_S

    def stays(self, name: str) -> bool:
        """Whether the live object of a name may be neither deleted nor replaced."""
        old = self.live.get(name)
        return old is not None and (old in self.held if self.versioned else self.kept(old))

    def made(self, name: str) -> None:
        """Write down the generation that is live now."""
        found = self.objects.get("bucket", name)
        assert all(found.generation > other for other in self.written)
        self.written[found.generation] = name, self.now
        self.live[name] = found.generation

    @rule(name=NAMES)
    def write(self, name: str) -> None:
        old, stays = self.live.get(name), self.stays(name)
        content = self.objects.folder.keep(b"x")
        assert refusal(lambda: self.objects.put("bucket", name, content)) == (403 if stays else 0)
        if not stays:
            self.made(name)
            if old is not None:
                self.past.add(old) if self.versioned else self.bury(old)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        old, stays = self.live.get(name), self.stays(name)
        expected = 404 if old is None else 403 if stays else 0
        assert refusal(lambda: self.objects.delete("bucket", name)) == expected
        if old is not None and not stays:
            del self.live[name]
            self.past.add(old) if self.versioned else self.bury(old)

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def delete_for_good(self, data: st.DataObject) -> None:
        generation = data.draw(st.sampled_from(sorted(self.written)))
        name = self.written[generation][0]
        there = generation in self.past or self.live.get(name) == generation
        expected = 404 if not there else 403 if self.kept(generation) else 0
        assert refusal(lambda: self.objects.delete("bucket", name, generation=generation)) == expected
        if expected == 0:
            self.past.discard(generation)
            if self.live.get(name) == generation:
                del self.live[name]
            self.bury(generation)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), on=st.booleans())
    def hold(self, data: st.DataObject, on: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.live)))
        self.objects.patch("bucket", name, {"temporaryHold": on})
        (self.held.add if on else self.held.discard)(self.live[name])

    @precondition(lambda self: self.buried)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        generation = data.draw(st.sampled_from(sorted(self.buried)))
        name = self.written[generation][0]
        gone, taken = self.now >= self.buried[generation], name in self.live
        free = Conditions(generation_match=0)
        expected = 404 if gone else 412 if taken else 0
        assert refusal(lambda: self.objects.restore("bucket", name, generation, conditions=free)) == expected
        if expected == 0:
            self.made(name)

    @rule(seconds=st.sampled_from([1, KEPT_S, SOFT_DELETE_S]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def lists_are_true(self) -> None:
        if not hasattr(self, "objects"):
            return
        assert self.told(Which.LIVE) == sorted(self.live.values(), key=self.place)
        assert self.told(Which.ALL) == sorted({*self.live.values(), *self.past}, key=self.place)
        if self.soft:
            there = [one for one, until in self.buried.items() if self.now < until]
            assert self.told(Which.SOFT_DELETED) == sorted(there, key=self.place)

    def place(self, generation: int) -> tuple[str, int]:
        return self.written[generation][0], generation

    def told(self, which: Which) -> list[int]:
        """Every generation of a list, in pages of two."""
        found, token = [], ""
        while True:
            part = page(self.objects, "bucket", Wanted(page_size=2, page_token=token, which=which))
            found += [one.generation for one in part.items]
            token = part.next_token
            if not token:
                return found


TestBucket = BucketMachine.TestCase
TestBucket.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
