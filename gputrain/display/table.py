"""A table that shows itself: aligned text, rich in a terminal, html in a notebook."""

from __future__ import annotations

import enum
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from gputrain.text import escape_html, sanitize

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

STYLES = {
    "fits": "green", "ok": "green", "succeeded": "green", "running": "blue", "unknown": "yellow",
    "cancelled": "yellow", "interrupted": "yellow", "short": "red", "fault": "red", "failed": "red",
    "expired": "red",
}  # fmt: skip
"""The colour of a cell that holds nothing but one of these states."""
COLOURS = {"green": "#1e9e4a", "red": "#d93025", "yellow": "#b06000", "blue": "#1a73e8"}
"""The same in html, readable on white and on a dark page."""

MOST_ROWS, MOST_COLUMNS, LONGEST_CELL, LONGEST_CAPTION = 200, 40, 200, 2000
"""What a notebook shows of a table."""
SENTENCE = 10
"""Characters that a column of sentences needs to be readable."""
DROPPED_FIRST = ("for", "backend", "model")
"""Columns with one value in all rows, in the order in which a narrow terminal drops them; then the others,
from the right."""


def cut(text: str, most: int = LONGEST_CELL) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def as_cell(value: object) -> str:
    """A value as text for a cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(as_cell, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={as_cell(one)}" for name, one in value.items())
    if isinstance(value, enum.Enum):
        return sanitize(str(value.value))
    return "" if value is None else sanitize(str(value))


def _as_columns(columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(sanitize, columns))


def _as_rows(rows: Iterable[Iterable[object]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(map(as_cell, row)) for row in rows)


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

    title: str = attrs.field(default="", converter=sanitize)
    columns: tuple[str, ...] = attrs.field(converter=_as_columns)
    rows: tuple[tuple[str, ...], ...] = attrs.field(converter=_as_rows)
    right: tuple[str, ...] = ()
    """Names of the columns that are flush right (figures)."""
    caption: str = attrs.field(default="", converter=sanitize)

    def __str__(self) -> str:
        widths = self._widths
        head = [self.columns, ["-" * width for width in widths]] if self._has_head else []
        lines = [self.title] if self.title else []
        for row in (*head, *self.rows):
            cells = zip(self.columns, row, widths)
            texts = (cell.rjust(w) if name in self.right else cell.ljust(w) for name, cell, w in cells)
            lines.append("  ".join(texts).rstrip())
        return "\n".join([*lines, self.caption] if self.caption else lines)

    @property
    def brief(self) -> Table:
        """As much of it as a page holds, with a count of what is left out."""
        more = {"rows": len(self.rows) - MOST_ROWS, "columns": len(self.columns) - MOST_COLUMNS}
        left_out = [f"and {count} more {what}" for what, count in more.items() if count > 0]
        return Table(
            title=cut(self.title),
            columns=[cut(name) for name in self.columns[:MOST_COLUMNS]],
            rows=[[cut(cell) for cell in row[:MOST_COLUMNS]] for row in self.rows[:MOST_ROWS]],
            right=tuple(map(cut, self.right)),
            caption="\n".join(filter(None, (*left_out, cut(self.caption, LONGEST_CAPTION)))),
        )

    def _repr_html_(self) -> str:
        head = f"<thead><tr>{self._html_row('th', self.columns)}</tr></thead>" if self._has_head else ""
        body = "".join(f"<tr>{self._html_row('td', row)}</tr>" for row in self.rows)
        title = f"<caption>{escape_html(self.title)}</caption>" if self.title else ""
        lines = "<br>".join(map(escape_html, self.caption.splitlines()))
        note = f"<p><small>{lines}</small></p>" if lines else ""
        return f"<table>{title}{head}<tbody>{body}</tbody></table>{note}"

    def _html_row(self, tag: str, row: Sequence[str]) -> str:
        cells = []
        for name, cell in zip(self.columns, row):
            style = f"text-align:{'right' if name in self.right else 'left'}"
            if tag == "td" and cell in STYLES:
                style += f";color:{COLOURS[STYLES[cell]]}"
            cells.append(f'<{tag} style="{style}">{escape_html(cell)}</{tag}>')
        return "".join(cells)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": str(self.brief), "text/html": self.brief._repr_html_()}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A grid where it fits, the fields of each row below each other where not."""
        from rich.text import Text

        def text(line: str, style: str = "") -> Text:
            # "ignore": a terminal wraps what is too wide by itself, so that it is copied in one piece
            is_whole = options.overflow == "ignore"
            return Text(line, style=style, no_wrap=is_whole, overflow=options.overflow or "fold")

        table, widths = self._fitted(options.max_width)
        if table.title:
            yield Text(table.title, style="italic")
        if widths is None:
            yield from map(text, table._fields(options.max_width))
        elif len(widths) == 1 and not table._has_head:
            yield from (text(line) for (cell,) in table.rows for line in wrapped(cell, options.max_width))
        else:
            yield table._grid(widths)
        for caption in table.caption.splitlines():
            yield from (text(line, "dim") for line in wrapped(caption, options.max_width))

    @property
    def _has_head(self) -> bool:
        return any(map(str.strip, self.columns))

    @property
    def _has_pairs(self) -> bool:
        """Whether each row is a name and its value."""
        return self.columns in (("", " "), ("field", "value"))

    @property
    def _cells(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(name, tuple(row[n] for row in self.rows)) for n, name in enumerate(self.columns)]

    @property
    def _widths(self) -> list[int]:
        return [max(map(len, (name, *cells))) for name, cells in self._cells]

    @property
    def _least(self) -> list[int]:
        """The least width of each column that breaks no figure and no word."""
        least = []
        for most, (name, cells) in zip(self._widths, self._cells):
            if name in self.right:
                least.append(max(map(len, (*name.split(), *cells)), default=0))
            else:
                least.append(max(_longest_word(name, *cells), min(most, SENTENCE)))
        return least

    def _fitted(self, width: int) -> tuple[Table, list[int] | None]:
        """The table with as few columns left out as needed, and its widths; None: no grid fits.

        Rather without a column of one value than with sentences in several lines; of a list rather without
        its last columns than without a grid.
        """
        is_list = len(self.rows) > 1 and not self._has_pairs
        same = [name for name, cells in self._cells if len(self.rows) > 1 and len(set(cells)) == 1]
        order = [name for name in DROPPED_FIRST if name in same]
        order += [name for name in reversed(same) if name not in order]
        tables = [self._without(order[:count]) for count in range(min(len(order) + 1, len(self.columns)))]
        kept = tables[-1].columns
        last = [tables[-1]._without(kept[count:]) for count in range(len(kept) - 1, 1, -1) if is_list]
        tries = [(table, table._widths) for table in tables]
        tries += [(table, table._least) for table in (*tables, *last)]
        for table, least in tries:
            if _room(least) <= width:
                return table, _shrunk(table._widths, least, width)
        return tables[-1], None

    def _without(self, names: Sequence[str]) -> Table:
        """The table with a line in its caption in place of these columns."""
        kept = [n for n, name in enumerate(self.columns) if name not in names]
        gone = [(name, cells) for name, cells in self._cells if name in names]
        same = ", ".join(f"{name} {cells[0]}" for name, cells in gone if len(set(cells)) == 1 and cells[0])
        other = ", ".join(name for name, cells in gone if len(set(cells)) > 1)
        lines = (same and f"every row: {same}", other and f"left out here: {other}", self.caption)
        return attrs.evolve(
            self,
            columns=[self.columns[n] for n in kept],
            rows=[[row[n] for n in kept] for row in self.rows],
            caption="\n".join(filter(None, lines)),
        )

    def _grid(self, widths: Sequence[int]) -> Any:
        from rich import box
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid(
            box=box.SIMPLE_HEAD, show_header=self._has_head, show_edge=False, pad_edge=False,
            padding=(0, 1, 0, 0),
        )  # fmt: skip
        for name, width in zip(self.columns, widths):
            justify: Any = "right" if name in self.right else "left"
            grid.add_column(Text(name), justify=justify, width=width, overflow="fold")
        for row in self.rows:
            grid.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
        return grid

    def _fields(self, width: int) -> Iterator[str]:
        """Each row as lines of a name and a value; a value that is too wide has lines of its own."""
        rows = [tuple((name, cell) for name, cell in zip(self.columns, row) if cell) for row in self.rows]
        groups = [self.rows] if self._has_pairs else rows
        for number, group in enumerate(groups):
            if number:
                yield ""
            indent = max((len(name) for name, _ in group), default=0) + 2
            for name, value in group:
                if _longest_word(value) > width - indent:
                    yield from (name, *(f"  {line}" for line in wrapped(value, width - 2)))
                else:
                    first, *more = wrapped(value, width - indent)
                    yield from (name.ljust(indent) + first, *(" " * indent + line for line in more))


def _room(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _shrunk(widths: list[int], least: Sequence[int], width: int) -> list[int]:
    """The widths, the widest columns made narrower until all fit."""
    while _room(widths) > width:
        wide = [n for n, low in enumerate(least) if widths[n] > low]
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _longest_word(*texts: str) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)


def wrapped(text: str, width: int, *, indent: int | None = None, end: str = "") -> list[str]:
    """Lines of a width; a path in quotes and a command stay as they are.

    Args:
        indent: of the lines after the first; default: that of a list's item, as its first.
        end: stands behind each line but the last, so that a command is one.
    """
    if text.startswith((" ", "'")):
        return [text]
    mark = re.match(r"(?:- |\[\d+\] )?", text)
    hanging = " " * (indent if indent is not None else mark.end() if mark else 0)
    lines = textwrap.wrap(
        text, max(width - len(end), 1), subsequent_indent=hanging, break_long_words=False,
        break_on_hyphens=False,
    ) or [""]  # fmt: skip
    return [*(line + end for line in lines[:-1]), lines[-1]]


class TableDisplay:
    """A value that shows itself as its `table`: by ``print``, in a terminal under rich, in a notebook.

    An attrs value without a `table` of its own has one of its fields.
    """

    __slots__ = ()

    @property
    def table(self) -> Table:
        """Each field that is not empty and its value; fields of values inside it are listed too."""
        return Table(title=type(self).__name__, columns=("field", "value"), rows=_fields_of(self))

    def _parts(self) -> Sequence[Table]:
        """The tables that are shown, one below the other."""
        return (self.table,)

    def __str__(self) -> str:
        return "\n\n".join(map(str, self._parts()))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        parts = [part.brief for part in self._parts()]
        return {
            "text/plain": "\n\n".join(map(str, parts)),
            "text/html": "".join(part._repr_html_() for part in parts),
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, part in enumerate(self._parts()):
            yield from ("", part) if number else (part,)


class TextDisplay:
    """A value that shows itself as text with its own line ends: by ``print``, and in a notebook."""

    __slots__ = ()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": sanitize(str(self))}


def _fields_of(value: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    for name in attrs.fields_dict(type(value)):
        field, inner = f"{prefix}{name.replace('_', ' ')}", getattr(value, name)
        if isinstance(inner, TableDisplay) and attrs.has(type(inner)):
            yield from _fields_of(inner, f"{field}: ")
        elif inner not in ("", None, (), {}):
            yield field, f"{inner:g}" if isinstance(inner, float) else inner
