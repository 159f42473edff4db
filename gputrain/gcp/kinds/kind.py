"""`Kind`: one way in which Google refuses; `Mark`: how it is recognized."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping

import attrs

from gputrain.errors import GputrainError, Scope
from gputrain.gcp.answer import Answer, Surface


class Evidence(enum.IntEnum):
    """What a mark goes by, the strongest first."""

    CODE = enum.auto()
    REASON = enum.auto()
    QUOTA = enum.auto()
    MESSAGE = enum.auto()
    STATUS = enum.auto()


def words(text: str) -> frozenset[str]:
    """The words of a line, as a set."""
    return frozenset(text.split())


@attrs.frozen(kw_only=True)
class Mark:
    """How a kind is recognized: everything stated here must hold; its strongest part says how strong it is.

    ``codes`` and ``reasons`` are words that mean one thing. ``statuses`` holds HTTP statuses, canonical codes
    and the old-style words that only repeat them (``badRequest``, ``forbidden``): Google says a stockout with
    503, an exceeded quota with 403 and a missing permission with 400, so they are asked last.
    """

    surfaces: frozenset[Surface] = frozenset()
    """Where it can be said; empty: anywhere."""
    codes: frozenset[str] = attrs.field(default="", converter=words)
    reasons: frozenset[str] = attrs.field(default="", converter=words)
    is_global: bool | None = None
    """Whether the quota that the answer tells of holds for all regions together."""
    message: str = ""
    """A regular expression, anchored; its named groups are facts."""
    statuses: frozenset[int | str] = frozenset()

    @property
    def evidence(self) -> Evidence:
        """Its strongest part."""
        if self.codes:
            return Evidence.CODE
        if self.reasons:
            return Evidence.REASON
        if self.is_global is not None:
            return Evidence.QUOTA
        return Evidence.MESSAGE if self.message else Evidence.STATUS

    def meets(self, answer: Answer) -> bool:
        """Whether everything that is stated holds."""
        quota = None if answer.quota is None else answer.quota.is_global
        return (
            (not self.surfaces or answer.surface in self.surfaces)
            and (not self.codes or bool(self.codes & answer.codes))
            and (not self.reasons or bool(self.reasons & answer.reasons))
            and (self.is_global is None or self.is_global == quota)
            and (not self.statuses or bool(self.statuses & {answer.status, answer.canonical, *answer.codes}))
            and (not self.message or _found(self.message, answer.message) is not None)
        )


@attrs.frozen(kw_only=True)
class Kind:
    """One row: what it is called, how it is recognized, what becomes of it, and what to do."""

    name: str
    """Stable; ``error.kind`` and the anchor on the page of errors."""
    title: str
    """Ends the sentence "could not create the job: ..."."""
    error: type[GputrainError]
    marks: tuple[Mark, ...]
    fix: str
    """What to do today; ``{facts}`` are filled in."""
    told: Mapping[str, str] = attrs.field(factory=dict)
    """Facts that it tells by itself; Google's words may say more."""
    each_minute: bool = False
    """Whether it ends with the running minute of Google's clock."""
    is_lasting: bool = False
    """Whether a place that lacks it always will."""
    scope: Scope | None = None
    """How far it reaches; None: as far as errors of its class do."""
    try_elsewhere: bool | None = None
    """Whether another place may do better; None: as for errors of its class."""

    def read(self, answer: Answer) -> dict[str, str]:
        """What its patterns find in the message, whatever the answer was recognized by."""
        told = dict(self.told)
        for mark in self.marks:
            found = _found(mark.message, answer.message) if mark.message else None
            told |= {key: text for key, text in found.groupdict().items() if text} if found else {}
        return told

    @property
    def reach(self) -> Scope:
        """How far it reaches."""
        return self.error.scope if self.scope is None else self.scope

    @property
    def goes_elsewhere(self) -> bool:
        """Whether another place may do better."""
        return self.error.try_elsewhere if self.try_elsewhere is None else self.try_elsewhere


def _found(pattern: str, message: str) -> re.Match[str] | None:
    """What an anchored pattern finds where Google's sentence begins: others may quote it."""
    read = _compiled(pattern)
    begins = (0, *(quote.end() for quote in _QUOTES.finditer(message[:_LONGEST_LEAD])))
    return next((found for at in begins if (found := read.match(message, at)) is not None), None)


_LONGEST_LEAD = 400
_QUOTES = re.compile(r':\s{1,20}(?:- |")?|\bmessage=')


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when first needed: most programs meet no refusal."""
    return re.compile(pattern, re.DOTALL)
