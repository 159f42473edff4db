"""What our calls hand to a person reads as text: by ``print``, and as the last line of a notebook's cell."""

import enum
import importlib
import inspect
import pkgutil
import re

import attrs
import pytest

import gputrain
from gputrain import catalog, quota, refresh
from tests import present

FACES = (gputrain, catalog, quota, refresh)
APART = ("gputrain.backends.", "gputrain.gcp.", "gputrain.records.", "gputrain.images.home")
"""What no person is handed: a backend's own, and what they are made of; the seam's values are in between."""
SEAM = "gputrain.backends.values"
OF_BACKENDS = {"Bundle", "Fact", "Limit", "LogPage", "Observation", "Offer", "Request", "Start", "Supply"}
"""Values that backends and planning tell each other."""
GONE = {present.CLASSES[name] for name in present.ABSENT}
PARTS = {"Curve", "Failure"}
"""What is read through the value that holds it: a plot, a job's error."""


def classes():
    """Every class of ours by its name."""
    apart = tuple(f"gputrain.{room}" for room in ("ddp", "entrypoint", "keeper", "emulator"))
    names = [one.name for one in pkgutil.walk_packages(gputrain.__path__, "gputrain.")]
    modules = [importlib.import_module(name) for name in names if not name.startswith(apart)]
    held = [one for module in modules for one in vars(module).values()]
    return {one.__name__: one for one in held if isinstance(one, type) and one.__module__ in names}


def told_by(one):
    """The types of what a person gets from it: a call's result, a value's fields and public members."""
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


def handed_over():
    """Every class of ours that a person meets, beginning with the public names."""
    known = classes()
    names = [(module, name) for module in FACES for name in dir(module) if not name.startswith("_")]
    waiting = [getattr(module, name) for module, name in names if name not in GONE]
    met = {}
    while waiting:
        one = waiting.pop()
        if isinstance(one, type):
            if one.__name__ in met or not one.__module__.startswith("gputrain."):
                continue
            is_apart = one.__module__.startswith(APART) and one.__module__ != SEAM
            if is_apart or one.__name__ in OF_BACKENDS or issubclass(one, (BaseException, enum.Enum)):
                continue
            met[one.__name__] = one
        elif not inspect.isfunction(one):
            continue
        for annotation in map(str, told_by(one)):
            waiting += [known[word] for word in re.findall(r"\w+", annotation) if word in known]
    return {name: one for name, one in met.items() if attrs.has(one) and name not in PARTS}


VALUES = handed_over()


def test_the_values_that_people_print_most_are_among_them():
    assert {"GcloudJob", "Candidate", "LogLine", "Result", "TrainingSpec", "Orphan", "Price"} <= set(VALUES)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_value_that_is_handed_to_a_person_reads_as_text(name):
    assert VALUES[name].__str__ is not object.__str__, "make it Shown or Told, or give it a line of its own"
