"""`Checks`: what a preflight found, as a value that shows itself."""

from __future__ import annotations

import enum
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import attrs

from gputrain import staging
from gputrain.errors import (
    ApiDisabledError,
    AuthError,
    GputrainError,
    PermissionDeniedError,
    SpecError,
    TransientError,
)
from gputrain.gcp import MissingError
from gputrain.gcp.endpoints import leads_here
from gputrain.spec import TrainingSpec
from gputrain.tables import Shown, Table
from gputrain.terminal import safe, safe_html
from gputrain.threads import side_by_side

_PROGRAMS = ("gcloud ", "docker ", "curl ", "CLOUDSDK_", "/")
"""What a fix begins with that is a command as it stands."""


AT_ONCE = 16
_NAMED = 2
"""Subjects of checks that say the same, which are named."""


class Finding(enum.Enum):
    """How one check ended."""

    FAULT = "fault"
    """A job would fail over it."""
    UNKNOWN = "unknown"
    """It could not be looked at."""
    OK = "ok"


@attrs.frozen(kw_only=True)
class Check(Shown):
    """One thing that was looked at."""

    subject: str
    """What was looked at, such as ``bucket gs://my-bucket``; empty: what the question is about."""
    finding: Finding
    why: str = ""
    """What was seen; for an unknown, why nothing was."""
    fix: str = attrs.field(default="", converter=safe)
    """The command that mends it, or what to do where there is none."""
    backend: str = ""
    group: str = ""
    """Checks of one group that are all ok are shown as one row of this name."""


def fine(why: str, *, subject: str = "", group: str = "") -> Check:
    """It is well."""
    return Check(subject=subject, finding=Finding.OK, why=why, group=group)


def fault(why: str, fix: str = "", *, subject: str = "", is_certain: bool = True) -> Check:
    """A job would fail over it; where that is not certain, it is unknown."""
    finding = Finding.FAULT if is_certain else Finding.UNKNOWN
    return Check(subject=subject, finding=finding, why=why, fix=fix)


def unknown(why: str, *, subject: str = "") -> Check:
    """It could not be looked at."""
    return Check(subject=subject, finding=Finding.UNKNOWN, why=why)


def _wrapped(fix: str, width: int) -> list[str]:
    """The lines of a fix, none wider than ``width`` (0 or less: one line); a command can still be copied."""
    if len(fix) <= width or width <= 0 or fix.startswith("'"):  # a path in quotes is not broken
        return [fix]
    end = " \\" if fix.startswith(_PROGRAMS) else ""
    room = max(width - len(end), 20)
    lines = textwrap.wrap(fix, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [*(line + end for line in lines[:-1]), lines[-1]]


def _sorted(checks: Iterable[Check]) -> tuple[Check, ...]:
    order = list(Finding)
    return tuple(sorted(checks, key=lambda one: order.index(one.finding)))


@attrs.frozen(kw_only=True, repr=False)
class Checks:
    """What a preflight found: faults first, then what could not be looked at, then what is well.

    It shows itself as a table and the commands that mend the faults: in a terminal, in a notebook, and by
    ``print``.

    >>> checks = Checks(checks=[Check(subject="bucket gs://b", finding=Finding.OK, backend="vertex")])
    >>> checks.is_ok, len(checks)
    (True, 1)
    """

    checks: tuple[Check, ...] = attrs.field(converter=_sorted)

    @property
    def is_ok(self) -> bool:
        """True where no fault was found; there may be unknowns."""
        return not self.faults

    @property
    def is_blind(self) -> bool:
        """True where more could not be looked at than could, on one backend at least: it says little."""
        seen = Counter((one.backend, one.finding is Finding.UNKNOWN) for one in self.checks)
        return any(seen[backend, True] > seen[backend, False] for backend, _ in list(seen))

    @property
    def faults(self) -> tuple[Check, ...]:
        """What a job would fail over."""
        return self._found(Finding.FAULT)

    @property
    def unknowns(self) -> tuple[Check, ...]:
        """What could not be looked at."""
        return self._found(Finding.UNKNOWN)

    @property
    def fixes(self) -> tuple[str, ...]:
        """What mends the faults and unknowns, each once."""
        return tuple(dict.fromkeys(one.fix for one in (*self.faults, *self.unknowns) if one.fix))

    @property
    def summary(self) -> str:
        """``2 faults, 1 unknown, 14 ok``; a fault that several backends meet is one."""
        counts = [(len(self._found(finding)), finding.value) for finding in Finding]
        counts[0] = (len({(one.subject, one.why) for one in self.faults}), Finding.FAULT.value)
        words = [f"{count} {word}{'s' * (word == 'fault' and count != 1)}" for count, word in counts if count]
        return ", ".join(words) or "nothing to look at"

    @property
    def table(self) -> Table:
        """One row a check; those of one group that are well share a row."""
        rows = [(one.finding.value, one.backend, one.subject, one.why) for one in self._folded()]
        columns = ("finding", "backend", "what", "what was seen")
        return Table(title=f"Preflight: {self.summary}", columns=columns, rows=rows)

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    def __repr__(self) -> str:
        return f"<Checks: {self.summary}>"

    def __str__(self) -> str:
        return "\n".join([str(self.table), *self._remedies()])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        remedies = "\n".join(safe_html(fix) for fix in self.fixes)
        mended = f"<p>What mends it:</p><pre>{remedies}</pre>" if remedies else ""
        return {"text/plain": str(self), "text/html": self.table._repr_html_() + mended}

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.text import Text

        yield self.table
        yield from (Text(line, overflow="fold") for line in self._remedies(options.max_width))

    def _remedies(self, width: int = 0) -> list[str]:
        lines = [f"  {line}" for fix in self.fixes for line in _wrapped(fix, width - 2)]
        return ["", "What mends it:", *lines] if lines else []

    def _found(self, finding: Finding) -> tuple[Check, ...]:
        return tuple(one for one in self.checks if one.finding is finding)

    def _folded(self) -> Iterator[Check]:
        yield from _joined(self.faults, by=lambda one: (one.subject, one.why))
        yield from _joined(self.unknowns, by=lambda one: one.why)
        for (_, group), members in groupby(self._found(Finding.OK), key=lambda one: (one.backend, one.group)):
            alike = list(members)
            if group and len(alike) > 1:
                yield attrs.evolve(alike[0], subject=f"{len(alike)} {group}", why="")
            else:
                yield from alike


def _joined(checks: Iterable[Check], *, by: Callable[[Check], object]) -> Iterator[Check]:
    """One check for those that say the same: of all their backends and subjects."""
    groups: dict[object, list[Check]] = {}
    for one in checks:
        groups.setdefault(by(one), []).append(one)
    for alike in groups.values():
        subjects = list(dict.fromkeys(one.subject for one in alike))
        more = f" and {len(subjects) - _NAMED} more" if len(subjects) > _NAMED else ""
        yield attrs.evolve(
            alike[0],
            backend=", ".join(dict.fromkeys(one.backend for one in alike)),
            subject=", ".join(subjects[:_NAMED]) + more,
        )


@attrs.define(kw_only=True, eq=False)
class Question:
    """One thing to look at."""

    subject: str
    ask: Callable[[], Iterable[Check]]
    """Gives what was found; an error of ours that it raises becomes a finding of this subject."""
    is_needed: bool = False
    """Whether no job can be made where nobody can be asked this."""


def examine(backend: str, *stages: Sequence[Question]) -> Checks:
    """What the questions find: those of a stage side by side, the next stage only where no fault was found.

    Args:
        backend: whose checks they are.
        stages: questions; what a later stage asks makes no sense with a fault in an earlier one.
    """
    found: list[Check] = []
    for questions in stages:
        faults = [one for one in found if one.finding is Finding.FAULT]
        for checks in side_by_side(partial(_answers, faults=faults), questions, AT_ONCE):
            found += checks
    return Checks(checks=[attrs.evolve(one, backend=backend) for one in found])


def _answers(question: Question, faults: Sequence[Check]) -> list[Check]:
    try:
        first = f"not looked at: mend {faults[0].subject} first" if faults else ""
        found = (unknown(first),) if faults else question.ask()
        return [one if one.subject else attrs.evolve(one, subject=question.subject) for one in found]
    except GputrainError as error:
        return [_refused(question, error)]


def _refused(question: Question, error: GputrainError) -> Check:
    """The finding that an error stands for, in one line."""
    subject, unreached = question.subject, error.unreached if isinstance(error, TransientError) else ""
    if unreached:  # whatever was asked for there: one fault, or one thing that is not known
        is_fault = question.is_needed or leads_here(unreached)
        return fault(" ".join(error.why.split()), error.fix, subject=unreached, is_certain=is_fault)
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
    is_certain = isinstance(error, AuthError)
    told = " ".join((why if is_certain else f"could not be looked at: {why}").split())
    return fault(told, fix, subject=subject, is_certain=is_certain)


def code(spec: TrainingSpec | None, *, installed: bool) -> tuple[Question, ...]:
    """Whether the code of the spec is there and can travel; nothing without a spec.

    Args:
        installed: as for `gputrain.staging.resolve`.
    """
    if spec is None:
        return ()

    def ask() -> Iterator[Check]:
        try:
            source = staging.resolve(spec, installed=installed)
        except SpecError as error:
            for one in error.faults:
                yield fault(f"{one.field} {one.value}: {one.allowed}", one.fix)
        else:
            yield fine(source.folder)

    return (Question(subject=f"code of {spec.title}", ask=ask),)
