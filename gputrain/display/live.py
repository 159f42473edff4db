"""What a person sees while a job or an experiment runs.

Rich text in a terminal, one cell of static html in a notebook, plain lines on request, and nothing inside
another program.
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
from gputrain.display.plot import sparkline
from gputrain.display.table import COLOURS, STYLES, cut
from gputrain.fields import invalid
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics, Progress, figure
from gputrain.runtime import contract
from gputrain.spec import format_duration
from gputrain.text import escape_html, sanitize

ProgressWord = Literal["auto", "rich", "plain", "none"]
PROGRESS: tuple[str, ...] = get_args(ProgressWord)

BETWEEN_S = 0.5
"""The least time between two redraws."""
PICTURES_S = 10.0
"""The least time between two drawings of plots."""
STATUS_S = 30.0
"""How often plain lines repeat the status."""
LOG_LINES, NAMES, LONGEST = 20, 8, 40
"""What a view shows: lines of the log in a cell, metrics in one line, letters of a metric."""

_TIME = "%Y-%m-%dT%H:%M:%S%z"
_MONO = "font-family:monospace;white-space:pre-wrap;text-align:left"


@attrs.frozen(kw_only=True)
class Status:
    """A job or an experiment at one moment."""

    text: str
    """One line."""
    state: object
    """Plain lines write the text whenever this changes."""
    news: object
    """A cell is drawn again whenever this changes."""
    is_over: bool
    colour: str = "blue"
    lines: tuple[str, ...] = ()
    """What a terminal shows below the text."""
    head: Callable[[], str] = str
    """Html above the log: why something failed."""
    body: Callable[[], str] = str
    """Html below the log: a table."""
    pictures: Callable[[], str] = str
    """Html of plots, which take long to draw."""


def job_status(
    *,
    title: str,
    state: State,
    elapsed: timedelta,
    detail: str = "",
    metrics: Metrics = Metrics(),  # noqa: B008  # frozen
    cost_usd: float | None = None,
    failure: Failure | None = None,
    gpu_busy: float | None = None,
) -> Status:
    """The status of a job; ``gpu_busy`` is in percent."""
    parts = [title, state.value, format_duration(elapsed)]
    last, progress = metrics.last, metrics.progress
    if progress is not None:
        left = "" if state.is_terminal else progress.left
        parts.append(f"step {progress.step:,} of {progress.total:,} ({progress.share:.0%}){left}")
    elif "step" in last:
        parts.append(f"step {last['step']:,}")
    parts += [f"{cut(name, LONGEST)} {cut(figure(last[name]), LONGEST)}" for name in metrics.names[:NAMES]]
    if gpu_busy is not None:
        parts.append(f"GPUs {gpu_busy:.0f} %")
    if cost_usd:
        parts.append(f"${cost_usd:,.2f}")
    is_in_log = failure is not None and failure.kind == EXCEPTION.kind
    if detail and detail != state.value and not is_in_log:
        parts.append(detail)
    losses = [value for _, value in metrics.series("loss")]
    return Status(
        text=sanitize(" · ".join(parts)),
        state=state,
        news=(state, detail, metrics.count),
        is_over=state.is_terminal,
        colour=STYLES.get(state.value, "blue"),
        lines=(f"loss {sparkline(losses, width=60)}",) if losses else (),
        head=lambda: bar(progress) + ("" if failure is None else cause(failure)),
        body=lambda: metrics.table.brief._repr_html_() if metrics.rows else "",
        pictures=lambda: metrics.plot().picture() if metrics.names else "",
    )


class View:
    """Shows nothing: gputrain works inside another program."""

    is_quiet = True

    def __init__(self) -> None:
        self._shown_at = float("-inf")

    def is_due(self) -> bool:
        return not self.is_quiet and time.monotonic() - self._shown_at >= BETWEEN_S

    def lines(self, lines: Sequence[LogLine]) -> None:
        """New log lines."""

    def status(self, status: Status) -> None:  # noqa: ARG002
        self._shown_at = time.monotonic()

    def close(self) -> None:
        """The watching has ended."""


class PlainLines(View):
    """Log lines as they are, and a status whenever the state changes and every 30 s.

    Args:
        stream: for what the ranks wrote.
        ours: for what gputrain says; default: ``stream``.
    """

    is_quiet = False

    def __init__(self, stream: TextIO, ours: TextIO | None = None, *, timestamps: bool = False) -> None:
        super().__init__()
        self._stream, self._ours = stream, ours or stream
        self._timestamps = timestamps
        self._state: object = None
        self._written_at = float("-inf")

    def lines(self, lines: Sequence[LogLine]) -> None:
        for line in user_lines(lines):
            stream = self._ours if line.rank is None else self._stream
            at = f"{line.time:{_TIME}} " if self._timestamps and line.time else ""
            # a pipe or a file gets what was written, a terminal no commands
            text = sanitize(line.message, colour=True) if stream.isatty() else line.message
            stream.write(f"{at}[{'agent' if line.rank is None else line.rank}] {text}\n")
        self._stream.flush()

    def status(self, status: Status) -> None:
        """Write it when the state has changed, or it was written long ago."""
        super().status(status)
        if status.state != self._state or self._shown_at - self._written_at >= STATUS_S:
            self._state, self._written_at = status.state, self._shown_at
            self._ours.write(f"-- {status.text}\n")
            self._ours.flush()


class Terminal(View):
    """Log lines that scroll above a live status."""

    is_quiet = False

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__()
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)
        self._live.start()

    def lines(self, lines: Sequence[LogLine]) -> None:
        from rich.text import Text

        for line in user_lines(lines):
            style = "red" if line.severity in ("ERROR", "CRITICAL") else "dim" if line.rank is None else ""
            text = Text.from_ansi(sanitize(line.message, colour=True), style=style)
            rank = "agent" if line.rank is None else f"{line.rank}"
            self._console.print(Text(f"{rank:>5} │ ", style="cyan").append(text), soft_wrap=True)

    def status(self, status: Status) -> None:
        from rich.text import Text

        super().status(status)
        text = Text(status.text, style=f"bold {status.colour}")
        for line in status.lines:
            text.append(f"\n{sanitize(line)}", style="not bold magenta")
        self._live.update(text)

    def close(self) -> None:
        self._live.stop()
        if not self._console.is_terminal:  # there it ends the line itself
            self._console.line()


class Notebook(View):
    """One cell, which is replaced as a whole: a saved notebook keeps what it showed last."""

    is_quiet = False

    def __init__(self) -> None:
        from importlib import import_module

        super().__init__()
        self._display = import_module("IPython.display")  # loaded already: we are in its kernel
        self._handle: Any = None
        self._tail: deque[str] = deque(maxlen=LOG_LINES)
        self._count = 0
        self._news: object = None
        self._left: Status | None = None
        self._pictures, self._drawn_at = "", float("-inf")

    def lines(self, lines: Sequence[LogLine]) -> None:
        shown = user_lines(lines)
        self._count += len(shown)
        self._tail.extend(map(str, shown))

    def status(self, status: Status) -> None:
        """Renew the cell where there is news, unless that was just done."""
        if (status.news, self._count) == self._news:
            return
        self._left = status
        if self.is_due() or status.is_over:
            self.close()

    def close(self) -> None:
        """Show the last status, if it was not shown yet."""
        if self._left is None:
            return
        status, self._left = self._left, None
        super().status(status)
        self._news = status.news, self._count
        page = self._page(status)
        if self._handle is None:
            self._handle = self._display.display(page, raw=True, display_id=True)
        else:
            self._handle.update(page, raw=True)

    def _page(self, status: Status) -> dict[str, str]:
        if status.is_over or self._shown_at - self._drawn_at >= PICTURES_S:
            self._pictures = status.pictures()
            self._drawn_at = time.monotonic() if self._pictures else float("-inf")
        log = "\n".join(self._tail)
        is_open = "" if status.is_over else " open"
        pre = f'<pre style="{_MONO}">{escape_html(log)}</pre>'
        parts = [
            f'<b style="color:{COLOURS[status.colour]}">{escape_html(status.text)}</b>',
            status.head(),
            f"<details{is_open}><summary>log</summary>{pre}</details>" if log else "",
            status.body(),
            self._pictures,
        ]
        return {"text/html": "".join(parts), "text/plain": f"{status.text}\n{log}".rstrip()}


def display_mode(progress: str | None = None) -> str:
    """``notebook``, ``rich``, ``plain`` or ``none``: as asked, else by ``$GPUTRAIN_PROGRESS``.

    Raises:
        SpecError: no such mode.
    """
    asked = (os.environ.get("GPUTRAIN_PROGRESS") or "auto") if progress is None else progress
    if not isinstance(asked, str) or asked not in PROGRESS:
        raise invalid("progress", asked, f"one of {', '.join(PROGRESS)}", "leave it out")
    if asked not in ("none", "plain") and in_notebook():
        return "notebook"
    if sys.stderr is None:  # a service may have closed it
        return "none"
    return asked if asked != "auto" else "rich" if sys.stderr.isatty() else "none"


def choose(progress: str | None, result: type) -> View:
    """The view for where we are, of a wait that returns such a result. Raises as `display_mode`."""
    mode = display_mode(progress)
    if mode == "notebook":
        show = sys.displayhook  # the kernel sets its own for each cell
        # what a ``wait()`` at the cell's end returns has been shown by the view
        sys.displayhook = lambda value: None if isinstance(value, result) else show(value)
        return Notebook()
    return PlainLines(sys.stdout, sys.stderr) if mode == "plain" else Terminal() if mode == "rich" else View()


def in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def user_lines(lines: Sequence[LogLine]) -> list[LogLine]:
    """The lines without those that are meant for programs."""
    markers = (contract.METRIC_MARKER, contract.GAUGE_MARKER, contract.RESULT_MARKER)
    return [line for line in lines if not line.message.startswith(markers)]


def bar(progress: Progress | None) -> str:
    """How far a run is, as a bar of html; empty where it is not known."""
    if progress is None:
        return ""
    style = "width:360px;height:6px;margin:4px 0;background:rgba(128,128,128,0.25)"
    done = f'<div style="width:{progress.share:.1%};height:6px;background:#1a73e8"></div>'
    return f'<div style="{style}">{done}</div>'


def cause(failure: Failure) -> str:
    """Why a job failed, as html."""
    where = "" if failure.rank is None else f" on rank {failure.rank}"
    text = failure.traceback or "\n".join(failure.last_lines)
    more = f'<pre style="{_MONO}">{escape_html(text)}</pre>' if text else ""
    style = "border-left:4px solid #d93025;padding:4px 12px;margin:6px 0"
    return f'<div style="{style}"><b>{escape_html(failure.message)}</b>{where}{more}</div>'
