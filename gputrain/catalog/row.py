"""The row: a frozen value with named fields, cheaper to load than an attrs class.

A question put to the catalog from a cold process should cost little more than ``import gputrain``.
attrs and typing alone would cost four times that (measured 2026-11-21: attrs +20 ms, typing +5 ms on 13 ms),
so rows are this small class and the type checker reads them as keyword-only frozen dataclasses.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, ClassVar, NoReturn

    from rich.console import Console, ConsoleOptions, RenderResult
    from typing_extensions import dataclass_transform

    from gputrain.tables import Table
else:

    def dataclass_transform(**_kwargs):
        return lambda cls: cls


class Shown:
    """What shows itself as its `table`: printed, in a terminal under rich, in a notebook as html."""

    __slots__ = ()

    def table(self) -> Table:
        """The rows and columns to show."""
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.table())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return self.table()._repr_mimebundle_()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.table()


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Row(Shown):
    """A frozen value: keyword-only, compared and hashed by its fields, shown as a table of them.

    Fields are the annotations of the subclass; a field with a value on the class has that default.
    """

    _fields: ClassVar[frozenset[str]]
    _required: ClassVar[frozenset[str]]

    def __init_subclass__(cls) -> None:
        cls._fields = frozenset(cls.__annotations__)
        cls._required = frozenset(name for name in cls.__annotations__ if not hasattr(cls, name))

    if not TYPE_CHECKING:  # the type checker builds each subclass's own signature instead

        def __init__(self, **values):
            if not values.keys() <= self._fields or not self._required <= values.keys():
                unknown = sorted(values.keys() - self._fields)
                missing = sorted(self._required - values.keys())
                raise TypeError(f"{type(self).__name__}: missing {missing}, unknown {unknown}")
            vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(mine == getattr(other, name) for name, mine in self._items())

    def __hash__(self) -> int:
        return hash(tuple(value for _, value in self._items()))

    def __repr__(self) -> str:
        """As it is built, defaults left out and rows inside it named by their first field."""
        fields = (f"{name}={_brief(value)}" for name, value in self._items() if value != self._default(name))
        return f"{type(self).__name__}({', '.join(fields)})"

    def _items(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in type(self).__annotations__)

    def _default(self, name: str) -> object:
        return getattr(type(self), name, _NONE)

    def table(self) -> Table:
        """Each field and its value; empty ones are left out, rows inside it spread out."""
        from gputrain.tables import Table

        return Table(title=type(self).__name__, columns=("field", "value"), rows=tuple(self._cells()))

    def _cells(self, prefix: str = "") -> Iterator[tuple[str, str]]:
        for name, value in self._items():
            field = f"{prefix}{name.replace('_', ' ')}"
            if isinstance(value, Row):
                yield from value._cells(f"{field}: ")
            elif value not in ("", None, ()):
                yield field, text(value)


_NONE = object()


def _brief(value: object) -> str:
    if isinstance(value, Row):
        return f"{type(value).__name__}({next(value._items())[1]!r})"
    return repr(value)


def text(value: object) -> str:
    """A value as a person reads it in a table cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(text(one) for one in value)
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)
