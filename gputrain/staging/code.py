"""The source of functions, classes and constants, wherever they were written, and the names it needs."""

from __future__ import annotations

import ast
import builtins
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
    """The names that the source reads and neither binds itself nor finds among Python's own, in order.

    >>> names_needed("def f(x): return len(x) + OFFSET")
    ['OFFSET']
    """
    top = symtable.symtable(source, "<function>", "exec")
    bound = {
        symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    found = {name for table in _tables(top) for name in _read_globally(table)}
    free = found - bound - set(vars(builtins)) - {"__name__", "__file__"}
    order = [node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(order) if name in free]


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
    """An expression that makes an equal value, with modules called by their own names.

    Raises:
        CannotTravel: the value is bound to this process, or too large.

    >>> expression({"lr": 3e-4, "betas": (0.9, 0.999)})
    "{'lr': 0.0003, 'betas': (0.9, 0.999)}"
    """
    text = _write(value, depth=0)
    if len(text) > MAX_CHARS:
        raise CannotTravel(f"it is too large ({len(text):,} characters)")
    return text


def modules_of(text: str) -> set[str]:
    """The modules that an expression of `expression` needs imported.

    >>> modules_of(expression(pathlib.PurePosixPath("a")))
    {'pathlib'}
    """
    return {
        module for module in ("datetime", "fractions", "logging", "pathlib", "re") if f"{module}." in text
    }


def _write(value: Any, depth: int) -> str:
    if depth > 50:
        raise CannotTravel("it holds itself, or is nested too deep")
    if type(value) is float and not math.isfinite(value):
        return f"float({str(value)!r})"
    if value is None or value is ... or type(value) in (bool, int, float, str, bytes, range):
        return repr(value) if value is not ... else "..."
    if type(value) is complex:
        return f"complex({_write(value.real, depth)}, {_write(value.imag, depth)})"
    if type(value) in _CONTAINERS:
        return _CONTAINERS[type(value)]([_write(one, depth + 1) for one in value])
    if type(value) is dict:
        pairs = (f"{_write(key, depth + 1)}: {_write(one, depth + 1)}" for key, one in value.items())
        return "{" + ", ".join(pairs) + "}"
    for kind, write in _OTHERS:
        if isinstance(value, kind):
            return write(value)
    raise CannotTravel(f"it is a {type(value).__module__}.{type(value).__qualname__}")


_CONTAINERS: dict[type, Callable[[list[str]], str]] = {
    list: lambda parts: f"[{', '.join(parts)}]",
    tuple: lambda parts: f"({', '.join(parts)}{',' if len(parts) == 1 else ''})",
    set: lambda parts: f"{{{', '.join(sorted(parts))}}}" if parts else "set()",
    frozenset: lambda parts: f"frozenset([{', '.join(sorted(parts))}])",
}
_OTHERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (pathlib.PurePath, lambda path: f"pathlib.{type(path).__name__}({str(path)!r})"),
    (timedelta, lambda span: repr(span)),
    (Fraction, lambda number: f"fractions.{number!r}"),
    (re.Pattern, lambda pattern: f"re.compile({pattern.pattern!r}, {int(pattern.flags)})"),
    (logging.Logger, lambda logger: f"logging.getLogger({logger.name!r})"),
)
