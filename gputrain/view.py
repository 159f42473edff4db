"""What a person sees while a job runs: rich text in a terminal, html in a notebook, plain lines on request,
and nothing at all when gputrain works inside another program.

A cell of a notebook renews itself, at most twice a second and only when something is new: static html and
SVG, readable in light and dark; ``text/plain`` beside it for exports and consoles.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal, TextIO, get_args

import attrs

from gputrain.backends.base import LogLine
from gputrain.causes import EXCEPTION
from gputrain.entrypoint import contract
from gputrain.fields import Field, read_whole, word as one_word
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics, figure, sparkline
from gputrain.progress import Progress
from gputrain.spec import format_duration
from gputrain.tables import COLOURS, STYLES, cut
from gputrain.terminal import safe, safe_html

ProgressWord = Literal["auto", "rich", "plain", "none"]
PROGRESS: tuple[str, ...] = get_args(ProgressWord)
_AS = {"progress": Field(one_word("", *PROGRESS), "one of " + ", ".join(PROGRESS), "leave it out")}
_TIME = "%Y-%m-%dT%H:%M:%S%z"


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
    def colour(self) -> str:
        """That of its state."""
        return STYLES.get(self.state.value, "blue")

    @property
    def text(self) -> str:
        """One line of it."""
        parts = [self.title, self.state.value, format_duration(self.elapsed)]
        last, progress = self.metrics.last, self.metrics.progress
        if progress is not None:
            left = "" if self.state.is_terminal else progress.left
            parts.append(f"step {progress.step:,} of {progress.total:,} ({progress.share:.0%}){left}")
        elif "step" in last:
            parts.append(f"step {last['step']:,}")
        names = self.metrics.names[:NAMES]  # the table has them all
        parts += [f"{cut(name, LONGEST)} {cut(figure(last[name]), LONGEST)}" for name in names]
        if self.gpu_busy is not None:
            parts.append(f"GPUs {self.gpu_busy:.0f} %")
        if self.cost_usd:
            parts.append(f"${self.cost_usd:,.2f}")
        if self.detail and (self.failure is None or self.failure.kind != EXCEPTION.kind):  # the log says it
            parts.append(self.detail)
        return safe(" · ".join(parts))


class View:
    """Something that shows a job: of what it does not say itself, nothing."""

    def lines(self, lines: Sequence[LogLine]) -> None:
        """New log lines."""

    def status(self, snapshot: Snapshot) -> None:
        """Where the job stands now."""

    def close(self) -> None:
        """The watching has ended."""


class Quiet(View):
    """Shows nothing: we work inside another program."""


def place_of(progress: str | None = None) -> str:
    """How it is shown: ``notebook``, ``rich``, ``plain`` or ``none``; as ``$GPUTRAIN_PROGRESS`` unless said.

    Raises:
        SpecError: no such word.
    """
    word = (os.environ.get("GPUTRAIN_PROGRESS") or "auto") if progress is None else progress
    word = read_whole("", _AS, {"progress": word})["progress"] or "auto"
    if word not in ("none", "plain") and in_notebook():
        return "notebook"
    auto = "rich" if sys.stderr is not None and sys.stderr.isatty() else "none"
    return auto if word == "auto" or sys.stderr is None else word  # a service may have closed its streams


def choose(progress: str | None = None) -> View:
    """The view of a job for where we are. Raises as `place_of`."""
    views = {"none": Quiet, "plain": lambda: PlainLines(sys.stderr), "notebook": Notebook, "rich": Terminal}
    return views[place_of(progress)]()


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


class PlainLines(View):
    """One line of text for each log line, and for each change of state."""

    def __init__(self, stream: TextIO, *, timestamps: bool = False) -> None:
        self._stream = stream
        self._timestamps = timestamps
        self._state: State | None = None

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Write them, each with its rank."""
        obeys = self._stream.isatty()  # a pipe or a file gets what was written, a terminal no commands
        for line in without_marks(lines):
            at = f"{line.time:{_TIME}} " if self._timestamps and line.time else ""
            text = safe(line.message, colour=True) if obeys else line.message
            self._stream.write(f"{at}[{prefix(line)}] {text}\n")
        self._stream.flush()

    def status(self, snapshot: Snapshot) -> None:
        """Write it when the state has changed."""
        if snapshot.state is not self._state:
            self._state = snapshot.state
            self._stream.write(f"-- {snapshot.text}\n")
            self._stream.flush()


class Terminal(View):
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
            said = Text.from_ansi(safe(line.message, colour=True), style=style)
            self._console.print(Text(f"{prefix(line):>5} │ ", style="cyan").append(said), soft_wrap=True)

    def status(self, snapshot: Snapshot) -> None:
        """Renew the live line."""
        from rich.text import Text

        text = Text(snapshot.text, style=f"bold {snapshot.colour}")
        losses = [value for _, value in snapshot.metrics.series("loss")]
        if losses:
            text.append(f"\nloss {sparkline(losses, width=60)}", style="magenta")
        self._live.update(text)

    def close(self) -> None:
        """Leave the last state standing, and the line ended."""
        self._live.stop()
        if not self._console.is_terminal:  # there it ends the line itself
            self._console.line()


LINES, NAMES, LONGEST = 20, 8, 40
BETWEEN_S = 0.5  # two redraws are at least so far apart

_MONO = "font-family:monospace;white-space:pre-wrap;text-align:left"


@attrs.frozen
class CellPage:
    """What a cell shows."""

    html: str
    text: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}


class Cell:
    """The place of one live display; it is made where it is first shown."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        from importlib import import_module

        self._display = import_module("IPython.display")  # loaded already: we are in its kernel
        self._clock = clock
        self._handle: Any = None
        self._shown: tuple[float, object] = (float("-inf"), None)
        self._left: tuple[object, Callable[[], CellPage]] | None = None

    def show(self, what: object, draw: Callable[[], CellPage], *, at_once: bool = False) -> None:
        """Draw, where ``what`` is not what is shown already, and the last drawing is long enough ago."""
        at, shown = self._shown
        if what == shown:
            return
        if not at_once and self._clock() - at < BETWEEN_S:
            self._left = what, draw
            return
        self._left, page = None, draw()
        self._shown = self._clock(), what
        if self._handle is None:
            self._handle = self._display.display(page, display_id=True)
        else:
            self._handle.update(page)

    def close(self) -> None:
        """Draw what was left out."""
        if self._left is not None:
            self.show(*self._left, at_once=True)


class Notebook(View):
    """One job in a cell: its state, the cause of a failure on top, last lines, table and plots of metrics."""

    def __init__(self) -> None:
        self._cell = Cell()
        self._tail: deque[str] = deque(maxlen=LINES)
        self._count = 0
        self._drawn, self._drawing = Metrics(), ""

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Keep the last of them."""
        shown = without_marks(lines)
        self._count += len(shown)
        self._tail.extend(str(line) for line in shown)

    def status(self, snapshot: Snapshot) -> None:
        """Renew the cell."""
        what = (snapshot.state, snapshot.detail, snapshot.metrics.count, self._count)
        self._cell.show(what, lambda: self._page(snapshot), at_once=snapshot.state.is_terminal)

    def _page(self, snapshot: Snapshot) -> CellPage:
        if snapshot.metrics is not self._drawn and snapshot.metrics.rows:
            self._drawn = snapshot.metrics
            self._drawing = snapshot.metrics._repr_mimebundle_()["text/html"]
        log = "\n".join(self._tail)
        is_open = " open" if snapshot.failure is None and not snapshot.state.is_terminal else ""
        parts = [
            f'<b style="color:{COLOURS[snapshot.colour]}">{safe_html(snapshot.text)}</b>',
            bar(snapshot.metrics.progress),
            "" if snapshot.failure is None else cause(snapshot.failure),
            f'<details{is_open}><summary>log</summary><pre style="{_MONO}">{safe_html(log)}</pre></details>'
            if log
            else "",
            self._drawing,
        ]
        return CellPage("".join(parts), f"{snapshot.text}\n{log}".rstrip())

    def close(self) -> None:
        """Show the last that was not shown yet; the cell stays."""
        self._cell.close()


def bar(progress: Progress | None) -> str:
    """How far a run is, as a bar of html; nothing where nobody knows."""
    if progress is None:
        return ""
    style = "width:360px;height:6px;margin:4px 0;background:rgba(128,128,128,0.25)"
    done = f'<div style="width:{progress.share:.1%};height:6px;background:#1a73e8"></div>'
    return f'<div style="{style}">{done}</div>'


def cause(failure: Failure) -> str:
    """Why a job failed, for the top of its cell."""
    where = "" if failure.rank is None else f" on rank {failure.rank}"
    told = failure.traceback or "\n".join(failure.last_lines)
    more = f'<pre style="{_MONO}">{safe_html(told)}</pre>' if told else ""
    style = "border-left:4px solid #d93025;padding:4px 12px;margin:6px 0"
    return f'<div style="{style}"><b>{safe_html(failure.message)}</b>{where}{more}</div>'
