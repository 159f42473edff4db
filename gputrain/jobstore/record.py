"""The record of one job, as a value, and the spec in it. Its JSON is described in docs/design/record.md."""

from __future__ import annotations

import enum
import json
import re
import secrets
import string
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import PurePath
from typing import Any

import attrs
from attrs.validators import and_, deep_iterable, deep_mapping, ge, in_, instance_of, lt, matches_re, optional

from gputrain import causes
from gputrain.errors import ProviderError, RequestError, SpecError
from gputrain.fields import short_repr
from gputrain.lifecycle import Failure
from gputrain.spec import TrainingSpec

SCHEMA = 1
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")
"""Names of jobs, and of what is made for them: what Google's grammars allow, and no more."""
PLACE = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,1024}")
"""Of backends, places and regions: each backend has a grammar of its own."""
KEPT_REFUSALS = 100
"""A job may wait for room for days: of the attempts that never ran, the latest are kept."""


class RecordError(ProviderError):
    """A document in the place of a record is none, or another release wrote it."""

    kind = "no_record"


class Wanted(str, enum.Enum):
    """What is wanted of a job."""

    RUN = "run"
    CANCEL = "cancel"


class Launch(str, enum.Enum):
    """How far an attempt has come, as its launcher wrote down."""

    LAUNCHING = "launching"
    """Requested, or about to be; the answer is not written yet."""
    LAUNCHED = "launched"


def draw_id() -> str:
    """A new attempt's id: 8 of a-z0-9, and a letter first, since names of machines begin with one."""
    alphabet = string.ascii_lowercase + string.digits
    return secrets.choice(string.ascii_lowercase) + "".join([secrets.choice(alphabet) for _ in range(7)])


_TEXT = instance_of(str)
_COUNT: Any = and_(instance_of(int), ge(0), lt(1 << 40))
_NUMBER: Any = and_(instance_of((int, float)), ge(0), lt(1e10))
_A_NAME: Any = and_(_TEXT, matches_re(NAME))
_A_PLACE: Any = and_(_TEXT, matches_re(PLACE))
_AN_ID: Any = and_(_TEXT, matches_re(r"[a-z][a-z0-9]{7}"))


@attrs.frozen(kw_only=True)
class Option:
    """A row of the plan, as it is kept: a machine, at a place, under a provisioning model."""

    backend: str = attrs.field(validator=_A_PLACE)
    place: str = attrs.field(validator=_A_PLACE)
    region: str = attrs.field(validator=_A_PLACE)
    gpu: str = attrs.field(default="", validator=_TEXT)
    """Empty for CPU ranks."""
    gpu_count: str = attrs.field(default="", validator=_TEXT)
    machine_type: str = attrs.field(default="", validator=_TEXT)
    model: str = attrs.field(default="", validator=_TEXT)
    """The provisioning model; empty where nothing is sold."""
    missing_nodes: int = attrs.field(default=0, validator=_COUNT)
    """How many nodes fewer than the spec asks for."""


@attrs.frozen(kw_only=True)
class Attempt:
    """One launch of the job. Its id is in every name made for it, in its label and in its request ids."""

    id: str = attrs.field(factory=draw_id, validator=_AN_ID)
    option: Option = attrs.field(validator=instance_of(Option))
    names: tuple[str, ...] = attrs.field(validator=deep_iterable(_A_NAME))
    """Of its machines or of its job, known before they are requested."""
    at: float = attrs.field(default=0.0, validator=_NUMBER)
    """When it was drawn, in seconds since 1970."""
    price_usd_h: float | None = attrs.field(default=None, validator=optional(_NUMBER))
    """Of all machines together at that time; None: unknown."""
    image: str = attrs.field(default="", validator=_TEXT)
    """By digest, so that another attempt runs what the tag meant then."""
    state: Launch = attrs.field(default=Launch.LAUNCHING, converter=Launch)
    handle: str = attrs.field(default="", validator=_TEXT)
    """How its backend finds it once it is launched: a resource name, or host and folder."""


@attrs.frozen(kw_only=True)
class PastAttempt:
    """An attempt that is over, or that was refused."""

    id: str = attrs.field(validator=_AN_ID)
    option: Option = attrs.field(validator=instance_of(Option))
    at: float = attrs.field(validator=_NUMBER)
    outcome: str = attrs.field(validator=_TEXT)
    """A refusal's outcome, or the kind of the cause that ended it."""
    scope: str = attrs.field(default="", validator=_TEXT)
    """How far a refusal reaches."""
    message: str = attrs.field(default="", validator=_TEXT)
    price_usd_h: float | None = attrs.field(default=None, validator=optional(_NUMBER))
    ran_s: float = attrs.field(default=0.0, validator=_NUMBER)
    has_run: bool = attrs.field(default=False, validator=instance_of(bool))
    image: str = attrs.field(default="", validator=_TEXT)


@attrs.frozen(kw_only=True, slots=False)
class JobRecord:
    """What is wanted of a job, the one attempt that may train, and what came of those before it."""

    job_id: str = attrs.field(validator=_A_NAME)
    spec: Mapping[str, Any] = attrs.field(validator=instance_of(dict))
    """As `TrainingSpec.to_dict` writes it."""
    code: str = attrs.field(default="", validator=matches_re("(?:[0-9a-f]{64})?"))
    """The SHA-256 of the uploaded code; empty where there is none."""
    argv: tuple[str, ...] = attrs.field(default=(), validator=deep_iterable(_TEXT))
    options: tuple[Option, ...] = attrs.field(default=(), validator=deep_iterable(instance_of(Option)))
    """What may be tried, in the plan's order."""
    settings: Mapping[str, Mapping[str, str]] = attrs.field(
        factory=dict,
        validator=deep_mapping(_TEXT, instance_of(dict), mapping_validator=instance_of(dict)),
    )
    """How each backend was set: to be compared with one's own, never to be used."""
    wanted: Wanted = attrs.field(default=Wanted.RUN, converter=Wanted)
    result: str = attrs.field(default="", validator=_TEXT)
    """The kind of the cause that ended it, or "succeeded"; empty while it is open."""
    detail: str = attrs.field(default="", validator=_TEXT)
    """How its end was reported, in the platform's own terms."""
    failure: Failure | None = attrs.field(default=None, validator=optional(instance_of(Failure)))
    """Why it ended without success."""
    started_at: float = attrs.field(default=0.0, validator=_NUMBER)
    """When ranks of its last attempt first ran, in seconds since 1970; 0: they never did, or it is open."""
    ended_at: float = attrs.field(default=0.0, validator=_NUMBER)
    attempt: Attempt | None = attrs.field(default=None, validator=optional(instance_of(Attempt)))
    """The only one that may train; None between two. Of a job that has ended, its last."""
    history: tuple[PastAttempt, ...] = attrs.field(
        default=(), validator=deep_iterable(instance_of(PastAttempt))
    )
    """Oldest first."""
    restarts: int = attrs.field(default=0, validator=_COUNT)
    """How often it was started again: what `max_restarts` covers."""
    used_s: float = attrs.field(default=0.0, validator=_NUMBER)
    """Seconds that they ran."""
    used_usd: float = attrs.field(default=0.0, validator=_NUMBER)
    """What they cost, at their dated prices."""
    created_at: float = attrs.field(default=0.0, validator=_NUMBER)
    waiting_since: float = attrs.field(default=0.0, validator=_NUMBER)
    """Since when no attempt of the present round has got machines; 0: none was refused."""
    schema: int = attrs.field(default=SCHEMA, validator=in_([SCHEMA]))

    @cached_property
    def training_spec(self) -> TrainingSpec:
        """The spec as a value, which each look at a job needs. Raises RecordError where it is none."""
        return read_spec(self.spec, self.job_id)

    @property
    def has_ended(self) -> bool:
        """Whether nothing can follow."""
        return bool(self.result)

    @property
    def has_run(self) -> bool:
        """Whether ranks of any attempt that is over have run."""
        return any(one.has_run for one in self.history)

    @property
    def has_job(self) -> bool:
        """Whether its key names a job: its backend took an attempt, or somebody cancelled it."""
        is_launched = self.attempt is not None and self.attempt.state is Launch.LAUNCHED
        return self.has_run or is_launched or self.result == causes.CANCELLED.kind

    @property
    def was_taken(self) -> bool:
        """Whether a place took it once; else its submit has failed, or is under way."""
        return self.has_job or any(one.outcome in causes.CAUSES for one in self.history)

    @property
    def current(self) -> Attempt:
        """Its attempt, where it has one."""
        assert self.attempt is not None, "it is between two attempts"
        return self.attempt

    @property
    def last(self) -> Attempt | PastAttempt | None:
        """Its attempt, or the one before where it waits for another."""
        return self.attempt or (self.history[-1] if self.history else None)

    @property
    def backend(self) -> str:
        """The backend of its `last` attempt; empty: of none yet."""
        return "" if self.last is None else self.last.option.backend

    @property
    def image(self) -> str:
        """What its ranks ran in, by digest; empty before the first attempt, and where there is none."""
        return next((one.image for one in reversed(self.history) if one.image), "")

    @property
    def metadata(self) -> dict[str, str]:
        """What the machines and other releases read of it: the object's metadata beside its content."""
        current = self.attempt.id if self.attempt is not None and not self.has_ended else ""
        return {"attempt": current, "wanted": self.wanted.value, "schema": str(self.schema)}

    def begin(self, attempt: Attempt) -> JobRecord:
        """With a new attempt, which is the only one that may train from now on."""
        assert self.attempt is None, "an attempt is ended before another one begins"
        return attrs.evolve(self, attempt=attempt)

    def launched(self, handle: str) -> JobRecord:
        """With the attempt's handle: its backend has taken it."""
        return attrs.evolve(self, attempt=attrs.evolve(self.current, state=Launch.LAUNCHED, handle=handle))

    def refused(self, outcome: str, *, now: float, scope: str = "", message: str = "") -> JobRecord:
        """Without its attempt, which its place has refused."""
        return self._without_attempt(
            outcome, {"scope": scope, "message": message}, waiting_since=self.waiting_since or now
        )

    def passed_over(self, option: Option, now: float, message: str) -> JobRecord:
        """With the note that an option was not tried, and why."""
        past = PastAttempt(id=draw_id(), option=option, at=now, outcome="not tried", message=message)
        return attrs.evolve(self, history=_bounded((*self.history, past)))

    def end_attempt(self, outcome: str, ran_s: float, *, has_run: bool, message: str = "") -> JobRecord:
        """Without its attempt, which is over: nothing of it may begin or train any more."""
        may_restart = causes.of(outcome).may_restart
        return self._without_attempt(
            outcome,
            {"ran_s": ran_s, "has_run": has_run, "message": message},
            restarts=self.restarts + may_restart,
            used_s=self.used_s + ran_s,
            used_usd=self.used_usd + ran_s / 3600 * (self.current.price_usd_h or 0.0),
            waiting_since=0.0 if has_run or may_restart else self.waiting_since or self.current.at,
        )

    def _without_attempt(self, outcome: str, known: Mapping[str, Any], **changes: Any) -> JobRecord:
        one = self.current
        past = PastAttempt(
            id=one.id, option=one.option, at=one.at, price_usd_h=one.price_usd_h, image=one.image,
            outcome=outcome, **known,
        )  # fmt: skip
        return attrs.evolve(self, attempt=None, history=_bounded((*self.history, past)), **changes)

    def cancel(self) -> JobRecord:
        """With the wish that it ends: its machines save and leave, and no other attempt begins."""
        return attrs.evolve(self, wanted=Wanted.CANCEL)

    def wait(self, now: float) -> JobRecord:
        """While no place has room."""
        return attrs.evolve(self, waiting_since=self.waiting_since or now)

    def end(self, result: str, *, ran_s: float = 0.0, restarts: int = 0, **facts: Any) -> JobRecord:
        """Once it is over.

        Args:
            ran_s: how long its last attempt ran.
            restarts: those that its platform made by itself.
            facts: ``detail``, ``failure``, ``started_at``, ``ended_at``.
        """
        usd_h = self.attempt.price_usd_h if self.attempt is not None else None
        return attrs.evolve(
            self,
            result=result,
            restarts=self.restarts + restarts,
            used_s=self.used_s + ran_s,
            used_usd=self.used_usd + ran_s / 3600 * (usd_h or 0.0),
            **facts,
        )


def _bounded(history: tuple[PastAttempt, ...]) -> tuple[PastAttempt, ...]:
    refusals = [one for one in history if not one.has_run][-KEPT_REFUSALS:]
    return tuple(one for one in history if one.has_run or one in refusals)


def to_json(record: JobRecord) -> bytes:
    """The record as its document holds it."""
    return json.dumps(attrs.asdict(record), sort_keys=True).encode()


def from_json(job_id: str, content: bytes) -> JobRecord:
    """The record of a job, from its document. Raises RecordError where it is none."""
    try:
        record = JobRecord(**_parts(json.loads(content, parse_constant=_refuse_constant)))
        if record.job_id != job_id:
            raise ValueError("it is the record of another job")
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise RecordError(
            f"the record of {job_id} cannot be read",
            why=f"{type(error).__name__}: {str(error)[:200]}",
            fix="use the release of gputrain that wrote it, or find out who else can write to the bucket",
        ) from error
    return record


@lru_cache(maxsize=4096)
def _option(*fields: tuple[str, Any]) -> Option:
    """Jobs of one plan share their options: a watcher holds the records of a thousand."""
    return Option(**dict(fields))


def _parts(document: Any) -> dict[str, Any]:
    """The fields of a record, with the values in them made."""
    parts = dict(document)
    parts["argv"] = tuple(parts.get("argv", ()))
    parts["options"] = tuple(_option(*one.items()) for one in parts.get("options", ()))
    parts["history"] = tuple(
        PastAttempt(**{**one, "option": _option(*one["option"].items())}) for one in parts.get("history", ())
    )
    if attempt := parts.get("attempt"):
        option, names = _option(*attempt["option"].items()), tuple(attempt["names"])
        parts["attempt"] = Attempt(**{**attempt, "option": option, "names": names})
    if failure := parts.get("failure"):
        parts["failure"] = Failure(**{**failure, "last_lines": tuple(failure.get("last_lines", ()))})
    return parts


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


class ConflictError(RequestError):
    """The key is that of a job with another spec, and no job was made; ``differs`` names the fields."""

    kind = "key_conflict"
    differs: tuple[str, ...] = ()


def spec_of(spec: TrainingSpec, script: str = "gputrain_function.py") -> dict[str, Any]:
    """The spec as a record holds it; a function is the script that was made of it."""
    if spec.function is not None:
        spec = spec.replace(function=None, script=script, name=spec.name or spec.title, source_dir=None)
    return spec.to_dict()


@lru_cache(maxsize=1024)
def _parsed(document: str) -> TrainingSpec:
    return TrainingSpec.from_dict(json.loads(document))


def read_spec(kept: Mapping[str, Any], whose: str) -> TrainingSpec:
    """The spec in a record; one that is read again and again is parsed once. RecordError: it is none."""
    try:
        return _parsed(json.dumps(kept))
    except SpecError as error:
        faults = ", ".join(one.field for one in error.faults)[:200]
        raise RecordError(
            f"the stored spec of {whose} cannot be read, so it cannot restart from here",
            why=f"another release wrote it, or somebody by hand: {faults}",
            fix="take the release that wrote it; job.cancel() and trainer.clean_up() need no spec",
        ) from error


def check_alike(kept: Mapping[str, Any], asked: Mapping[str, Any], what: str, fix: str) -> None:
    """Refuse two specs that differ. Raises ConflictError with the fields."""
    there, here = _compared(kept), _compared(asked)
    differs = tuple(name for name in sorted({*there, *here}) if there.get(name) != here.get(name))
    if differs:
        shown = ", ".join(_difference(name, there.get(name), here.get(name)) for name in differs)
        raise ConflictError(what, why=f"it has {shown}", fix=fix, differs=differs)


def _difference(name: str, there: object, here: object) -> str:
    if isinstance(there, Mapping) or isinstance(here, Mapping):  # of variables, whose values may be secret
        pairs = [dict(one) if isinstance(one, Mapping) else {} for one in (there, here)]
        other = sorted(key for key in {*pairs[0], *pairs[1]} if pairs[0].get(key) != pairs[1].get(key))
        return f"another {name} ({', '.join(other)})"
    return f"{name}={short_repr(there, name=name)} (here {short_repr(here, name=name)})"


def _compared(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What two specs are compared by: the same folder may be checked out in two places."""
    compared = {name: value for name, value in fields.items() if name != "source_dir"}
    if isinstance(compared.get("script"), str):
        compared["script"] = PurePath(compared["script"]).name
    return compared
