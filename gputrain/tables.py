"""A table that shows itself: aligned text, rich in a terminal, html in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from gputrain.terminal import safe

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


_ROOMS = ((24, 10), (16, 6), (8, 4))
"""Characters of a name that is not broken, and of what a column of sentences needs to be read: the first pair
that a terminal has room for.
"""
_STYLES = {"fits": "green", "ok": "green", "unknown": "yellow", "short": "red", "fault": "red"}
"""How a terminal colours a cell that is nothing but one of our verdicts."""


def _as_columns(columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(safe, columns))


def _as_rows(rows: Iterable[Iterable[object]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(map(_as_cell, row)) for row in rows)


def _as_cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(_as_cell, value))
    return "" if value is None else safe(str(value))


@attrs.frozen(kw_only=True)
class Table:
    """Rows of text under named columns.

    >>> print(Table(title="GPUs", columns=("kind", "GiB"), rows=[("L4", 24), ("H100", 80)], right=("GiB",)))
    GPUs
    kind  GiB
    ----  ---
    L4     24
    H100   80
    """

    title: str = attrs.field(default="", converter=safe)
    columns: tuple[str, ...] = attrs.field(converter=_as_columns)
    rows: tuple[tuple[str, ...], ...] = attrs.field(converter=_as_rows)
    right: tuple[str, ...] = ()
    """Names of the columns whose cells are set flush right (figures)."""
    caption: str = attrs.field(default="", converter=safe)

    def __attrs_post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"row {row!r} has {len(row)} cells for {len(self.columns)} columns")

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.title:
            yield self.title
        cells = [list(self.columns), *(list(row) for row in self.rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        for number, row in enumerate(cells):
            yield self._line(row, widths)
            if number == 0:
                yield "  ".join("-" * width for width in widths)
        if self.caption:
            yield self.caption

    def _line(self, row: list[str], widths: list[int]) -> str:
        aligned = (
            cell.rjust(width) if name in self.right else cell.ljust(width)
            for name, cell, width in zip(self.columns, row, widths)
        )
        return "  ".join(aligned).rstrip()

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th style="text-align:{"right" if name in self.right else "left"}">{html.escape(name)}</th>'
            for name in self.columns
        )
        body = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:{"right" if name in self.right else "left"}">{html.escape(cell)}</td>'
                for name, cell in zip(self.columns, row)
            )
            + "</tr>"
            for row in self.rows
        )
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        lines = "<br>".join(map(html.escape, self.caption.splitlines()))
        note = f"<p><small>{lines}</small></p>" if lines else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}

    def _unbroken(self, width: int) -> frozenset[str]:
        """Columns of figures and short names, which sentences give way to; none where all is too narrow."""
        cells = {name: [row[number] for row in self.rows] for number, name in enumerate(self.columns)}
        widths = {name: max(map(len, (name, *column))) for name, column in cells.items()}
        words = {name for name, column in cells.items() if not any(" " in cell for cell in column)}
        for short, least in _ROOMS:
            kept = {name for name in cells if name in self.right or (name in words and widths[name] <= short)}
            room = sum(widths[name] if name in kept else min(widths[name], least) for name in cells)
            if room + 2 * (len(cells) - 1) <= width:
                return frozenset(kept)
        return frozenset()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            title=Text(self.title) if self.title else None,
            caption=Text(self.caption) if self.caption else None,
            box=box.SIMPLE_HEAD,
            title_justify="left",
            caption_justify="left",
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        keeps = self._unbroken(options.max_width)
        for name in self.columns:
            # what does not fit is folded, never cut off: names and commands are there to be copied
            table.add_column(
                Text(name),
                justify="right" if name in self.right else "left",
                overflow="fold",
                no_wrap=name in keeps,
            )
        for row in self.rows:
            table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
        yield table


class Shown:
    """A value that shows itself as its `table`: by ``print``, in a terminal under rich, in a notebook.

    An attrs value that says nothing else has a table of its fields.
    """

    __slots__ = ()

    @property
    def table(self) -> Table:
        """Each field and its value; empty ones are left out, values inside it spread out."""
        return Table(title=type(self).__name__, columns=("field", "value"), rows=_of_fields(self))

    def _parts(self) -> Sequence[Table]:
        """The tables that are shown, one below the other."""
        return (self.table,)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self._parts()))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        parts = self._parts()
        plain, html_ = "\n\n".join(map(str, parts)), "".join(part._repr_html_() for part in parts)
        return {"text/plain": plain, "text/html": html_}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._parts()


def _of_fields(value: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    for name in attrs.fields_dict(type(value)):
        field, inner = f"{prefix}{name.replace('_', ' ')}", getattr(value, name)
        if isinstance(inner, Shown) and attrs.has(type(inner)):
            yield from _of_fields(inner, f"{field}: ")
        elif inner not in ("", None, ()):
            yield field, f"{inner:g}" if isinstance(inner, float) else inner
