"""From an API's refusal to one of gputrain's errors. Pure."""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any

import attrs

from gputrain.errors import (
    CapacityError,
    GputrainError,
    ProviderError,
    QuotaExceededError,
    RequestError,
    TransientError,
)
from gputrain.gcp.answer import Answer
from gputrain.gcp.facts import facts_of, notes_of, words_of
from gputrain.gcp.kinds import KINDS, Kind

_MARKS = sorted(((mark, kind) for kind in KINDS for mark in kind.marks), key=lambda pair: pair[0].evidence)
"""Codes before reasons, reasons before quotas, these before texts, the status last; then as in the table."""

_GRAVE = (QuotaExceededError, RequestError, CapacityError, ProviderError, TransientError)


def kind_of(answer: Answer) -> Kind | None:
    """The row of the table that knows an answer; None for one that nobody foresaw."""
    return next((kind for mark, kind in _MARKS if mark.meets(answer)), None)


def to_error(
    answer: Answer, action: str, *, project: str = "", place: str = "", now: float | None = None
) -> GputrainError:
    """The error for a refusal, with Google's own words as its ``why`` and the payload as its ``raw``.

    Args:
        answer: what the API said.
        action: what was being done, in a few words: ``"create the job"``.
        project: whose it was, for the commands that the fix names; where it is not given, as Google says.
        place: the zone or region that was asked, where the answer does not tell.
        now: seconds since 1970: a limit per minute says by it when it refills. Google's minutes are those of
            the clock, not the last sixty seconds. Source: Compute Engine's pages, read 2026-11-20.

    >>> to_error(Answer(status=404, message="no such job"), "look at the job").kind
    'missing'
    """
    kind = kind_of(answer)
    if kind is None:
        return _unknown(answer, action)
    answer = answer if answer.place else attrs.evolve(answer, place=place)
    found = kind.read(answer)
    facts = facts_of(kind.error, answer, found)
    if kind.each_minute and now is not None:
        facts["refills_in_s"] = 60.0 - now % 60.0
    if kind.is_lasting:
        facts["is_lasting"] = True
    said = answer.message or f"Google said {answer.status or 'nothing'} and gave no reason"
    note = notes_of(kind.error, answer)
    return kind.error(
        f"could not {action}: {kind.title}",
        why=f"{said} ({note})" if note else said,
        fix=_Fix().format(kind.fix, **{**words_of(answer, found, project), **facts}),
        raw=answer.raw,
        kind=kind.name,
        scope=kind.reach,
        try_elsewhere=kind.goes_elsewhere,
        **facts,
    )


def gravest(errors: Iterable[GputrainError]) -> GputrainError | None:
    """The error that counts among those of one operation: what a person must mend before what may pass.

    A gang that exceeds a quota often meets a stockout in the same breath. What nobody foresaw stands above
    what passes: it is never tried again.
    """
    return min(errors, key=_rank, default=None)


def _rank(error: GputrainError) -> int:
    return 1 + next((n for n, kind in enumerate(_GRAVE) if isinstance(error, kind)), -1)


def _unknown(answer: Answer, action: str) -> ProviderError:
    words = sorted(answer.codes | answer.reasons)
    code = words[0] if words else answer.canonical or str(answer.status)
    return ProviderError(
        f"could not {action}: Google's answer is unknown",
        why=answer.message or f"status {answer.status} {' '.join(words) or answer.canonical}".strip(),
        fix="look whether it was done; then report the answer in this error's raw field",
        raw=answer.raw,
        code=code,
    )


class _Fix(string.Formatter):
    """Fills in what is known; an unknown fact stays as a word in capitals for the reader to fill in."""

    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG002  # string.Formatter's
        return kwargs.get(key) or str(key).upper()
