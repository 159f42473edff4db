"""The public face is light, whole and documented, and what it returns can be printed."""

import ast
import enum
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

import gputrain
from gputrain import catalog, quota
from gputrain.catalog import refresh

# google.api_core, not google: .pth files seed the namespace at every start of the interpreter.
HEAVY = {
    "google.api_core", "google.cloud.compute_v1", "google.cloud.aiplatform_v1", "torch", "requests",
    "tenacity", "rich", "grpc", "numpy",
}  # fmt: skip


@pytest.mark.parametrize("act", ["", "gputrain.Trainer().plan('train.py', nproc_per_node=2)"])
def test_nothing_heavy_is_imported_before_it_is_needed(act):
    program = f"import gputrain, sys\n{act}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & HEAVY


def test_every_public_name_is_there_documented_typed_and_completed():
    names = set(gputrain.__all__)
    assert not [one for one in names - {"__version__"} if not (getattr(gputrain, one).__doc__ or "").strip()]
    tree = ast.parse(Path(gputrain.__file__).with_suffix(".pyi").read_text())
    typed = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert typed == names - {"__version__"}
    assert names <= set(dir(gputrain))
    with pytest.raises(AttributeError, match="Trainr"):
        gputrain.Trainr  # noqa: B018


FACES = (gputrain, catalog, quota, refresh)
APART = ("gputrain.backends.", "gputrain.google.", "gputrain.images.repository")
"""What no person gets to see: a backend's own values."""
SEAM = "gputrain.backends.base"
OF_BACKENDS = {"Bundle", "Fact", "Limit", "LogPage", "Offer", "Request", "Supply"}
"""Values between backends and planning."""
PARTS = {"Curve", "Failure"}
"""Shown by the value that holds them: a plot, a job's error."""


def classes():
    """Every class of the product by its name."""
    names = [one.name for one in pkgutil.walk_packages(gputrain.__path__, "gputrain.")]
    apart = tuple(f"gputrain.{one}" for one in ("ddp", "entrypoint", "runtime", "emulator"))
    modules = [importlib.import_module(name) for name in names if not name.startswith(apart)]
    held = [one for module in modules for one in vars(module).values()]
    return {one.__name__: one for one in held if isinstance(one, type) and one.__module__ in names}


def results_of(one):
    """The annotations of what a person gets: a call's result, a value's fields and public members."""
    if not isinstance(one, type):
        yield getattr(one, "__annotations__", {}).get("return", "")
        return
    yield from getattr(one, "__orig_bases__", ())  # of a tuple of values
    if attrs.has(one):
        yield from (field.type for field in attrs.fields(one) if not field.name.startswith("_"))
    for name, member in inspect.getmembers(one):
        call = getattr(member, "fget", None) or getattr(member, "func", None) or member
        if not name.startswith("_") and inspect.isfunction(call):
            yield inspect.unwrap(call).__annotations__.get("return", "")


def values():
    """Every value class that a person can reach from the public names."""
    known, met = classes(), {}
    names = [
        (face, name)
        for face in FACES
        for name in getattr(face, "__all__", dir(face))
        if not name.startswith("_")
    ]
    waiting = [getattr(face, name) for face, name in names]
    while waiting:
        one = waiting.pop()
        if isinstance(one, type):
            is_apart = one.__module__.startswith(APART) and one.__module__ != SEAM
            is_met = one.__name__ in met or not one.__module__.startswith("gputrain.")
            is_kind = issubclass(one, (BaseException, enum.Enum))
            if is_met or is_apart or is_kind or one.__name__ in OF_BACKENDS:
                continue
            met[one.__name__] = one
        elif not inspect.isfunction(one):
            continue
        for annotation in map(str, results_of(one)):
            waiting += [known[word] for word in re.findall(r"\w+", annotation) if word in known]
    return {name: one for name, one in met.items() if attrs.has(one) and name not in PARTS}


def test_every_value_that_a_call_returns_prints_as_text():
    found = values()
    assert {"GcloudJob", "Candidate", "LogLine", "Result", "TrainingSpec", "Machine", "Price"} <= set(found)
    assert not [name for name, one in found.items() if one.__str__ is object.__str__]
