"""A function becomes a script: its own source and what it uses, by value and without pickle."""

from __future__ import annotations
import __future__

import builtins
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from inspect import getattr_static
from typing import Any

from gputrain.errors import Fault, SpecError
from gputrain.fields import refused
from gputrain.secrets import form_of, looks_secret
from gputrain.staging.code import (
    CannotTravel,
    dotted_names,
    expression,
    names_needed,
    names_set,
    source_of,
)

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
        self._faults: list[Fault] = []

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
        if form := form_of(source):
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
        self._faults.append(Fault(field=_FIELD, value=name, allowed=why, fix=fix))

    def raise_if_any(self) -> None:
        """Raise SpecError with everything that cannot travel."""
        if self._faults:
            text = "\n".join(f"  {one.value}: {one.allowed}. Fix: {one.fix}" for one in self._faults)
            raise SpecError(f"{self._origin} cannot travel:\n{text}", faults=tuple(self._faults))

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
    raise refused(_FIELD, name, allowed, fix)
