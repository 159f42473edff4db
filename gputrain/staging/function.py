"""A function becomes a script: its own source and what it uses, by value and without pickle."""

from __future__ import annotations
import __future__

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from gputrain.errors import Fault, SpecError
from gputrain.fields import refused
from gputrain.spec import looks_secret
from gputrain.staging.code import (
    CannotTravel,
    dotted_names,
    expression,
    modules_of,
    names_needed,
    names_set,
    source_of,
)

_FIELD = "function"
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
    given = "" if arguments is None else "**json.loads(sys.argv[2])"
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
        for other in needed:
            if other in self._globals or other not in set_here:
                self._need(other)
        self._import_parts(source)
        self._definitions[name] = source
        if definition.__name__ != name:
            self._definitions[name] += f"\n{name} = {definition.__name__}\n"

    def _need(self, name: str) -> None:
        if name in self._seen:
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

    def _import_module(self, name: str, module: types.ModuleType) -> None:
        full = module.__name__
        if full == "__main__":
            self._fault(name, "it is the main program itself", "use its names directly")
        elif name == full.partition(".")[0]:
            self._imports[f"import {full}"] = None
        else:
            self._imports[f"import {full} as {name}"] = None

    def _import_parts(self, source: str) -> None:
        """``import torch`` alone may lack ``torch.utils.data``: import what is named and loaded."""
        for chain in sorted(dotted_names(source)):
            head, _, rest = chain.partition(".")
            value = self._globals.get(head)
            full = f"{value.__name__}.{rest}" if isinstance(value, types.ModuleType) else ""
            if full in sys.modules and not full.startswith("__main__"):
                self._imports[f"import {full}"] = None

    def _keep(self, name: str, value: object) -> None:
        if isinstance(value, str) and looks_secret(value):
            self._fault(name, "it looks like a secret", "read it from the environment inside the function")
            return
        try:
            text = expression(value)
        except CannotTravel as why:
            kind = f"{type(value).__module__}."
            hint = next((hint for start, hint in _HINTS if kind.startswith(start)), _INSIDE)
            self._fault(name, f"{why}, which cannot be written as source", hint)
            return
        for module in modules_of(text):
            self._imports[f"import {module}"] = None
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
        parts = [f"# Made from {self._origin}.\n"]
        if self._has_future:
            parts[0] += "from __future__ import annotations\n"
        # The script may lie elsewhere than the source folder, which is where it runs.
        parts[0] += "import json\nimport os\nimport sys\n\nsys.path.insert(0, os.getcwd())\n"
        parts.append("".join(f"{statement}\n" for statement in self._imports))
        parts.append("".join(f"{constant} = {text}\n" for constant, text in self._constants.items()))
        parts += self._definitions.values()
        parts.append(f'if __name__ == "__main__":\n    {name}({given})\n')
        return "\n".join(part for part in parts if part)


def _import_statement(name: str, value: Any) -> str:
    """The statement that imports a value under a name; empty where no module holds it."""
    own_name = getattr(value, "__name__", None)
    for module in (getattr(value, "__module__", None), type(value).__module__):
        for attribute in dict.fromkeys((own_name, name)):
            holder = sys.modules.get(module) if isinstance(module, str) else None
            if holder is None or module == "__main__" or not isinstance(attribute, str):
                continue
            if getattr(holder, attribute, _ABSENT) is value:
                renamed = "" if attribute == name else f" as {name}"
                return f"from {module} import {attribute}{renamed}"
    return ""


_ABSENT = object()


def _refuse(name: str, allowed: str, fix: str) -> None:
    raise refused(_FIELD, name, allowed, fix)
