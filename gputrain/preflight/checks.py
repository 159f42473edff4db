"""`Checks`: what a preflight found, as a value that shows itself."""

from __future__ import annotations

import enum
import html
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import attrs

from gputrain.tables import Table
from gputrain.terminal import safe

_PROGRAMS = ("gcloud ", "docker ")
"""What a fix begins with that is a command as it stands."""


class Finding(enum.Enum):
    """How one check ended."""

    FAULT = "fault"
    """A job would fail over it."""
    UNKNOWN = "unknown"
    """It could not be looked at."""
    OK = "ok"


@attrs.frozen(kw_only=True)
class Check:
    """One thing that was looked at."""

    subject: str
    """What was looked at, such as ``bucket gs://my-bucket``."""
    finding: Finding
    why: str = ""
    """What was seen; for an unknown, why nothing was."""
    fix: str = attrs.field(default="", converter=safe)
    """The command that mends it, or what to do where there is none."""
    backend: str = ""
    group: str = ""
    """Checks of one group that are all ok are shown as one row of this name."""


def _wrapped(fix: str, width: int) -> list[str]:
    """The lines of a fix, none wider than ``width`` (0 or less: one line); a command can still be copied."""
    if len(fix) <= width or width <= 0:
        return [fix]
    end = " \\" if fix.startswith(_PROGRAMS) else ""
    room = max(width - len(end), 20)
    lines = textwrap.wrap(fix, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return [*(line + end for line in lines[:-1]), lines[-1]]


def _sorted(checks: Iterable[Check]) -> tuple[Check, ...]:
    order = list(Finding)
    return tuple(sorted(checks, key=lambda one: order.index(one.finding)))


@attrs.frozen(kw_only=True)
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
        """``2 faults, 1 unknown, 14 ok``."""
        counts = [(len(self._found(finding)), finding.value) for finding in Finding]
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

    def __str__(self) -> str:
        return "\n".join([str(self.table), *self._remedies()])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        remedies = "\n".join(html.escape(fix) for fix in self.fixes)
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
        yield from self.faults
        yield from self.unknowns
        for (_, group), members in groupby(self._found(Finding.OK), key=lambda one: (one.backend, one.group)):
            alike = list(members)
            if group and len(alike) > 1:
                yield attrs.evolve(alike[0], subject=f"{len(alike)} {group}", why="")
            else:
                yield from alike
