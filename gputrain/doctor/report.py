"""`Checks`: what `trainer.doctor()` found, as a value that shows itself, and how checks are run."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import attrs

from gputrain.code import resolve
from gputrain.concurrency import gather
from gputrain.display.table import Table, TableDisplay, cut, wrapped
from gputrain.errors import (
    ApiDisabledError,
    AuthError,
    GputrainError,
    PermissionDeniedError,
    SpecError,
    TransientError,
)
from gputrain.google import MissingError
from gputrain.google.endpoints import leads_here
from gputrain.spec import TrainingSpec
from gputrain.text import escape_html, sanitize

AT_ONCE = 16
_PROGRAMS = ("gcloud ", "docker ", "curl ", "CLOUDSDK_", "export ", "ip ", "/")
"""What a fix begins with that is a shell command."""
_NAMED = 2
"""Subjects of a folded row that are named."""


class Finding(enum.Enum):
    """How one check ended, the gravest first."""

    FAULT = "fault"
    """A job would fail over it."""
    UNKNOWN = "unknown"
    """It could not be checked."""
    OK = "ok"


@attrs.frozen(kw_only=True)
class Check(TableDisplay):
    """One thing that was checked."""

    subject: str
    """What was checked, such as ``bucket gs://my-bucket``; empty: the subject of its probe."""
    finding: Finding
    why: str = ""
    """What was seen; for an unknown, why nothing was."""
    fix: str = attrs.field(default="", converter=sanitize)
    """The command that fixes it, or what to do where there is none."""
    backend: str = ""
    group: str = ""
    """Checks of one group that are all ok are shown as one row of this name."""


def ok(why: str, *, subject: str = "", group: str = "") -> Check:
    """It is in order."""
    return Check(subject=subject, finding=Finding.OK, why=why, group=group)


def failed(why: str, fix: str = "", *, subject: str = "", is_certain: bool = True) -> Check:
    """A job would fail over it; where that is not certain, it is unknown."""
    finding = Finding.FAULT if is_certain else Finding.UNKNOWN
    return Check(subject=subject, finding=finding, why=why, fix=fix)


def unknown(why: str, *, subject: str = "") -> Check:
    """It could not be checked."""
    return failed(why, subject=subject, is_certain=False)


def _sorted(checks: Iterable[Check]) -> tuple[Check, ...]:
    order = list(Finding)
    return tuple(sorted(checks, key=lambda one: order.index(one.finding)))


@attrs.frozen(kw_only=True, repr=False)
class Checks:
    """What doctor found: faults first, then what could not be checked, then what is in order.

    It shows itself in a terminal, in a notebook, and by ``print``: a line a check, then the fixes.

    >>> checks = Checks(checks=[Check(subject="bucket gs://b", finding=Finding.OK, backend="vertex")])
    >>> checks.is_ok, len(checks)
    (True, 1)
    >>> print(checks)
    Doctor: 1 ok
    ok  vertex  bucket gs://b
    """

    checks: tuple[Check, ...] = attrs.field(converter=_sorted)

    @property
    def is_ok(self) -> bool:
        """True where no fault was found; there may be unknowns."""
        return not self.faults

    @property
    def is_blind(self) -> bool:
        """True where more could not be checked than could, on one backend at least: it says little."""
        seen = Counter((one.backend, one.finding is Finding.UNKNOWN) for one in self.checks)
        return any(seen[backend, True] > seen[backend, False] for backend, _ in list(seen))

    @property
    def faults(self) -> tuple[Check, ...]:
        """What a job would fail over."""
        return self._found(Finding.FAULT)

    @property
    def unknowns(self) -> tuple[Check, ...]:
        """What could not be checked."""
        return self._found(Finding.UNKNOWN)

    @property
    def fixes(self) -> tuple[str, ...]:
        """What fixes the faults and unknowns, each once."""
        return tuple(dict.fromkeys(one.fix for one in (*self.faults, *self.unknowns) if one.fix))

    @property
    def summary(self) -> str:
        """``2 faults, 1 unknown, 14 ok``; a fault that several backends meet is one."""
        faults = len({(one.subject, one.why) for one in self.faults})
        counts = {"faults" if faults > 1 else "fault": faults}
        counts |= {"unknown": len(self.unknowns), "ok": len(self._found(Finding.OK))}
        return ", ".join(f"{n} {word}" for word, n in counts.items() if n) or "nothing to check"

    @property
    def table(self) -> Table:
        """One row a check; those that say the same, or are ok in one group, share a row."""
        rows = [(one.finding.value, one.backend, one.subject, one.why) for one in self._folded()]
        columns = ("finding", "backend", "what", "what was seen")
        return Table(title=f"Doctor: {self.summary}", columns=columns, rows=rows)

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    def __repr__(self) -> str:
        return f"<Checks: {self.summary}>"

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        fixes = "\n".join(escape_html(fix) for fix in self.fixes)
        fixed = f"<p>To fix:</p><pre>{fixes}</pre>" if fixes else ""
        return {"text/plain": str(self), "text/html": self.table._repr_html_() + fixed}

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.text import Text

        yield from (Text(line, overflow="fold") for line in self._lines(options.max_width))

    def _lines(self, width: int = 10_000) -> Iterator[str]:
        """The report in lines of a width; a row that is ok is cut to one line."""
        yield f"Doctor: {self.summary}"
        rows = tuple(self._folded())
        finding = max((len(one.finding.value) for one in rows), default=0)
        backend = max((len(one.backend) for one in rows), default=0)
        for one in rows:
            head = sanitize(f"{one.finding.value:{finding}}  {one.backend:{backend}}  ")
            text = head + sanitize(f"{one.subject}: {one.why}" if one.why else one.subject)
            text = cut(text, width) if one.finding is Finding.OK else text
            yield from wrapped(text, width, indent=len(head) if width > 2 * len(head) else 2)
        for title, is_command in (("To fix:", False), ("Run:", True)):
            fixes = [fix for fix in self.fixes if fix.startswith(_PROGRAMS) is is_command]
            yield from ("", title) if fixes else ()
            for fix in fixes:
                yield from (f"  {line}" for line in wrapped(fix, width - 2, indent=2, end=" \\" * is_command))

    def _found(self, finding: Finding) -> tuple[Check, ...]:
        return tuple(one for one in self.checks if one.finding is finding)

    def _folded(self) -> Iterator[Check]:
        """One check for those that say the same, with all their backends and subjects."""
        same: dict[object, list[Check]] = {}
        for one in self.checks:
            by: object = one.why if one.finding is Finding.UNKNOWN else (one.subject, one.why)
            by = one.group if one.finding is Finding.OK and one.group else by
            same.setdefault((one.finding, by), []).append(one)
        for first, *others in same.values():
            subjects = list(dict.fromkeys(one.subject for one in (first, *others)))
            backend = ", ".join(dict.fromkeys(one.backend for one in (first, *others)))
            more = f" and {len(subjects) - _NAMED} more" if len(subjects) > _NAMED else ""
            subject, why = ", ".join(subjects[:_NAMED]) + more, first.why
            if first.finding is Finding.OK and first.group and len(subjects) > 1:
                subject, why = f"{len(subjects)} {first.group}", ""
            yield attrs.evolve(first, backend=backend, subject=subject, why=why)


@attrs.define(kw_only=True, eq=False)
class Probe:
    """One thing to check."""

    subject: str
    run: Callable[[], Iterable[Check]]
    """Gives what was found; a GputrainError that it raises becomes a check of this subject."""
    is_needed: bool = False
    """Whether no job can be made where this address cannot be reached."""


def run_checks(backend: str, *stages: Sequence[Probe]) -> Checks:
    """Run the probes of a stage side by side; a stage after one with a fault is not checked."""
    found: list[Check] = []
    for probes in stages:
        fault = next((one.subject for one in found if one.finding is Finding.FAULT), "")
        for checks in gather(partial(_run, after=fault), probes, AT_ONCE):
            found += checks
    return Checks(checks=[attrs.evolve(one, backend=backend) for one in found])


def _run(probe: Probe, after: str) -> list[Check]:
    if after:
        return [unknown(f"not checked: fix {after} first", subject=probe.subject)]
    try:
        return [attrs.evolve(one, subject=one.subject or probe.subject) for one in probe.run()]
    except GputrainError as error:
        return [_from_error(probe, error)]


def _from_error(probe: Probe, error: GputrainError) -> Check:
    """The check that an error stands for, in one line."""
    unreached = error.unreached if isinstance(error, TransientError) else ""
    if unreached:  # one fault, or one unknown, for everything at that address
        is_fault = probe.is_needed or leads_here(unreached)
        return failed(" ".join(error.why.split()), error.fix, subject=unreached, is_certain=is_fault)
    why, fix, is_certain = error.why or error.what, error.fix, isinstance(error, AuthError)
    match error:
        case ApiDisabledError():
            why = f"{error.api or 'an API it needs'} is switched off"
        case PermissionDeniedError() if error.permission:
            why = f"the permission to look, {error.permission}, is missing"
        case TransientError():
            why, fix = f"no answer now: {why}", "try again"
        case MissingError():
            fix = ""  # what is missing has a check of its own
    text = " ".join((why if is_certain else f"could not be checked: {why}").split())
    return failed(text, fix, subject=probe.subject, is_certain=is_certain)


def code(spec: TrainingSpec | None, *, installed: bool) -> tuple[Probe, ...]:
    """Whether the code of the spec is there and can be uploaded; nothing without a spec.

    Args:
        installed: as for `gputrain.code.resolve`.
    """

    def run(spec: TrainingSpec) -> Iterator[Check]:
        try:
            yield ok(resolve(spec, installed=installed).folder)
        except SpecError as error:
            yield from (failed(f"{one.field} {one.value}: {one.expected}", one.fix) for one in error.faults)

    return () if spec is None else (Probe(subject=f"code of {spec.title}", run=partial(run, spec)),)
