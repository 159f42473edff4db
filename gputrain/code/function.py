"""A function becomes a script: its own source and what it uses, by value and without pickle."""

from __future__ import annotations
import __future__

import ast
import builtins
import dis
import inspect
import linecache
import logging
import math
import os
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from inspect import getattr_static
from types import CodeType, FunctionType, ModuleType
from typing import Any

from gputrain.errors import FieldError, SpecError
from gputrain.fields import invalid
from gputrain.text import looks_secret, secret_type

MAX_CHARS = 1 << 20
"""A constant larger than this is data: it belongs in a file."""

_FIELD = "function"
_FROM_ENV = "read it from the environment inside the function: secrets={'NAME': 'secret://...'}"
_HEAD = "import os\nimport sys\n\nsys.path.insert(0, os.getcwd())\n"
"""The script may lie elsewhere than the source folder, which is where it runs."""


def as_script(function: Callable[..., object], arguments: Mapping[str, object] | None = None) -> str:
    """The text of a script that calls ``function``, with the arguments that it is given as JSON, if any.

    It holds the source of the function and of the functions, classes and constants of its own module that it
    uses; what comes from other modules is imported again. Raises SpecError with all that cannot travel.
    """
    plain = check_call(function, {} if arguments is None else arguments)
    script = _Script(plain)
    script.define(plain.__name__, plain)
    given = "" if arguments is None else "**__import__('json').loads(__import__('sys').argv[2])"
    return script.text(f"{plain.__name__}({given})")


def check_call(function: Callable[..., object], given: Mapping[str, object]) -> FunctionType:
    """The plain function, where it can travel and takes these arguments. Raises SpecError otherwise."""
    name = getattr(function, "__name__", repr(function))
    inner = inspect.unwrap(function)
    if not isinstance(inner, FunctionType) or inner.__name__ == "<lambda>":
        expected = "a function written with def, not a lambda or another callable"
        raise invalid(_FIELD, name, expected, "wrap the call: def train(): ...")
    if inspect.iscoroutinefunction(inner) or inspect.isgeneratorfunction(inner):
        expected = "a plain function: a coroutine or generator does nothing yet"
        raise invalid(_FIELD, name, expected, "call asyncio.run in it")
    parameters = inspect.signature(inner).parameters.values()
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if missing := [one.name for one in named if one.default is one.empty and one.name not in given]:
        fix = f"functools.partial({name}, {', '.join(f'{one}=...' for one in missing)}), or give defaults"
        raise invalid(_FIELD, name, f"a function that is given all it wants: {', '.join(missing)}", fix)
    try:
        inspect.signature(inner).bind(**given)
    except TypeError as error:
        expected = f"a function that takes what it is given: {error}"
        raise invalid(_FIELD, name, expected, f"def {name}({', '.join(given)})") from error
    return inner


class _Script:
    """Collects what a script needs, each once: imports, constants, definitions."""

    def __init__(self, function: FunctionType) -> None:
        self._home = function.__module__
        self._globals = function.__globals__
        self._flags = function.__code__.co_flags & __future__.annotations.compiler_flag
        self._origin = f"{function.__qualname__} of {function.__module__}"
        self._imports: dict[str, None] = {}
        self._constants: dict[str, str] = {}
        self._definitions: dict[str, str] = {}
        self._seen: set[str] = set()
        self._faults: list[FieldError] = []

    def define(self, name: str, definition: FunctionType | type) -> None:
        """Take in a function or class of the home module, and all that it uses."""
        self._seen.add(name)
        plain = inspect.unwrap(definition) if isinstance(definition, FunctionType) else definition
        if isinstance(plain, FunctionType) and plain.__code__.co_freevars:
            outer = ", ".join(plain.__code__.co_freevars)
            self._fault(name, f"it closes over {outer}", "pass them as defaults or globals")
            return
        try:
            source = source_of(definition)
            needed, set_here = global_names(compile(source, "<function>", "exec", self._flags, True))
        except (OSError, SyntaxError, TypeError) as error:
            self._fault(name, f"its source cannot be found ({error})", "write it in a file and use script=")
            return
        if form := secret_type(source):
            self._fault(name, f"what looks like a secret is in it ({form})", _FROM_ENV)
        for other in needed:
            if other in self._globals or other not in set_here:
                self._need(other, source)
        self._definitions[name] = source
        if definition.__name__ != name:
            self._definitions[name] += f"\n{name} = {definition.__name__}\n"

    def _need(self, name: str, source: str) -> None:
        value = self._globals.get(name, _ABSENT)
        if isinstance(value, ModuleType):
            self._import_module(name, value, source)
        if name in self._seen or self._is_pythons(name):
            return
        self._seen.add(name)
        if value is _ABSENT:
            self._fault(name, "it is not defined", "define or import it before the job is submitted")
        elif isinstance(value, ModuleType):
            pass
        elif isinstance(value, (FunctionType, type)) and value.__module__ == self._home:
            self.define(name, value)
        elif statement := _import_statement(name, value):
            self._imports[statement] = None
        else:
            self._keep(name, value)

    def _is_pythons(self, name: str) -> bool:
        """Whether Python's own is meant. A notebook adds to them, and has an ``open`` of its own."""
        is_hidden = name in self._globals and not _is_notebooks(self._globals[name])
        return hasattr(builtins, name) and not is_hidden and not _is_notebooks(getattr(builtins, name))

    def _import_module(self, name: str, module: ModuleType, source: str) -> None:
        full = _PUBLIC.get(module.__name__, module.__name__)
        if full == "__main__":
            self._fault(name, "it is the main program itself", "use its names directly")
            return
        self._imports[f"import {full}" + f" as {name}" * (name != full)] = None
        # `import torch` alone may lack `torch.utils.data`: import what is named and loaded
        for chain in sorted(set(re.findall(rf"(?<![\w.]){re.escape(name)}((?:\.\w+)+)", source))):
            for end in (found.start() for found in re.finditer(r"\.|$", chain) if found.start()):
                if module.__name__ + chain[:end] in sys.modules:
                    self._imports[f"__import__({module.__name__ + chain[:end]!r})"] = None  # binds no name

    def _keep(self, name: str, value: object) -> None:
        try:
            text = expression(value)
        except CannotTravel as why:
            fix = "make it inside the function; what is large, save to a file and load it there"
            self._fault(name, f"{why}, which cannot be written as source", fix)
            return
        if looks_secret(text):
            self._fault(name, "it looks like a secret", _FROM_ENV)
        self._constants[name] = text

    def _fault(self, name: str, why: str, fix: str) -> None:
        self._faults.append(FieldError(field=_FIELD, value=name, expected=why, fix=fix))

    def text(self, call: str) -> str:
        """The whole script. Raises SpecError with everything that cannot travel."""
        if self._faults:
            text = "\n".join(f"  {one.value}: {one.expected}. Try: {one.fix}" for one in self._faults)
            raise SpecError(f"{self._origin} cannot be uploaded:\n{text}", faults=tuple(self._faults))
        future = "from __future__ import annotations\n" if self._flags else ""
        parts = [f"# Made from {self._origin}.\n{future}{_HEAD}"]
        parts.append("".join(f"{statement}\n" for statement in self._imports))
        parts.append("".join(f"{constant} = {text}\n" for constant, text in self._constants.items()))
        parts += self._definitions.values()
        parts.append(f'if __name__ == "__main__":\n    {call}\n')
        return "\n".join(filter(None, parts))


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


def source_of(definition: FunctionType | type) -> str:
    """The source of a function or class, flush left. Raises OSError: it was typed, or made by ``exec``."""
    try:
        return textwrap.dedent(inspect.getsource(definition))
    except (OSError, TypeError):
        if isinstance(definition, FunctionType):
            raise
    # The __main__ of a notebook has no file that inspect could read, but its cells are kept.
    for name in reversed(list(linecache.cache)):
        text = "".join(linecache.getlines(name))
        try:
            found = [one for one in ast.parse(text).body if isinstance(one, ast.ClassDef)]
        except (SyntaxError, ValueError):
            continue
        for node in reversed(found):
            if node.name == definition.__name__:
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                return "\n".join(text.splitlines()[first - 1 : node.end_lineno]) + "\n"
    raise OSError("its source is kept nowhere")


def global_names(code: CodeType) -> tuple[list[str], set[str]]:
    """The names that a module's code reads and does not bind, Python's own among them; those that its
    functions set as ``global``.

    >>> global_names(compile("def f(x): global N; N = len(x) + OFFSET", "", "exec"))
    (['len', 'OFFSET'], {'N'})
    """
    is_set: set[str] = set()
    bound = {one.argval for one in dis.get_instructions(code) if one.opname == "STORE_NAME"}
    read: dict[str, None] = {}
    for one in dis.get_instructions(code):
        if (
            one.opname in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS")
            and one.argval not in bound
        ):
            read[one.argval] = None
        elif one.opname == "STORE_GLOBAL":
            is_set.add(one.argval)
    for inner in (one for one in code.co_consts if isinstance(one, CodeType)):
        read_inside, set_inside = global_names(inner)
        read.update(dict.fromkeys(read_inside))
        is_set |= set_inside
    own = bound if code.co_name == "<module>" else ()  # what a class binds, its methods do not see
    return [name for name in read if name not in own and not name[:2] == name[-2:] == "__"], is_set


class CannotTravel(Exception):
    """No expression makes this value again; the text says why."""


def expression(value: object) -> str:
    """An expression that makes an equal value, independent of the names around it. Raises CannotTravel.

    >>> expression({"lr": 3e-4, "betas": (0.9, 0.999)})
    "{'lr': 0.0003, 'betas': (0.9, 0.999)}"
    """
    try:
        text = _write(value)
    except (RecursionError, ValueError) as error:  # a value that holds itself; more digits than Python writes
        raise CannotTravel(f"it is too large ({error})") from None
    if len(text) > MAX_CHARS:
        raise CannotTravel(f"it is too large ({len(text):,} characters)")
    return text


def _write(value: Any) -> str:
    if isinstance(value, logging.Logger):
        return f"__import__('logging').getLogger({value.name!r})"
    if type(value) not in _WRITERS:  # by the very class: a subclass, as pandas' Timedelta, is another value
        raise CannotTravel(f"it is a {type(value).__module__}.{type(value).__qualname__}")
    return _WRITERS[type(value)](value)


def _parts(value: Any) -> str:
    return ", ".join(map(_write, value))


def _float(value: float) -> str:
    return repr(value) if math.isfinite(value) else f"__import__('builtins').float({str(value)!r})"


_WRITERS: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((type(None), bool, int, str, bytes), repr),
    float: _float,
    list: lambda it: f"[{_parts(it)}]",
    tuple: lambda it: f"({_parts(it)}{',' * (len(it) == 1)})",
    dict: lambda it: "{" + ", ".join(f"{_write(key)}: {_write(one)}" for key, one in it.items()) + "}",
    set: lambda it: f"{{{', '.join(sorted(map(_write, it))) or '*()'}}}",
    frozenset: lambda it: f"__import__('builtins').frozenset([{', '.join(sorted(map(_write, it)))}])",
    re.Pattern: lambda it: f"__import__('re').compile({it.pattern!r}, {int(it.flags)})",
    # A path of this machine's kind is one of the other machine's kind there: Linux makes no WindowsPath.
    type(pathlib.Path()): lambda it: f"__import__('pathlib').Path({it.as_posix()!r})",
}
