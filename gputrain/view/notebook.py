"""One cell of a notebook that renews itself: at most twice a second, and only when something is new.

Static html and SVG, readable in light and dark; ``text/plain`` beside it for exports and consoles.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from gputrain.backends.base import LogLine
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics
from gputrain.terminal import safe, safe_html
from gputrain.view import Snapshot, prefix, without_marks

LINES = 20
BETWEEN_S = 0.5
"""Two redraws are at least so far apart."""

COLOURS = {
    State.SUCCEEDED: "#1e9e4a", State.FAILED: "#d93025", State.EXPIRED: "#d93025", State.CANCELLED: "#b06000",
}  # fmt: skip
"""Each is read on white and on a dark page; all others are blue."""
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


class Notebook:
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
        self._tail.extend(f"[{prefix(line)}] {safe(line.message)}" for line in shown)

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
            f'<b style="color:{COLOURS.get(snapshot.state, "#1a73e8")}">{safe_html(snapshot.text)}</b>',
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


def cause(failure: Failure) -> str:
    """Why a job failed, for the top of its cell."""
    where = "" if failure.rank is None else f" on rank {failure.rank}"
    told = failure.traceback or "\n".join(failure.last_lines)
    more = f'<pre style="{_MONO}">{safe_html(told)}</pre>' if told else ""
    style = "border-left:4px solid #d93025;padding:4px 12px;margin:6px 0"
    return f'<div style="{style}"><b>{safe_html(failure.message)}</b>{where}{more}</div>'
