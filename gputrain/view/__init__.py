"""What a person sees while a job runs: rich text in a terminal, html in a notebook, plain lines on request,
and nothing at all when gputrain works inside another program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, Protocol, TextIO, get_args

import attrs

from gputrain.backends.base import LogLine
from gputrain.entrypoint import contract
from gputrain.errors import Fault, SpecError
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics, sparkline
from gputrain.spec import format_duration
from gputrain.terminal import safe

ProgressWord = Literal["auto", "rich", "plain", "none"]
PROGRESS: tuple[str, ...] = get_args(ProgressWord)
_TIME = "%Y-%m-%dT%H:%M:%S%z"
_COLOURS = {State.SUCCEEDED: "green", State.FAILED: "red", State.CANCELLED: "yellow", State.EXPIRED: "red"}


@attrs.frozen(kw_only=True)
class Snapshot:
    """Where a job stands, for showing."""

    title: str
    state: State
    elapsed: timedelta
    detail: str = ""
    metrics: Metrics = Metrics()
    cost_usd: float | None = None
    failure: Failure | None = None
    gpu_busy: float | None = None
    """Percent of the time in which kernels ran, by the latest samples of all nodes; None: unknown."""

    @property
    def text(self) -> str:
        """One line of it."""
        parts = [self.title, self.state.value, format_duration(self.elapsed)]
        last = self.metrics.last
        shown = [name for name in ("step", *self.metrics.names) if name in last]
        parts += [f"{name} {last[name]:.4g}" for name in shown]
        if self.gpu_busy is not None:
            parts.append(f"GPUs {self.gpu_busy:.0f} %")
        if self.cost_usd:
            parts.append(f"${self.cost_usd:,.2f}")
        if self.detail:
            parts.append(self.detail)
        return safe(" · ".join(parts))


class View(Protocol):
    """Something that shows a job."""

    def lines(self, lines: Sequence[LogLine]) -> None:
        """New log lines."""
        ...

    def status(self, snapshot: Snapshot) -> None:
        """Where the job stands now."""
        ...

    def close(self) -> None:
        """The watching has ended."""
        ...


def choose(progress: str | None = None) -> View:
    """The view for where we are; ``progress`` (or ``$GPUTRAIN_PROGRESS``) overrides: auto, rich, plain, none.

    Raises:
        SpecError: no such word.
    """
    word = progress or os.environ.get("GPUTRAIN_PROGRESS") or "auto"
    if word not in PROGRESS:
        fault = Fault(
            field="progress", value=repr(word), allowed="one of " + ", ".join(PROGRESS), fix="leave it out"
        )
        raise SpecError(f"progress={word!r} is none of {', '.join(PROGRESS)}", faults=(fault,))
    if word == "none":
        return Quiet()
    if word == "plain":
        return PlainLines(sys.stderr)
    if in_notebook():
        from gputrain.view.notebook import Notebook

        return Notebook()
    if word == "rich" or sys.stderr.isatty():
        return Terminal()
    return Quiet()


def in_notebook() -> bool:
    """Whether a cell of a notebook is running."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def without_marks(lines: Sequence[LogLine]) -> list[LogLine]:
    """The lines without those that are meant for programs."""
    markers = (contract.METRIC_MARKER, contract.GAUGE_MARKER, contract.RESULT_MARKER)
    return [line for line in lines if not line.message.startswith(markers)]


def prefix(line: LogLine) -> str:
    """Whose line it is."""
    return "agent" if line.rank is None else f"{line.rank}"


class Quiet:
    """Shows nothing: we work inside another program."""

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Nothing."""

    def status(self, snapshot: Snapshot) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class PlainLines:
    """One line of text for each log line, and for each change of state."""

    def __init__(self, stream: TextIO, *, timestamps: bool = False) -> None:
        self._stream = stream
        self._timestamps = timestamps
        self._state: State | None = None

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Write them, each with its rank."""
        for line in without_marks(lines):
            at = f"{line.time:{_TIME}} " if self._timestamps and line.time else ""
            self._stream.write(f"{at}[{prefix(line)}] {self._text(line.message)}\n")
        self._stream.flush()

    def status(self, snapshot: Snapshot) -> None:
        """Write it when the state has changed."""
        if snapshot.state is not self._state:
            self._state = snapshot.state
            self._stream.write(f"-- {snapshot.text}\n")
            self._stream.flush()

    def _text(self, message: str) -> str:
        """As it was written for a pipe or a file, which obey nothing; without commands for a terminal."""
        return safe(message, colour=True) if self._stream.isatty() else message

    def close(self) -> None:
        """Nothing is open."""


class Terminal:
    """Log lines that scroll above one live line of state, metrics and cost."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)
        self._live.start()

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Print them above the live line."""
        from rich.text import Text

        for line in without_marks(lines):
            style = "red" if line.severity in ("ERROR", "CRITICAL") else "dim" if line.rank is None else ""
            self._console.print(
                Text(f"{prefix(line):>5} │ ", style="cyan").append(
                    Text.from_ansi(safe(line.message, colour=True), style=style)
                )
            )

    def status(self, snapshot: Snapshot) -> None:
        """Renew the live line."""
        from rich.text import Text

        text = Text(snapshot.text, style=f"bold {_COLOURS.get(snapshot.state, 'blue')}")
        losses = [value for _, value in snapshot.metrics.series("loss")]
        if losses:
            text.append(f"\nloss {sparkline(losses, width=60)}", style="magenta")
        self._live.update(text)

    def close(self) -> None:
        """Leave the last state standing."""
        self._live.stop()
