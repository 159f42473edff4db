"""What a script says of itself before it is sent: whether it is there, is Python, and what it imports.

It is read and parsed; nothing of it is run.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import attrs

from gputrain.errors import Fault, SpecError
from gputrain.spec import TrainingSpec
from gputrain.staging.fitness import check
from gputrain.staging.source import folder_of, resolve, script_of
from gputrain.staging.survey import reading, survey

BROUGHT = frozenset({"gputrain", "numpy", "torch"})
"""What every image with PyTorch brings, and the job itself."""
_LACKED = re.compile(r"^ModuleNotFoundError: No module named '([^'.\n]{1,100})", re.MULTILINE)
SOLD_AS = {"PIL": "pillow", "cv2": "opencv-python", "sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Imports whose package goes by another name, where pip is asked for it."""


@attrs.frozen(kw_only=True)
class CodeFindings:
    """What is wrong with the code, and what may be."""

    faults: tuple[Fault, ...] = ()
    warnings: tuple[str, ...] = ()
    travels: str = ""
    """How much of it would be sent, and what an ignore file holds back; empty where nothing is sent."""


def examine(spec: TrainingSpec, *, is_sent: bool) -> CodeFindings:
    """Look at the code of a spec. Reads the file system, and runs and writes nothing.

    Args:
        spec: whose code.
        is_sent: whether it may run elsewhere, where the packages of this machine are not.
    """
    try:
        with reading(folder_of(spec)):
            return _examined(spec, is_sent)
    except SpecError as error:
        return CodeFindings(faults=error.faults)


def _examined(spec: TrainingSpec, is_sent: bool) -> CodeFindings:
    resolve(spec, installed=True)
    path = script_of(spec)
    if not is_sent:
        return CodeFindings(warnings=tuple(_not_here(spec, path)) if path else ())
    travels = check(survey(folder_of(spec))).text
    missing = sorted(_missing(spec, path)) if path and spec.image is None else []
    if not missing:
        return CodeFindings(travels=travels)
    fix = f"requirements={[SOLD_AS.get(one, one) for one in missing]}, unless the image brings it"
    told = f"{spec.title} imports {', '.join(missing)}, which requirements= does not name: {fix}"
    return CodeFindings(warnings=(told,), travels=travels)


def _missing(spec: TrainingSpec, path: str) -> Iterator[str]:
    """Packages that the script imports at its head, and nobody is known to bring."""
    asked = _requirements(spec)
    if any("/" in one or one.lstrip().startswith("-") for one in asked):
        return  # files within files, and packages by their address: nobody knows what they bring
    named = set(map(_plain, asked))
    for name in _wanted(spec, path):
        if not (name in BROUGHT or {_plain(name), _plain(SOLD_AS.get(name, name))} & named):
            yield name


def _not_here(spec: TrainingSpec, path: str) -> Iterator[str]:
    """What this Python, which runs the ranks here, would not find; looking for it imports nothing."""
    missing = [name for name in _wanted(spec, path) if not _is_installed(name)]
    if missing:
        yield f"{spec.title} imports {', '.join(missing)}, which is not installed here: {_install(missing)}"


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # a module that something here has put in by a way of its own
        return name in sys.modules


def _install(names: Sequence[str], python: str = sys.executable) -> str:
    packages = " ".join(SOLD_AS.get(name, name) for name in names)
    return f"{shlex.quote(python)} -m pip install {packages}"


def lacked(spec: TrainingSpec, traceback: str, *, is_sent: bool, python: str = "") -> str:
    """What gives a rank the package that it did not find; empty where its traceback tells of none.

    Args:
        is_sent: as for `examine`.
        python: the interpreter of its ranks, which may be another than that of whoever looks; empty: unknown.
    """
    found = _LACKED.search(traceback)
    if found is None or _is_own(folder_of(spec), found[1]):
        return ""
    package = SOLD_AS.get(found[1], found[1])
    if is_sent:
        return f"requirements={[package]}, or an image that brings it"
    return _install([package], python) if python else f"pip install {package}, with the Python that ran it"


def _wanted(spec: TrainingSpec, path: str) -> Iterator[str]:
    """What the script imports at its head that is neither its own nor Python's."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (MemoryError, RecursionError):  # deeper than the parser goes: whoever runs it will tell
        return
    folder = folder_of(spec)
    for name in dict.fromkeys(name for statement in tree.body for name in _imported(statement)):
        if not _is_own(folder, name):
            yield name


def _is_own(folder: str, name: str) -> bool:
    """Whether a module is the script's own, or Python's."""
    lies_there = any(os.path.exists(os.path.join(folder, name + end)) for end in ("", ".py"))
    return lies_there or name in sys.stdlib_module_names or name == "__main__"


def _imported(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (one.name.partition(".")[0] for one in statement.names)
    elif isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
        yield statement.module.partition(".")[0]


def _requirements(spec: TrainingSpec) -> list[str]:
    if spec.requirements[:1] != ("-r",):
        return list(spec.requirements)
    with open(
        os.path.join(folder_of(spec), spec.requirements[1]), encoding="utf-8", errors="replace"
    ) as file:
        return file.read().splitlines()


def _plain(name: str) -> str:
    """The name of a package, as pip compares it: ``Scikit_Learn>=1.3`` is ``scikit-learn``."""
    found = re.match(r"\s*([A-Za-z0-9._-]*[A-Za-z0-9])", name)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""
