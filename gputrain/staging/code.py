"""The source of functions, classes and constants, wherever they were written, and the names it needs."""

from __future__ import annotations

import ast
import inspect
import linecache
import logging
import math
import pathlib
import re
import symtable
import textwrap
from collections.abc import Callable, Iterator
from datetime import timedelta
from fractions import Fraction
from types import FunctionType
from typing import Any


def source_of(definition: FunctionType | type) -> str:
    """The source of a function or class, flush left.

    Raises:
        OSError: it is kept nowhere: the code was typed at a prompt or made by ``exec``.
    """
    if isinstance(definition, type):
        return textwrap.dedent(_source_of_class(definition))
    return textwrap.dedent(inspect.getsource(definition))


def _source_of_class(definition: type) -> str:
    try:
        return inspect.getsource(definition)
    except (OSError, TypeError):
        pass
    # inspect looks in the file of a class's module; the __main__ of a notebook has none, but methods know.
    files = [one.__code__.co_filename for one in vars(definition).values() if isinstance(one, FunctionType)]
    for name in [*files, *reversed(list(linecache.cache))]:
        text = "".join(linecache.getlines(name))
        for node in reversed(_classes(text)):
            if node.name == definition.__name__:
                return _segment(text, node)
    raise OSError("its source is kept nowhere")


def _classes(text: str) -> list[ast.ClassDef]:
    try:
        return [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    except (SyntaxError, ValueError):
        return []


def _segment(text: str, node: ast.ClassDef) -> str:
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : node.end_lineno]) + "\n"


def names_needed(source: str) -> list[str]:
    """The names that the source reads and does not bind itself, Python's own among them, outer ones first.

    >>> names_needed("def f(x): return len(x) + OFFSET")
    ['OFFSET', 'len']
    """
    top = symtable.symtable(source, "<function>", "exec")
    bound = {
        symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    free = {name for table in _tables(top) for name in _read_globally(table)} - bound
    order = [node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(order) if name in free and not _is_given(name)]


def _is_given(name: str) -> bool:
    """Whether every module has it, each its own: ``__name__``."""
    return name.startswith("__") and name.endswith("__")


def names_set(source: str) -> set[str]:
    """The names outside itself that the source sets, having declared them ``global``.

    >>> sorted(names_set("def f(): global N; N = 1"))
    ['N']
    """
    tables = _tables(symtable.symtable(source, "<function>", "exec"))
    symbols = (symbol for table in tables for symbol in table.get_symbols())
    return {one.get_name() for one in symbols if one.is_declared_global() and one.is_assigned()}


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _read_globally(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        is_outer = symbol.is_global() if table.get_type() != "module" else not symbol.is_assigned()
        if symbol.is_referenced() and is_outer:
            yield symbol.get_name()


def dotted_names(source: str) -> set[str]:
    """Every dotted chain that starts at a name: ``torch.distributed.init_process_group`` and its beginnings.

    >>> sorted(dotted_names("a.b.c()"))
    ['a.b', 'a.b.c']
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        parts: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and parts:
            found.add(".".join([inner.id, *parts]))
    return found


MAX_CHARS = 1 << 20
"""A constant larger than this is data: it belongs in a file."""


class CannotTravel(Exception):
    """No expression makes this value again; the text says why."""


def expression(value: object) -> str:
    """An expression that makes an equal value, whatever names stand around it.

    Modules and builtins are called where no name of the user's hides them: beside ``from datetime import
    datetime``, ``datetime.timedelta`` is an AttributeError.

    Raises:
        CannotTravel: the value is bound to this process, or too large.

    >>> expression({"lr": 3e-4, "betas": (0.9, 0.999)})
    "{'lr': 0.0003, 'betas': (0.9, 0.999)}"
    >>> expression(timedelta(hours=1))
    "__import__('datetime').timedelta(seconds=3600)"
    """
    try:
        text = _write(value, depth=0)
    except ValueError as error:  # an integer of more digits than Python writes
        raise CannotTravel(f"it is too large ({error})") from None
    if len(text) > MAX_CHARS:
        raise CannotTravel(f"it is too large ({len(text):,} characters)")
    return text


def _write(value: Any, depth: int) -> str:
    if depth > 50:
        raise CannotTravel("it holds itself, or is nested too deep")
    if value is ...:
        return "..."
    if value is None or type(value) in (bool, int, str, bytes):
        return repr(value)
    if type(value) is float:
        return repr(value) if math.isfinite(value) else _of("builtins", f"float({str(value)!r})")
    if type(value) is complex:
        parts = [_write(part, depth) for part in (value.real, value.imag)]
        return _of("builtins", f"complex({', '.join(parts)})")
    if type(value) in _CONTAINERS:
        return _CONTAINERS[type(value)]([_write(one, depth + 1) for one in value])
    if type(value) is dict:
        pairs = (f"{_write(key, depth + 1)}: {_write(one, depth + 1)}" for key, one in value.items())
        return "{" + ", ".join(pairs) + "}"
    for kinds, write in _OTHERS:
        if type(value) in kinds:
            return write(value)
    if isinstance(value, logging.Logger):
        return _of("logging", f"getLogger({value.name!r})")
    raise CannotTravel(f"it is a {type(value).__module__}.{type(value).__qualname__}")


def _of(module: str, text: str) -> str:
    return f"__import__({module!r}).{text}"


def _path(path: pathlib.PurePath) -> str:
    """A path of this machine's kind is one of the other machine's kind there: Linux makes no WindowsPath."""
    if isinstance(path, pathlib.Path):
        return _of("pathlib", f"Path({path.as_posix()!r})")
    return _of("pathlib", f"{type(path).__name__}({str(path)!r})")


_CONTAINERS: dict[type, Callable[[list[str]], str]] = {
    list: lambda parts: f"[{', '.join(parts)}]",
    tuple: lambda parts: f"({', '.join(parts)}{',' if len(parts) == 1 else ''})",
    set: lambda parts: f"{{{', '.join(sorted(parts)) or '*()'}}}",
    frozenset: lambda parts: _of("builtins", f"frozenset([{', '.join(sorted(parts))}])"),
}
_PATHS = (pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath)
_OTHERS: tuple[tuple[tuple[type, ...], Callable[[Any], str]], ...] = (
    (_PATHS, _path),
    ((range,), lambda span: _of("builtins", repr(span))),
    ((timedelta,), lambda span: _of("datetime", repr(span).removeprefix("datetime."))),
    ((Fraction,), lambda number: _of("fractions", repr(number))),
    ((re.Pattern,), lambda pattern: _of("re", f"compile({pattern.pattern!r}, {int(pattern.flags)})")),
)
"""By the very class: a subclass, such as pandas' Timedelta, is another value."""
