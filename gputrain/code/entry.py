"""What a spec runs: its folder, the command line in it, and what is wrong with it before anything is sent.

Files are read and parsed; no user code runs or is imported.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import inspect
import itertools
import json
import os
import re
import shlex
import shutil
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from types import MappingProxyType

import attrs

from gputrain.code.bundle import Archive, Survey, check, pack, reading, survey
from gputrain.errors import FieldError, SpecError
from gputrain.fields import invalid
from gputrain.spec import EntryKind, TrainingSpec
from gputrain.spec.entry import ARGUMENTS
from gputrain.spec.types import Launcher

FUNCTION_FILE = "gputrain_function.py"
"""Name of the script that a function becomes."""

BROUGHT = frozenset({"gputrain", "numpy", "torch"})
"""What every image with PyTorch brings, and the job itself."""
SOLD_AS = {"PIL": "pillow", "cv2": "opencv-python", "sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Imports whose package has another name for pip."""
_LACKED = re.compile(r"^ModuleNotFoundError: No module named '([^'.\n]{1,100})", re.MULTILINE)
_FILE_OPTION = re.compile(r"(?:-r|-c|-e|--requirement|--constraint|--editable)[\s=]*(\S.*)")
_FILE_URL = re.compile(r"(?:^|[\s@])file:(?://)?(/\S+)")
_JOINS = re.compile(
    rb"torch\.distributed|from torch import distributed|gputrain|accelerate|lightning|transformers|deepspeed"
    rb"|horovod|composer|megatron|colossalai|mpi4py|\bray\b|WORLD_SIZE|LOCAL_RANK"
)
"""What a script has in it whose ranks train together."""
_MOST_FILES = 500


@attrs.frozen(kw_only=True)
class CodeSource:
    """The code of a job as it lies on this machine."""

    folder: str
    """Absolute; the job runs in it, or in a copy of it. Empty: nothing travels but the node agent."""
    argv: tuple[str, ...]
    """What follows ``--`` on the entrypoint's command line."""
    made_files: Mapping[str, str] = MappingProxyType({})
    """Files that have to be written first, by the name that ``argv`` calls them by."""

    def pack(self) -> Archive:
        """The code as it travels, with the node agent beside it. Raises SpecError as `bundle.pack`."""
        from gputrain.runtime import zipapp

        made = {name: text.encode() for name, text in self.made_files.items()}
        return pack(self.folder, made={**made, ".gputrain/agent.pyz": zipapp.build()})


@attrs.frozen(kw_only=True)
class CodeFindings:
    """What is wrong with the code, and what may be."""

    faults: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()
    uploads: str = ""
    """How much of it would be sent, and what is held back; empty where nothing is sent."""


def resolve(spec: TrainingSpec, *, installed: bool) -> CodeSource:
    """Find the entry of a spec.

    Args:
        installed: whether the job runs on this machine, where its modules and programs are. Otherwise the
            folder will be sent.

    Raises:
        SpecError: a file, folder, module or program is not there, a function cannot travel, or the folder
            that would be sent is a home directory.
    """
    if spec.runs_image:
        return CodeSource(folder="", argv=())
    folder = folder_of(spec)
    with reading(folder):
        if not os.path.isdir(folder):
            fix = f"check the path; it starts at {os.getcwd()}"
            if spec.source_dir is None and spec.script is not None:
                raise invalid(
                    "script", script_of(spec), "a Python file", fix, problem=f"no folder {folder!r}"
                )
            raise invalid("source_dir", folder, "a folder that exists", fix)
        if not installed:
            _check_not_home(folder)
        _check_requirements(spec, folder, is_sent=not installed)
        match spec.entry_kind:
            case EntryKind.SCRIPT:
                argv: tuple[str, ...] = (_script(spec, folder), *spec.args)
            case EntryKind.MODULE:
                argv = ("-m", _module(spec, folder, installed), *spec.args)
            case EntryKind.COMMAND:
                argv = _command(spec, folder, installed)
            case _:
                return _function(spec, folder)
        return CodeSource(folder=folder, argv=argv)


def examine(spec: TrainingSpec, *, is_sent: bool) -> CodeFindings:
    """Look at the code of a spec, which may be sent to run elsewhere; all that is found comes back."""
    if spec.runs_image:
        return CodeFindings(uploads="nothing is uploaded: the image runs as it is")
    folder = folder_of(spec)
    try:
        with reading(folder):
            resolve(spec, installed=True)
            found = [*arguments_from_here(spec, folder)]
            if spec.script is not None:
                found += [*_imports(spec, folder, is_sent), *_copies(spec, folder)]
            if not is_sent:
                return CodeFindings(warnings=tuple(found))
            _check_requirements(spec, folder, is_sent=True)
            seen = check(survey(folder))
            if spec.command is not None:
                found += _left_behind(spec, seen)
    except SpecError as error:
        return CodeFindings(faults=error.faults)
    return CodeFindings(warnings=(*found, *seen.warnings), uploads=seen.text)


def _left_behind(spec: TrainingSpec, seen: Survey) -> Iterator[str]:
    """A warning of a command whose script is not uploaded: the image's own one is not where it runs."""
    assert spec.command is not None
    program, script, *_ = (*spec.command, "", "")
    runs_scripts = os.path.basename(program).startswith(("python", "bash", "sh"))
    is_file = script.endswith((".py", ".sh")) and not os.path.isabs(script)
    if runs_scripts and is_file and os.path.normpath(script) not in {one.path for one in seen.files}:
        yield (
            f"{script} is not uploaded, and the command runs in a copy of {seen.folder}: to run what is in"
            f" the image, use entrypoint={list(spec.command)!r} instead of the command"
        )


def lacked(spec: TrainingSpec, traceback: str, *, is_sent: bool, python: str = "") -> str:
    """What gives a rank the package that it did not find; empty where its traceback names none."""
    found, folder = _LACKED.search(traceback), folder_of(spec)
    if found is None or _lies_in(folder, found[1]) or found[1] in sys.stdlib_module_names:
        return ""
    if above := _lies_above(folder, found[1]):
        return _from_above(spec, above)
    package = SOLD_AS.get(found[1], found[1])
    if spec.runs_image:
        return f"an image that has {package}"
    if is_sent:
        return f"requirements={[package]}, or an image that brings it"
    return _install([package], python) if python else f"pip install {package}, with the Python that ran it"


def folder_of(spec: TrainingSpec) -> str:
    """The folder that a job runs in, or in a copy of: ``source_dir``, or where its entry lies."""
    if spec.source_dir is not None:
        return os.path.abspath(os.path.expanduser(spec.source_dir))
    if spec.script is not None:
        return os.path.dirname(os.path.abspath(os.path.expanduser(spec.script)))
    return _folder_of_function(spec.function) if spec.function is not None else os.getcwd()


def script_of(spec: TrainingSpec) -> str:
    """The absolute path of its script; empty where it runs something else."""
    if spec.script is None:
        return ""
    name = os.path.expanduser(spec.script)
    return os.path.join(folder_of(spec), name) if spec.source_dir is not None else os.path.abspath(name)


def _folder_of_function(function: Callable[..., object]) -> str:
    """The folder from which the modules beside a function are imported; for a notebook, the current one."""
    inner = inspect.unwrap(function)
    compiled = getattr(inner, "__code__", None)
    file = os.path.abspath(compiled.co_filename) if compiled is not None else ""
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


def _check_not_home(folder: str) -> None:
    """A home directory, or a folder above it, holds keys and other people's files: none of that travels."""
    home, sent = os.path.realpath(os.path.expanduser("~")), os.path.realpath(folder)
    if below(home, sent):
        is_top = os.path.dirname(sent) == sent
        what = sent if is_top else "a home directory" if below(sent, home) else "folders of others"
        fix = "put the code into a folder of its own and name that: source_dir='my-project'"
        raise invalid("source_dir", folder, f"a folder of code, not {what}: all in it would be sent", fix)


def _check_requirements(spec: TrainingSpec, folder: str, *, is_sent: bool) -> None:
    """A file of requirements belongs to the source, and so do the files that it names."""
    if spec.requirements[:1] != ("-r",):
        return
    path = os.path.join(folder, spec.requirements[1])
    if not os.path.isfile(path):
        raise invalid("requirements", path, "a file that exists", _near(path))
    if not below(path, folder):
        fix = "put it there, or list the requirements themselves"
        raise invalid("requirements", path, f"a file inside {folder}", fix)
    lines = enumerate(_requirements(spec), start=1) if is_sent else ()
    if here := [f"line {number}: {line.strip()}" for number, line in lines if _stays_here(line, folder)]:
        fix = "name a release or an address that the job's machine reaches, or put the file into the folder"
        raise invalid(
            "requirements", path, f"requirements that can be uploaded ({'; '.join(here[:10])})", fix
        )


def _stays_here(line: str, folder: str) -> bool:
    """Whether a requirement is a file of this machine, outside the folder that is sent."""
    line = re.sub(r"(^|\s)#.*", "", line).strip()
    found = _FILE_URL.search(line) or _FILE_OPTION.match(line)
    path = found[1] if found else line if line.startswith(("/", "./", "../")) else ""
    return bool(path) and "://" not in path and not below(os.path.join(folder, path), folder)


def _requirements(spec: TrainingSpec) -> list[str]:
    if spec.requirements[:1] != ("-r",):
        return list(spec.requirements)
    from gputrain.runtime.packages import read_file

    return read_file(os.path.join(folder_of(spec), spec.requirements[1])).splitlines()


def _script(spec: TrainingSpec, folder: str) -> str:
    """The script from its folder on."""
    path = script_of(spec)
    inside = below(path, folder)
    if not os.path.isfile(path):
        is_folder = os.path.isdir(path)
        named = below(os.path.abspath(os.path.expanduser(str(spec.script))), folder)
        fix = "name a Python file in it" if is_folder else _near(path)
        if named and os.path.isfile(os.path.join(folder, named)):
            fix = f"it is named from source_dir on: script={named!r}"
        problem = f"{path!r} is {'a folder' if is_folder else 'not there'}"
        raise invalid("script", path, "a Python file", fix, problem=problem)
    if not inside:
        raise invalid("script", path, f"a file inside {folder}", "name a source_dir that holds it")
    if not inside.endswith(".py"):
        fixes = {
            ".sh": f"command={['sh', inside]}",
            ".ipynb": f"`jupyter nbconvert --to script {shlex.quote(inside)}` makes one of it",
            ".yaml": f"--from-gcloud {shlex.quote(inside)} takes a job from a gcloud config",
        }
        fix = fixes.get(os.path.splitext(inside)[1], "command=[...] runs any program")
        raise invalid("script", path, "a file whose name ends in .py", fix)
    try:
        _parsed(path)
    except (SyntaxError, ValueError) as error:  # before machines are paid for
        line = getattr(error, "lineno", None) or 1
        release = ".".join(map(str, sys.version_info[:2]))
        expected = f"what Python {release} reads (line {line}: {getattr(error, 'msg', error)})"
        fix = f"fix that line, or run a script for a newer Python by command={['python3', inside]}"
        raise invalid("script", path, expected, fix) from error
    return inside


def _parsed(path: str) -> list[ast.stmt]:
    with open(path, "rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(file.read()).body


def _module(spec: TrainingSpec, folder: str, installed: bool) -> str:
    name = str(spec.module)
    if not _is_module(name, folder, installed):
        fix = "name the source_dir that holds it, and check its spelling"
        if name.endswith(".py"):
            fix = f"script={name!r}, or module={name[: -len('.py')]!r}"
        raise invalid("module", name, f"a module that `python -m` finds in {folder}", fix)
    return name


def _is_module(name: str, folder: str, installed: bool) -> bool:
    """Whether ``python -m name``, started in the folder, finds something to run. Nothing is imported."""
    importlib.invalidate_caches()
    parts, path = name.split("."), [folder, *(sys.path if installed else ())]
    for number, part in enumerate([*parts, "__main__"], start=1):
        found = PathFinder.find_spec(part, path)
        if found is None or found.submodule_search_locations is None:
            return found is not None and number >= len(parts)
        path = list(found.submodule_search_locations)
    return False


def _command(spec: TrainingSpec, folder: str, installed: bool) -> tuple[str, ...]:
    assert spec.command is not None
    program = spec.command[0]
    search = spec.env.get("PATH", os.environ.get("PATH", os.defpath))
    here = os.path.join(folder, program) if os.sep in program else program
    if installed and shutil.which(here, path=search) is None:
        fix = "check the name; give a path, or put its folder on PATH"
        if os.path.isfile(here):
            fix = f"let it be executed: chmod +x {shlex.quote(program)}"
        raise invalid("command", program, "a program that can be run here", fix)
    if os.sep in program and os.path.isfile(here) and below(here, folder):
        with open(here, "rb") as file:
            first = file.readline(200)
        if first.startswith(b"#!") and first.endswith(b"\r\n"):
            fix = f"sed -i 's/\\r$//' {shlex.quote(program)}"
            raise invalid("command", program, "a script whose first line ends as on Linux, not in \\r", fix)
    return spec.command


def _function(spec: TrainingSpec, folder: str) -> CodeSource:
    from gputrain.code.function import as_script

    assert spec.function is not None
    is_given = len(spec.args) == 2 and spec.args[0] == ARGUMENTS
    text = as_script(spec.function, json.loads(spec.args[1]) if is_given else None)
    return CodeSource(folder=folder, argv=(FUNCTION_FILE, *spec.args), made_files={FUNCTION_FILE: text})


def arguments_from_here(spec: TrainingSpec, folder: str) -> Iterator[str]:
    """Arguments that name a file from the current folder, and none from the folder that the job runs in."""
    for word in spec.args:
        path = word.partition("=")[2] if word.startswith("-") and "=" in word else word
        if os.path.isfile(path) and not os.path.exists(os.path.join(folder, path)):
            fix = _from_above(spec, os.getcwd())
            warning = f"{path} is a file from here, and not from {folder}, where the job runs"
            yield f"{warning}: {fix}" if fix else warning


def _imports(spec: TrainingSpec, folder: str, is_sent: bool) -> Iterator[str]:
    """Warnings of what the script imports at its head, and nothing is known to bring."""
    names: dict[str, None] = {}
    for one in _parsed(script_of(spec)):
        if isinstance(one, ast.Import):
            names |= dict.fromkeys(alias.name.partition(".")[0] for alias in one.names)
        elif isinstance(one, ast.ImportFrom) and not one.level and one.module:
            names[one.module.partition(".")[0]] = None
    known = {"__main__", *sys.stdlib_module_names}
    wanted = [name for name in names if name not in known and not _lies_in(folder, name)]
    above = {name: found for name in wanted if (found := _lies_above(folder, name))}
    for name, where in above.items():
        yield f"{spec.title} imports {name}, which lies in {where}: {_from_above(spec, where)}"
    others = [name for name in wanted if name not in above]
    if not is_sent:
        if missing := [name for name in others if not _is_installed(name)]:
            warning = f"{spec.title} imports {', '.join(missing)}, which is not installed here"
            yield f"{warning}: {_install(missing)}"
    elif spec.image is None and (missing := sorted(_not_required(spec, others))):
        fix = f"requirements={[SOLD_AS.get(one, one) for one in missing]}, unless the image brings it"
        yield f"{spec.title} imports {', '.join(missing)}, which requirements= does not name: {fix}"


def _not_required(spec: TrainingSpec, names: Sequence[str]) -> list[str]:
    asked = _requirements(spec)
    if any("/" in one or one.lstrip().startswith("-") for one in asked):
        return []  # files within files, and packages by their address: what they bring is unknown
    brought = {*BROUGHT, *map(_plain, asked)}
    return [one for one in names if not {one, _plain(one), _plain(SOLD_AS.get(one, one))} & brought]


def _plain(name: str) -> str:
    """The name of a package, as pip compares it: ``Scikit_Learn>=1.3`` is ``scikit-learn``."""
    found = re.match(r"\s*([A-Za-z0-9._-]*[A-Za-z0-9])", name)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""


def _copies(spec: TrainingSpec, folder: str) -> Iterator[str]:
    """A warning where several ranks of a script that uses torch have nothing in them that lets them meet."""
    per_node = spec.nproc_per_node or max((int(one.count) for one in spec.gpu), default=1)
    ranks = spec.num_nodes * per_node
    if ranks == 1 or spec.launcher is Launcher.TENSORFLOW:
        return
    texts = [_read(one) for one in [script_of(spec), *itertools.islice(_modules(folder), _MOST_FILES)]]
    if b"torch" in texts[0] and len(texts) <= _MOST_FILES and not any(map(_JOINS.search, texts)):
        yield (
            f"{spec.title} runs as {ranks} ranks, and nothing beside it uses torch.distributed, accelerate,"
            " Lightning or the like: each rank trains a copy of its own. The tutorial shows how to add DDP"
        )


def _modules(folder: str) -> Iterator[str]:
    for top, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if one[0] != "." and one not in ("venv", "node_modules")]
        yield from (os.path.join(top, one) for one in files if one.endswith(".py"))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""


def _lies_in(folder: str, name: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name + end)) for end in ("", ".py"))


def _lies_above(folder: str, name: str) -> str:
    """The folder above the code, within its repository, or the current one, that has a module; else empty."""
    above, folder = [os.getcwd()], os.path.realpath(folder)
    while not os.path.exists(os.path.join(folder, ".git")):
        if os.path.dirname(folder) == folder:
            del above[1:]  # no repository
            break
        folder = os.path.dirname(folder)
        above.append(folder)
    return next((one for one in above if _lies_in(one, name)), "")


def _from_above(spec: TrainingSpec, folder: str) -> str:
    """The arguments that let a script run from a folder above it."""
    inside = below(os.path.realpath(script_of(spec)), os.path.realpath(folder)) if spec.script else ""
    source_dir = "." if os.path.realpath(folder) == os.path.realpath(os.getcwd()) else folder
    return f"source_dir={source_dir!r}, script={inside!r}" if inside else ""


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # a module without a spec, put in by hand
        return name in sys.modules


def _install(names: Sequence[str], python: str = sys.executable) -> str:
    packages = " ".join(SOLD_AS.get(name, name) for name in names)
    return f"{shlex.quote(python)} -m pip install {packages}"


def _near(path: str) -> str:
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        return f"check the path: there is no folder {folder}"
    if os.path.lexists(path):
        return "name a file: this is a pipe, a device or a link to nothing"
    there = os.listdir(folder)
    near = [one for one in there if one == f"{name}.py"] or difflib.get_close_matches(name, there, n=1)
    return f"did you mean {near[0]}?" if near else f"check the path; {folder} holds nothing of a similar name"
