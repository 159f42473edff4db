"""From the entry of a spec to the folder it runs in and the words that start it there."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import inspect
import json
import os
import shlex
import shutil
import sys
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import attrs

from gputrain.errors import Fault, SpecError
from gputrain.spec import EntryKind, TrainingSpec
from gputrain.spec.entry import ARGUMENTS
from gputrain.staging.survey import reading

FUNCTION_FILE = "gputrain_function.py"
"""Name of the script that a function becomes."""


@attrs.frozen(kw_only=True)
class CodeSource:
    """The code of a job as it lies on this machine."""

    folder: str
    """Absolute; the job runs in it, or in a copy of it."""
    argv: tuple[str, ...]
    """What follows ``--`` on the entrypoint's command line."""
    made_files: Mapping[str, str] = MappingProxyType({})
    """Files that have to be written first, by the name that ``argv`` calls them by."""


def resolve(spec: TrainingSpec, *, installed: bool) -> CodeSource:
    """Find the entry of a spec. Reads the file system, and writes nothing.

    Args:
        spec: what to run.
        installed: whether modules and programs of this machine will be there when the job runs,
            as they are when it runs on this machine. Otherwise the folder will be sent somewhere.

    Raises:
        SpecError: a file, folder, module or program is not there, a function cannot travel, or the folder
            that would be sent is a home directory.
    """
    folder = folder_of(spec)
    with reading(folder):
        return _resolved(spec, folder, installed)


def _resolved(spec: TrainingSpec, folder: str, installed: bool) -> CodeSource:
    if not os.path.isdir(folder):
        fix = f"check the path; it starts at {os.getcwd()}"
        if spec.source_dir is None and spec.script is not None:  # nobody has named the folder alone
            _refuse(
                "script", script_of(spec), f"a Python file that exists (there is no folder {folder})", fix
            )
        _refuse("source_dir", folder, "a folder that exists", fix)
    if not installed:
        _check_modest(folder)
    _check_requirements(spec, folder)
    match spec.entry_kind:
        case EntryKind.SCRIPT:
            return _script(spec, folder)
        case EntryKind.MODULE:
            return _module(spec, folder, installed)
        case EntryKind.COMMAND:
            return _command(spec, folder, installed)
    return _function(spec, folder)


def folder_of(spec: TrainingSpec) -> str:
    """The folder that a job runs in, or in a copy of: ``source_dir``, or where its entry lies."""
    if spec.source_dir is not None:
        return os.path.abspath(os.path.expanduser(spec.source_dir))
    if spec.script is not None:
        return os.path.dirname(os.path.abspath(os.path.expanduser(spec.script)))
    return _home_of(spec.function) if spec.function is not None else os.getcwd()


def script_of(spec: TrainingSpec) -> str:
    """The absolute path of its script; empty where it runs something else."""
    if spec.script is None:
        return ""
    name = os.path.expanduser(spec.script)
    return os.path.join(folder_of(spec), name) if spec.source_dir is not None else os.path.abspath(name)


def _home_of(function: Callable[..., object]) -> str:
    """The folder from which the modules beside a function are imported; for a notebook, the current one."""
    inner = inspect.unwrap(function)
    code = getattr(inner, "__code__", None)
    file = os.path.abspath(code.co_filename) if code is not None else ""
    if not os.path.isfile(file) or {"site-packages", "dist-packages"} & set(file.split(os.sep)):
        return os.getcwd()
    is_package = os.path.basename(file) == "__init__.py"
    for _ in range(inner.__module__.count(".") + is_package):
        file = os.path.dirname(file)
    return os.path.dirname(file)


def below(path: str, folder: str, *, system: types.ModuleType = os.path) -> str:
    """An absolute path from a folder on, with ``/``, as Linux reads it; empty where it is not inside.

    Args:
        system: ``posixpath`` or ``ntpath``; this machine's.

    >>> import ntpath
    >>> below("C:\\\\p\\\\sub\\\\train.py", "c:\\\\p", system=ntpath)
    'sub/train.py'
    >>> below("D:\\\\p", "C:\\\\p", system=ntpath)
    ''
    """
    try:
        parts = system.relpath(path, folder).split(system.sep)
    except ValueError:  # on another drive of Windows
        return ""
    return "" if parts[0] == os.pardir else "/".join(parts)


def _check_modest(folder: str) -> None:
    """A home directory, or a folder above it, holds keys and other people's files: none of that travels."""
    home, sent = os.path.realpath(os.path.expanduser("~")), os.path.realpath(folder)
    if below(home, sent):
        is_top = os.path.dirname(sent) == sent
        what = sent if is_top else "a home directory" if below(sent, home) else "folders of others"
        fix = "put the code into a folder of its own and name that: source_dir='my-project'"
        _refuse("source_dir", folder, f"a folder of code, not {what}: all in it would be sent", fix)


def _check_requirements(spec: TrainingSpec, folder: str) -> None:
    """A file of requirements belongs to the source: it is read where the job runs."""
    if spec.requirements[:1] != ("-r",):
        return
    path = os.path.join(folder, spec.requirements[1])
    if not os.path.isfile(path):
        _refuse("requirements", path, "a file that exists", _near(path))
    if not below(path, folder):
        fix = "put it there, or list the requirements themselves"
        _refuse("requirements", path, f"a file inside {folder}", fix)


def _script(spec: TrainingSpec, folder: str) -> CodeSource:
    assert spec.script is not None
    path = script_of(spec)
    inside = below(path, folder)
    if not os.path.isfile(path):
        what = "a folder" if os.path.isdir(path) else "not there"
        named = below(os.path.abspath(os.path.expanduser(spec.script)), folder)
        fix = "name a Python file in it" if os.path.isdir(path) else _near(path)
        if named and os.path.isfile(os.path.join(folder, named)):
            fix = f"it is named from source_dir on: script={named!r}"
        _refuse("script", path, f"a Python file that exists (it is {what})", fix)
    if not inside:
        _refuse("script", path, f"a file inside source_dir, {folder}", "name a source_dir that holds it")
    if not inside.endswith(".py"):
        _refuse("script", path, "a file whose name ends in .py", _instead_of(inside))
    _check_python(path, inside)
    return CodeSource(folder=folder, argv=(inside, *spec.args))


def _instead_of(inside: str) -> str:
    """What runs a file that is no Python."""
    if inside.endswith(".ipynb"):
        return f"`jupyter nbconvert --to script {shlex.quote(inside)}` makes one of it"
    return f"command={['sh', inside]}" if inside.endswith(".sh") else "command=[...] runs any other program"


def _check_python(path: str, inside: str) -> None:
    """A slip of the pen is told before machines are paid for; nothing of the file is run."""
    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(file.read(), path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        release = ".".join(map(str, sys.version_info[:2]))
        allowed = f"what Python {release} reads (line {line}: {getattr(error, 'msg', error)})"
        fix = f"mend that line; what is written for a newer Python runs by command={['python3', inside]}"
        _refuse("script", path, allowed, fix)
    except (MemoryError, RecursionError):  # deeper than the parser goes: whoever runs it will tell
        return


def _module(spec: TrainingSpec, folder: str, installed: bool) -> CodeSource:
    assert spec.module is not None
    if not _is_module(spec.module, folder, installed):
        fix = "name the source_dir that holds it, and check its spelling"
        if spec.module.endswith(".py"):
            fix = f"script={spec.module!r}, or module={spec.module[: -len('.py')]!r}"
        _refuse("module", spec.module, f"a module that `python -m` finds in {folder}", fix)
    return CodeSource(folder=folder, argv=("-m", spec.module, *spec.args))


def _is_module(name: str, folder: str, installed: bool) -> bool:
    """Whether ``python -m name``, started in the folder, finds something to run. Nothing is imported."""
    top, *rest = name.split(".")
    if _can_run([folder], [top, *rest]):
        return True
    found = importlib.util.find_spec(top) if installed and top not in ("__main__", "") else None
    if found is None:
        return False
    if found.submodule_search_locations is None:
        return not rest
    return _can_run(list(found.submodule_search_locations), rest or ["__main__"])


def _can_run(folders: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether one of the folders holds that module, or that package with a ``__main__``.

    The files are looked at themselves: the import machinery would first have to import the packages above.
    """
    for folder in folders:
        path = os.path.join(folder, *parts)
        stems = (path, os.path.join(path, "__main__"))
        if any(
            os.path.isfile(stem + suffix) for stem in stems for suffix in importlib.machinery.all_suffixes()
        ):
            return True
    return False


def _command(spec: TrainingSpec, folder: str, installed: bool) -> CodeSource:
    assert spec.command is not None
    program = spec.command[0]
    search = spec.env.get("PATH", os.environ.get("PATH", os.defpath))
    here = os.path.join(folder, program) if os.sep in program else program
    if installed and shutil.which(here, path=search) is None:
        fix = "check the name; give a path, or put its folder on PATH"
        if os.path.isfile(here):
            fix = f"let it be executed: chmod +x {shlex.quote(program)}"
        _refuse("command", program, "a program that can be run here", fix)
    return CodeSource(folder=folder, argv=spec.command)


def _function(spec: TrainingSpec, folder: str) -> CodeSource:
    from gputrain.staging.function import as_script

    assert spec.function is not None
    is_given = len(spec.args) == 2 and spec.args[0] == ARGUMENTS
    text = as_script(spec.function, json.loads(spec.args[1]) if is_given else None)
    return CodeSource(folder=folder, argv=(FUNCTION_FILE, *spec.args), made_files={FUNCTION_FILE: text})


def _near(path: str) -> str:
    import difflib

    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        return f"check the path: there is no folder {folder}"
    if os.path.lexists(path):
        return "name a file: this is a pipe, a device or a link to nothing"
    there = os.listdir(folder)
    near = [one for one in there if one == f"{name}.py"] or difflib.get_close_matches(name, there, n=1)
    return f"did you mean {near[0]}?" if near else f"check the path; {folder} holds nothing of a similar name"


def _refuse(field: str, value: str, allowed: str, fix: str) -> None:
    fault = Fault(field=field, value=repr(value), allowed=allowed, fix=fix)
    raise SpecError(f"the spec has 1 fault:\n  {fault}", faults=(fault,))
