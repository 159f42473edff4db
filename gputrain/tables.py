"""A table that shows itself: aligned text, rich in a terminal, html in a notebook."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from gputrain.terminal import safe, safe_html

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable

_READABLE = 10
"""Characters that a column of sentences needs to be read."""
STYLES = {
    "fits": "green", "ok": "green", "succeeded": "green", "running": "blue", "unknown": "yellow",
    "cancelled": "yellow", "interrupted": "yellow", "short": "red", "fault": "red", "failed": "red",
    "expired": "red",
}  # fmt: skip
"""The colour of a cell that is nothing but one of our verdicts or states."""
COLOURS = {"green": "#1e9e4a", "red": "#d93025", "yellow": "#b06000", "blue": "#1a73e8"}
"""The same in html: each is read on white and on a dark page."""


MOST_ROWS, MOST_COLUMNS, LONGEST_CELL, LONGEST_CAPTION = 200, 40, 200, 2000
"""What a table shows of itself where nobody asked for all of it: in the cell of a notebook, say."""


def cut(text: str, most: int = LONGEST_CELL) -> str:
    """The text, or its beginning.

    >>> cut("gradient_norm", 9)
    'gradient…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _as_columns(columns: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(safe, columns))


def _as_rows(rows: Iterable[Iterable[object]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(map(as_cell, row)) for row in rows)


def as_cell(value: object) -> str:
    """A value as a table tells it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(as_cell, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={as_cell(one)}" for name, one in value.items())
    if isinstance(value, enum.Enum):
        return safe(str(value.value))
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

    @property
    def brief(self) -> Table:
        """As much of it as a page bears, whatever others wrote into it: what is left out is counted."""
        more = {"rows": len(self.rows) - MOST_ROWS, "columns": len(self.columns) - MOST_COLUMNS}
        told = [f"and {count} more {what}" for what, count in more.items() if count > 0]
        return Table(
            title=cut(self.title),
            columns=[cut(name) for name in self.columns[:MOST_COLUMNS]],
            rows=[[cut(cell) for cell in row[:MOST_COLUMNS]] for row in self.rows[:MOST_ROWS]],
            right=tuple(map(cut, self.right)),
            caption="\n".join(filter(None, (*told, cut(self.caption, LONGEST_CAPTION)))),
        )

    def _lines(self) -> Iterator[str]:
        if self.title:
            yield self.title
        widths = self._widths
        if self._has_head:
            yield self._line(self.columns, widths)
            yield "  ".join("-" * width for width in widths)
        yield from (self._line(row, widths) for row in self.rows)
        if self.caption:
            yield self.caption

    def _line(self, row: Sequence[str], widths: list[int]) -> str:
        aligned = (
            cell.rjust(width) if name in self.right else cell.ljust(width)
            for name, cell, width in zip(self.columns, row, widths)
        )
        return "  ".join(aligned).rstrip()

    def _repr_html_(self) -> str:
        head = f"<thead><tr>{self._html_row('th', self.columns)}</tr></thead>" if self._has_head else ""
        body = "".join(f"<tr>{self._html_row('td', row)}</tr>" for row in self.rows)
        title = f"<caption>{safe_html(self.title)}</caption>" if self.title else ""
        lines = "<br>".join(map(safe_html, self.caption.splitlines()))
        note = f"<p><small>{lines}</small></p>" if lines else ""
        return f"<table>{title}{head}<tbody>{body}</tbody></table>{note}"

    def _html_row(self, tag: str, row: Sequence[str]) -> str:
        cells = []
        for name, cell in zip(self.columns, row):
            style = f"text-align:{'right' if name in self.right else 'left'}"
            if tag == "td" and cell in STYLES:
                style += f";color:{COLOURS[STYLES[cell]]}"
            cells.append(f'<{tag} style="{style}">{safe_html(cell)}</{tag}>')
        return "".join(cells)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        brief = self.brief
        return {"text/plain": str(brief), "text/html": brief._repr_html_()}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Columns where they fit, the fields of each row below each other where not; no word is broken."""
        from rich.text import Text

        width = options.max_width
        fits = _room(self._widths) <= width
        table = self if fits or len(self.rows) < 2 else self._without_repeats()
        widths = table._fitted(width)
        if table.title:
            yield Text(table.title, style="italic")
        # what is too wide is left to a terminal to wrap, where one says so: it copies it in one piece
        how: Any = {"no_wrap": options.overflow == "ignore", "overflow": options.overflow or "fold"}
        if widths is None:
            yield from (Text(line, **how) for line in table._fields(width))
        else:
            yield table._grid(widths)
        for said in table.caption.splitlines():
            yield from (Text(line, style="dim", **how) for line in _wrapped(said, width, ""))

    @property
    def _has_head(self) -> bool:
        return any(map(str.strip, self.columns))

    @property
    def _widths(self) -> list[int]:
        return [max(map(len, (name, *cells))) for name, cells in self._named_cells]

    @property
    def _named_cells(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(name, tuple(row[n] for row in self.rows)) for n, name in enumerate(self.columns)]

    def _without_repeats(self) -> Table:
        """What stands in every row is said once, in the caption."""
        same = [n for n, (_, cells) in enumerate(self._named_cells) if len(set(cells)) == 1]
        kept = [n for n in range(len(self.columns)) if n not in same] or [0]
        said = (f"{self.columns[n]} {self.rows[0][n]}" for n in same if n not in kept and self.rows[0][n])
        repeats = ", ".join(said)
        return attrs.evolve(
            self,
            columns=[self.columns[n] for n in kept],
            rows=[[row[n] for n in kept] for row in self.rows],
            caption="\n".join(filter(None, (repeats and f"every row: {repeats}", self.caption))),
        )

    def _fitted(self, width: int) -> list[int] | None:
        """The widths at which no figure and no word is broken; None where that is too wide."""
        widths = self._widths
        least = [
            max(_longest_word(name), *map(len, cells), 0)
            if name in self.right
            else max(_longest_word(name, *cells), min(most, _READABLE))
            for most, (name, cells) in zip(widths, self._named_cells)
        ]
        while _room(widths) > width:
            spare = [now - low for now, low in zip(widths, least)]
            if max(spare, default=0) <= 0:
                return None
            widest = max((n for n, left in enumerate(spare) if left), key=widths.__getitem__)
            widths[widest] -= 1
        return widths

    def _grid(self, widths: Sequence[int]) -> RichTable:
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            box=box.SIMPLE_HEAD,
            show_header=self._has_head,
            show_edge=False,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for name, width in zip(self.columns, widths):
            table.add_column(
                Text(name), justify="right" if name in self.right else "left", width=width, overflow="fold"
            )
        for row in self.rows:
            table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
        return table

    def _fields(self, width: int) -> Iterator[str]:
        """Each row as lines of a name and a value; a value that is too wide has lines of its own."""
        rows = [tuple((name, cell) for name, cell in zip(self.columns, row) if cell) for row in self.rows]
        groups = [self.rows] if self.columns in (("", " "), ("field", "value")) else rows  # pairs already
        for number, group in enumerate(groups):
            if number:
                yield ""
            indent = max((len(name) for name, _ in group), default=0) + 2
            for name, value in group:
                if _longest_word(value) > width - indent:
                    yield from (name, *_wrapped(value, width - 2, "  "))
                else:
                    yield "\n".join(_wrapped(value, width - indent, " " * indent)).replace(
                        " " * indent, name.ljust(indent), 1
                    )


def _room(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _longest_word(*texts: str) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    lines = textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False)
    return [indent + line for line in lines] or [indent]


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
        parts = [part.brief for part in self._parts()]
        plain, html_ = "\n\n".join(map(str, parts)), "".join(part._repr_html_() for part in parts)
        return {"text/plain": plain, "text/html": html_}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._parts()


class Told:
    """A value that shows itself as text whose lines stay as they are: by ``print``, and in a notebook."""

    __slots__ = ()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": safe(str(self))}


def _of_fields(value: Any, prefix: str = "") -> Iterator[tuple[str, object]]:
    for name in attrs.fields_dict(type(value)):
        field, inner = f"{prefix}{name.replace('_', ' ')}", getattr(value, name)
        if isinstance(inner, Shown) and attrs.has(type(inner)):
            yield from _of_fields(inner, f"{field}: ")
        elif inner not in ("", None, (), {}):
            yield field, f"{inner:g}" if isinstance(inner, float) else inner
