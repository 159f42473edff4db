"""The record of one job, as a value. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import attrs

from gputrain.errors import RequestError
from gputrain.planning import Outcome
from gputrain.records.spec import RecordError, read_spec
from gputrain.spec import TrainingSpec

CANCELLED = "cancelled"
"""In `Record.over`: somebody ended it, so nobody starts it again."""

WITHDRAWN = "withdrawn"
"""There too: a Ctrl-C in its submit takes it back, so nobody takes it up; whoever has its key asks anew.

In `Ask.answer`: the same of one start of a job that ran before, and goes on."""

MADE = "made"
"""In `Ask.answer`: the job was made by it, and has been started again since."""

UNSEEN = (Outcome.UNCLEAR.value, WITHDRAWN)
"""In `Ask.answer`: it may come yet where lists lag, for all that anybody has seen."""

SHORTEST_RESTART_S = 60
"""What must be left of the time limit for another start to be worth its while."""

LARGEST_BYTES = 32 << 20
"""Of what is kept: nobody writes more, so whoever reads more reads what is none of ours."""

KEPT_ASKS = 100
"""The latest that are kept of those that came to nothing, and of those that may come yet.

A job that waits for room for days asks for ever."""


def _frozen(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(given))


@attrs.frozen(kw_only=True)
class Way:
    """One step of the ladder: a machine, at a place, under a provisioning model."""

    backend: str
    place: str
    region: str
    gpu: str
    """Empty for CPU ranks."""
    gpu_count: str
    machine_type: str
    model: str
    """Empty where nothing is sold."""
    missing_nodes: int = 0
    """How many fewer than the spec asks for."""


@attrs.frozen(kw_only=True)
class Ask:
    """One time that machines were asked for."""

    way: Way
    attempt: int
    """0 for the first start of the job, one more with each restart."""
    names: tuple[str, ...]
    """What was asked for by name, known before it was asked for."""
    nonce: str
    """Drawn for this ask alone; what was made for it bears it in a label."""
    price_usd_h: float | None = None
    """Of all machines together, when they were asked for; None: unknown."""
    at: float = 0.0
    """When it was written down, in seconds since 1970 by the clock of whoever keeps the board; 0: not yet."""
    answer: str = ""
    """The word of what came of it; empty: it was accepted, is on its way, or nobody lived to write it."""
    scope: str = ""
    """How far a refusal reaches."""
    said: str = ""
    """The answer for people, in one line; empty where it came after the job was taken."""
    image: str = ""
    """What its ranks were to run in, by digest, so that another start runs what the tag meant then."""
    is_shared: bool = False
    """Another process repeated it, and told of the job it came to: whoever asked takes it back no more."""
    may_come: bool = False
    """It may come yet whatever was answered: it was sent before, and that was not answered."""

    @property
    def is_unseen(self) -> bool:
        """Whether it may come yet, for all that anybody has seen."""
        return self.may_come or self.answer in UNSEEN


@attrs.frozen(kw_only=True)
class Code:
    """What travels, by its hash: where it lies is told for people, and looked for anew."""

    location: str
    argv: tuple[str, ...]
    sha256: str = ""


@attrs.frozen(kw_only=True)
class Record:
    """What was asked for a job, and what of its time and money is used up."""

    job_id: str
    home: str
    """The board that decides whose turn it is, by its name; other buckets hold copies for their readers."""
    spec: Mapping[str, Any] = attrs.field(converter=_frozen)
    """As `TrainingSpec.to_dict` writes it."""
    code: Code
    ways: tuple[Way, ...] = ()
    """The ladder, in its order."""
    asks: tuple[Ask, ...] = ()
    """Oldest first."""
    used_s: int = 0
    """Seconds that the attempts before the present one ran."""
    used_usd: float = 0.0
    """What they cost, at their dated prices."""
    created_at: float = 0.0
    """When it was first written, by the clock of whoever keeps the board; 0: not yet."""
    waiting_since: float = 0.0
    """When the first place had no room for the present attempt, by the board's clock; 0: none has."""
    over: str = ""
    """Why nobody starts it again, in a word; empty: it may be."""
    settings: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict, converter=_frozen)
    """What each backend was set to when it was asked: to be compared, never to be used."""

    generation: int = attrs.field(default=0, eq=False)
    """Of the object; 0: not written yet."""
    written_at: float = attrs.field(default=0.0, eq=False)
    """By the clock of whoever keeps the board."""
    age_s: float = attrs.field(default=0.0, eq=False)
    """Seconds between its writing and its reading, both by that clock."""

    @property
    def last(self) -> Ask | None:
        """The latest ask."""
        return self.asks[-1] if self.asks else None

    @property
    def latest(self) -> Ask:
        """The same of a record that has one, as each has once machines were asked for."""
        assert self.asks, "a record without an ask speaks of nothing that was made"
        return self.asks[-1]

    @property
    def attempt(self) -> int:
        """Which start of the job the latest ask is for."""
        return self.asks[-1].attempt if self.asks else 0

    @property
    def now(self) -> float:
        """The moment at which it was read, by the clock of whoever keeps the board."""
        return self.written_at + self.age_s

    @property
    def is_open(self) -> bool:
        """Whether somebody asked and has not written down what was answered."""
        return self.last is not None and not self.last.answer

    @property
    def is_to_end(self) -> bool:
        """Whether all that there is of it is on its way out, or should be."""
        return self.over in (CANCELLED, WITHDRAWN)

    @property
    def is_made(self) -> bool:
        """Whether the job ran, or was to run, before the latest ask."""
        return any(one.answer == MADE for one in self.asks)

    @property
    def is_free(self) -> bool:
        """Whether it has come to nothing, so that whoever submits its key asks anew."""
        return self.over != CANCELLED and not self.is_open and not self.is_made

    @property
    def backend(self) -> str:
        """Where the job is, or waits to go on: which of those that were asked took it last."""
        taken = [one for one in self.asks if one.answer in ("", MADE)]
        taken = taken or [one for one in self.asks if not one.said]  # took it, and then had no machines
        return (taken or self.asks)[-1].way.backend if self.asks else ""

    def place_on(self, backend: str) -> str:
        """Where the job was placed first on a backend; its name there tells of that place for good."""
        asks = [one for one in self.asks if one.way.backend == backend]
        kept = [one for one in asks if one.answer in ("", MADE)] or asks
        return kept[0].way.place if kept else ""

    @property
    def training_spec(self) -> TrainingSpec:
        """The spec. Raises RecordError where it is none."""
        return read_spec(self.spec, self.job_id)

    @property
    def unread(self) -> str:
        """That its spec cannot be read, and why; empty where it can."""
        try:
            read_spec(self.spec, self.job_id)
        except RecordError as error:
            return f"{error.what}: {error.why}"
        return ""

    @property
    def restarts_left(self) -> int:
        """How often it may start again; never where its spec cannot be read."""
        return 0 if self.unread else max(0, self.training_spec.max_restarts - self.attempt)

    def asked(self, ask: Ask, **changes: Any) -> Record:
        """The record with one more ask, which is the latest."""
        told = [one for one in self.asks if one.way != ask.way or one.answer == MADE or one.is_unseen]
        others = [one for one in told if one.answer != MADE and not one.is_unseen][-KEPT_ASKS:]
        unseen = [one for one in told if one.is_unseen][-KEPT_ASKS:]
        kept = [one for one in told if one.answer == MADE or one in others or one in unseen]
        return attrs.evolve(self, asks=(*kept, ask), **changes)

    def come(self, ask: Ask) -> Record:
        """The record once an earlier ask has come to something after all: it is the latest, and open."""
        is_other = self.is_open and self.latest.nonce != ask.nonce
        asks = self.answered(Outcome.PASSED_OVER.value).asks if is_other else self.asks
        others = (one for one in asks if one.nonce != ask.nonce)
        come = attrs.evolve(ask, answer="", scope="", said="")
        return attrs.evolve(self, asks=(*others, come), over="")

    def answered(self, answer: str, scope: str = "", said: str = "") -> Record:
        """The record with what came of the latest ask."""
        *before, last = self.asks
        told = attrs.evolve(last, answer=answer, scope=scope, said=said)
        return attrs.evolve(self, asks=(*before, told))

    def shared(self) -> Record:
        """The record once the latest ask is not its asker's alone."""
        return attrs.evolve(self, asks=(*self.asks[:-1], attrs.evolve(self.latest, is_shared=True)))

    def late(self) -> Record:
        """The record once the latest ask may come yet, whatever is answered."""
        return attrs.evolve(self, asks=(*self.asks[:-1], attrs.evolve(self.latest, may_come=True)))

    def spent(self, seconds: int) -> Record:
        """The record after the present attempt ran so long."""
        price = self.last.price_usd_h if self.last is not None else None
        usd = seconds / 3600 * (price or 0.0)
        return attrs.evolve(self, used_s=self.used_s + seconds, used_usd=self.used_usd + usd)

    @property
    def history(self) -> tuple[Any, ...]:
        """What has been asked and answered, and how it ended: alike in two records of one state."""
        return (self.over, *((one.nonce, one.answer, one.is_shared) for one in self.asks))

    @property
    def left_s(self) -> int:
        """What is left of the time limit, and of the money at the price of the present place."""
        spec = self.training_spec
        left = int(spec.max_run_duration.total_seconds()) - self.used_s
        price = self.last.price_usd_h if self.last is not None else None
        if spec.max_cost is not None and price:
            left = int(min(left, (spec.max_cost - self.used_usd) / price * 3600))
        return max(0, left)

    @property
    def left(self) -> TrainingSpec | None:
        """The spec with what is left of its time and money; None where that buys no minute anywhere."""
        spec = self.training_spec
        run_s = int(spec.max_run_duration.total_seconds()) - self.used_s
        money = None if spec.max_cost is None else round(spec.max_cost - self.used_usd, 6)
        if (self.used_s and run_s < SHORTEST_RESTART_S) or run_s <= 0 or (money is not None and money <= 0):
            return None
        return spec.replace(max_run_duration=timedelta(seconds=run_s), max_cost=money)


def spec_of(spec: TrainingSpec, argv: Sequence[str]) -> dict[str, Any]:
    """The spec as a record holds it; a function is the script that was made of it."""
    if spec.function is not None:
        spec = spec.replace(function=None, script=argv[0], name=spec.name or spec.title, source_dir=None)
    return spec.to_dict()


def checked(name: str, content: bytes) -> bytes:
    """What is to be kept under a name. Raises RequestError where it is more than anybody would read again."""
    if len(content) > LARGEST_BYTES:
        raise RequestError(
            f"{name} is too large to be kept, and nothing was asked for",
            why=f"all that is to be known of it is {len(content)} bytes, of at most {LARGEST_BYTES}",
            fix="put long texts into a file beside the script, and give its path",
        )
    return content
