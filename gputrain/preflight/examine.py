"""Asks questions side by side, and turns what they raise into findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs

from gputrain.errors import ApiDisabledError, AuthError, GputrainError, PermissionDeniedError, TransientError
from gputrain.gcp import MissingError
from gputrain.preflight.checks import Check, Checks, Finding
from gputrain.retry import Policy

PATIENCE = Policy(budget_s=10.0, call_s=10.0)
"""A look that is not answered for so long is reported as unknown: a person is waiting."""

SIDE_BY_SIDE = 16


@attrs.frozen(kw_only=True)
class Question:
    """One thing to look at."""

    subject: str
    ask: Callable[[], Iterable[Check]]
    """Gives what was found; an error of ours that it raises becomes a finding of this subject."""


def examine(backend: str, *stages: Sequence[Question]) -> Checks:
    """What the questions find: those of a stage side by side, the next stage only where no fault was found.

    Args:
        backend: whose checks they are.
        stages: questions; what a later stage asks makes no sense with a fault in an earlier one.
    """
    found: list[Check] = []
    with ThreadPoolExecutor(max_workers=SIDE_BY_SIDE, thread_name_prefix="gputrain-preflight") as pool:
        for questions in stages:
            faults = [one for one in found if one.finding is Finding.FAULT]
            answer = _answer if not faults else _skipped(faults[0].subject)
            for checks in pool.map(answer, questions):
                found += checks
    return Checks(checks=[attrs.evolve(one, backend=backend) for one in found])


def _skipped(before: str) -> Callable[[Question], tuple[Check, ...]]:
    def skip(question: Question) -> tuple[Check, ...]:
        why = f"not looked at: mend {before} first"
        return (Check(subject=question.subject, finding=Finding.UNKNOWN, why=why),)

    return skip


def _answer(question: Question) -> tuple[Check, ...]:
    try:
        return tuple(question.ask())
    except AuthError as error:
        return (refused(question.subject, error, Finding.FAULT),)
    except GputrainError as error:
        return (refused(question.subject, error, Finding.UNKNOWN),)


def refused(subject: str, error: GputrainError, finding: Finding) -> Check:
    """The finding that an error stands for, in one line."""
    match error:
        case ApiDisabledError():
            why = f"{error.api or 'an API it needs'} is switched off"
        case PermissionDeniedError() if error.permission:
            why = f"you may not look: {error.permission} is missing"
        case TransientError():
            why = f"no answer now: {error.why or error.what}"
        case _:
            why = error.why or error.what
    fix = "try again" if isinstance(error, TransientError) else error.fix
    if isinstance(error, MissingError):  # what is missing has a check of its own
        fix = ""
    first = f"could not be looked at: {why}" if finding is Finding.UNKNOWN else why
    return Check(subject=subject, finding=finding, why=" ".join(first.split()), fix=fix)
