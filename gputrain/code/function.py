"""A function becomes a script: its own source and what it uses, by value and without pickle."""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import linecache
import logging
import math
import os
import pathlib
import re
import symtable
import sys
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from inspect import getattr_static
from types import FunctionType
from typing import Any

from gputrain.errors import FieldError, SpecError
from gputrain.fields import invalid
from gputrain.text import looks_secret, secret_type

_FIELD = "function"
_UNSAID = "read it from the environment inside the function: secrets={'NAME': 'secret://...'}"
_INSIDE = "make it inside the function"
_HINTS = (
    ("_io.", "open the file inside the function"),
    ("torch.", "make it inside the function, or save it to a file and load it there"),
    ("numpy.", "make it inside the function, or save it to a file and load it there"),
    ("_thread.", "make the lock inside the function"),
    ("socket.", "connect inside the function"),
)


def as_script(function: Callable[..., object], arguments: Mapping[str, object] | None = None) -> str:
    """The text of a script that calls ``function``, with the arguments that it is given as JSON, if any.

    It holds the source of the function and of the functions, classes and constants of its own module that it
    uses; what comes from other modules is imported again, also from those beside the script.

    Raises:
        SpecError: the function has no source, has to be given arguments, is a closure, or uses something
            that is bound to this process; with all faults.
    """
    plain = check_call(function, {} if arguments is None else arguments)
    travel = _Travel(plain)
    travel.define(plain.__name__, plain)
    travel.raise_if_any()
    given = "" if arguments is None else "**__import__('json').loads(__import__('sys').argv[2])"
    return travel.script(plain.__name__, given)


def check_call(function: Callable[..., object], given: Mapping[str, object]) -> types.FunctionType:
    """The plain function, where it can travel and takes these arguments. Raises SpecError otherwise."""
    name = getattr(function, "__name__", repr(function))
    inner = inspect.unwrap(function)
    if not isinstance(inner, types.FunctionType):
        _refuse(name, "a function written with def", "wrap the call: def train(): ...")
    if inner.__name__ == "<lambda>":
        _refuse(name, "a function written with def, not a lambda", "def train(): ...")
    if inspect.iscoroutinefunction(inner) or inspect.isgeneratorfunction(inner):
        _refuse(name, "a plain function: a coroutine or generator does nothing yet", "call asyncio.run in it")
    needed = [
        one.name
        for one in inspect.signature(inner).parameters.values()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    missing = [one for one in needed if one not in given]
    if missing:
        fix = (
            f"functools.partial({name}, {', '.join(f'{one}=...' for one in missing)}), or give them defaults"
        )
        _refuse(name, f"a function that is given all it wants: {', '.join(missing)}", fix)
    try:
        inspect.signature(inner).bind(**given)
    except TypeError as error:
        _refuse(name, f"a function that takes what it is given: {error}", f"def {name}({', '.join(given)})")
    assert isinstance(inner, types.FunctionType)
    return inner


class _Travel:
    """Collects what a script needs, each once: imports, constants, definitions."""

    def __init__(self, function: types.FunctionType) -> None:
        self._home = function.__module__
        self._globals = function.__globals__
        self._has_future = bool(function.__code__.co_flags & __future__.annotations.compiler_flag)
        self._origin = f"{function.__qualname__} of {function.__module__}"
        self._imports: dict[str, None] = {}
        self._constants: dict[str, str] = {}
        self._definitions: dict[str, str] = {}
        self._seen: dict[str, int] = {}
        self._faults: list[FieldError] = []

    def define(self, name: str, definition: types.FunctionType | type) -> None:
        """Take in a function or class of the home module, and all that it uses."""
        self._seen[name] = id(definition)
        plain = inspect.unwrap(definition) if isinstance(definition, types.FunctionType) else definition
        closed_over = plain.__code__.co_freevars if isinstance(plain, types.FunctionType) else ()
        if closed_over:
            self._fault(name, f"it closes over {', '.join(closed_over)}", "pass them as defaults or globals")
            return
        try:
            source = source_of(definition)
            needed, set_here = names_needed(source), names_set(source)
        except (OSError, SyntaxError, TypeError) as error:
            self._fault(name, f"its source cannot be found ({error})", "write it in a file and use script=")
            return
        if form := secret_type(source):
            self._fault(name, f"what looks like a secret is in it ({form})", _UNSAID)
        for other in needed:
            if other in self._globals or other not in set_here:
                self._need(other)
        self._import_parts(source)
        self._definitions[name] = source
        if definition.__name__ != name:
            self._definitions[name] += f"\n{name} = {definition.__name__}\n"

    def _need(self, name: str) -> None:
        if name in self._seen or self._is_pythons(name):
            return
        if name not in self._globals:
            self._fault(name, "it is not defined", "define or import it before the job is submitted")
            return
        value = self._globals[name]
        self._seen[name] = id(value)
        if isinstance(value, types.ModuleType):
            self._import_module(name, value)
        elif isinstance(value, (types.FunctionType, type)) and value.__module__ == self._home:
            self.define(name, value)
        elif statement := _import_statement(name, value):
            self._imports[statement] = None
        else:
            self._keep(name, value)

    def _is_pythons(self, name: str) -> bool:
        """Whether Python's own is meant. A notebook adds to them, and has an ``open`` of its own."""
        is_hidden = name in self._globals and not _is_notebooks(self._globals[name])
        return hasattr(builtins, name) and not is_hidden and not _is_notebooks(getattr(builtins, name))

    def _import_module(self, name: str, module: types.ModuleType) -> None:
        full = _PUBLIC.get(module.__name__, module.__name__)
        if full == "__main__":
            self._fault(name, "it is the main program itself", "use its names directly")
        else:
            self._imports[f"import {full}" + f" as {name}" * (name != full)] = None

    def _import_parts(self, source: str) -> None:
        """``import torch`` alone may lack ``torch.utils.data``: import what is named and loaded."""
        for chain in sorted(dotted_names(source)):
            head, _, rest = chain.partition(".")
            value = self._globals.get(head)
            full = f"{value.__name__}.{rest}" if isinstance(value, types.ModuleType) else ""
            if full in sys.modules and not full.startswith("__main__"):
                self._imports[f"__import__({full!r})"] = None  # binds no name

    def _keep(self, name: str, value: object) -> None:
        try:
            text = expression(value)
        except CannotTravel as why:
            kind = f"{type(value).__module__}."
            hint = next((hint for start, hint in _HINTS if kind.startswith(start)), _INSIDE)
            self._fault(name, f"{why}, which cannot be written as source", hint)
            return
        if looks_secret(text):
            self._fault(name, "it looks like a secret", _UNSAID)
        self._constants[name] = text

    def _fault(self, name: str, why: str, fix: str) -> None:
        self._faults.append(FieldError(field=_FIELD, value=name, expected=why, fix=fix))

    def raise_if_any(self) -> None:
        """Raise SpecError with everything that cannot travel."""
        if self._faults:
            text = "\n".join(f"  {one.value}: {one.expected}. Try: {one.fix}" for one in self._faults)
            raise SpecError(f"{self._origin} cannot be uploaded:\n{text}", faults=tuple(self._faults))

    def script(self, name: str, given: str) -> str:
        """The whole script; what is given stands between the brackets of the call."""
        head = f"# Made from {self._origin}.\n"
        if self._has_future:
            head += "from __future__ import annotations\n"
        # The script may lie elsewhere than the source folder, which is where it runs.
        parts = [head + "import os\nimport sys\n\nsys.path.insert(0, os.getcwd())\n"]
        parts.append("".join(f"{statement}\n" for statement in self._imports))
        parts.append("".join(f"{constant} = {text}\n" for constant, text in self._constants.items()))
        parts += self._definitions.values()
        parts.append(f'if __name__ == "__main__":\n    {name}({given})\n')
        return "\n".join(part for part in parts if part)


def _import_statement(name: str, value: Any) -> str:
    """The statement that imports a value under a name; empty where no module holds it."""
    own_name = getattr(value, "__name__", None)
    for module in (getattr(value, "__module__", None), type(value).__module__):
        for public in _public(module) if isinstance(module, str) and module != "__main__" else ():
            for attribute in dict.fromkeys((own_name, name)):
                holder = sys.modules.get(public)  # and never ask it: a lazy one may load anything
                if isinstance(attribute, str) and getattr_static(holder, attribute, _ABSENT) is value:
                    renamed = "" if attribute == name else f" as {name}"
                    return f"from {public} import {attribute}{renamed}"
    return ""


def _public(module: str) -> Iterator[str]:
    """Where what a module holds may be had, first by a name that another system or release has, too:
    of Python 3.13, ``Path`` says ``pathlib._local``, which no other has."""
    parts = module.split(".")
    yield from filter(None, [_PUBLIC.get(module)])
    yield from (".".join(parts[: number + 1]) for number in range(len(parts)))


_PUBLIC = {"nt": "os", "posix": "os", os.path.__name__: "os.path"}
_ABSENT = object()


def _is_notebooks(value: object) -> bool:
    return str(getattr(value, "__module__", "")).startswith("IPython.")


def _refuse(name: str, allowed: str, fix: str) -> None:
    raise invalid(_FIELD, name, allowed, fix)


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
    ((re.Pattern,), lambda pattern: _of("re", f"compile({pattern.pattern!r}, {int(pattern.flags)})")),
)
"""By the very class: a subclass, such as pandas' Timedelta, is another value."""
