"""Which of our own backends are in this tree; the tests of one must not need another."""

import ast
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import gputrain

CLASSES = {"local": "Local", "vertex": "VertexAI", "compute": "ComputeEngine"}
HERE = Path(__file__).parents[1]
FOLDER = Path(gputrain.__file__).parent / "backends"
ABSENT = frozenset(name for name in CLASSES if not (FOLDER / name / "__init__.py").exists())
CLOUDS = tuple(name for name in ("vertex", "compute") if name not in ABSENT)


def backend(name):
    """The class of one backend; a test that asks for one that is not in this tree is skipped."""
    pytest.importorskip(f"gputrain.backends.{name}")
    return getattr(import_module(f"gputrain.backends.{name}"), CLASSES[name])


@cache
def needs(path):
    """The backends that a file imports before any of its tests runs, itself or by what it has of ours."""
    found = _imported(path, set())
    return {
        name
        for name, kind in CLASSES.items()
        if any(f"{one}.".startswith(f"gputrain.backends.{name}.") for one in found)
        or f"gputrain.{kind}" in found
    }


def _imported(path, seen):
    """The names that a file imports, and those that our own modules among them do."""
    seen.add(path)
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    files = {HERE.joinpath(*one.split(".")).with_suffix(".py") for one in found if one.startswith("tests.")}
    for one in sorted(files - seen):
        if one.exists():
            found |= _imported(one, seen)
    return found
