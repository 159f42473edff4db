"""A function becomes a script, which is run here as it would be anywhere."""

import logging
import math
import os
import os.path as paths
import re
import subprocess
import sys
import threading
import xml.dom
import xml.etree.ElementTree
from collections import OrderedDict as Ordered
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from pathlib import Path

import pytest

from gputrain.code.function import as_script
from gputrain.errors import SpecError
from tests.each import each

RATE = 3e-4
SIZES = {"small": (1, 2), "large": (3, math.inf)}
HOME = Path("data") / "x"
WORDS, KINDS = re.compile("a+", re.I), {"b"}
LOG = logging.getLogger("train")
LOCK = threading.Lock()
STREAM = sys.stderr
Alias = dict


def run(function, *args, cwd="."):
    """What the script of a function prints, in an interpreter of its own."""
    script = as_script(function)
    words = [sys.executable, "-I", "-c", script, *args]
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, (done.stderr, script)
    return done.stdout.strip()


def faults(function):
    with pytest.raises(SpecError) as caught:
        as_script(function)
    assert all(one.field == "function" and one.fix for one in caught.value.faults)
    return {one.value: one.expected for one in caught.value.faults}


def plain():
    print("hello", *sys.argv[1:])


def uses_constants():
    print(RATE, SIZES["large"], HOME, LOG.name, WORDS.sub("", "AAb") in KINDS)


class Base:
    scale = RATE

    def value(self):
        return helper(self.scale)


class Mode(Enum):
    FAST = "fast"


@dataclass
class Config(Base):
    mode: Mode = Mode.FAST
    names: Alias = None

    def show(self):
        return f"{super().value()} {self.mode.value}"


def helper(number, digits=SIZES["small"][1]):
    return round(number, digits + 2) if number else recursive(3)


def recursive(number):
    return number if number == 0 else recursive(number - 1)


def uses_definitions():
    print(Config().show(), helper(0))


def loud(function):
    @wraps(function)
    def wrapper():
        return function().upper()

    return wrapper


@loud
def decorated():
    return "decorated"


def uses_decorated():
    print(decorated())


def uses_imports():
    print(Ordered(a=1)["a"], paths.join("a", "b"), os.sep, math.floor(2.5), xml.dom.EMPTY_PREFIX)
    print(xml.etree.ElementTree.fromstring("<a/>").tag)


def uses_a_neighbour():
    import neighbour

    print(neighbour.WORD)


def test_a_plain_function_runs_with_its_arguments():
    assert run(plain, "a b", "c\n") == "hello a b c"


def test_constants_travel_by_value():
    assert run(uses_constants) == "0.0003 (3, inf) data/x train True"


def test_functions_and_classes_of_its_module_travel_with_what_they_use():
    assert run(uses_definitions) == "0.0003 fast 0"


def test_a_decorator_travels():
    assert run(uses_decorated) == "DECORATED"


def test_imports_are_made_again_under_their_names():
    assert run(uses_imports).split() == ["1", "a/b", "/", "2", "None", "a"]


def test_modules_beside_the_source_are_found(tmp_path):
    (tmp_path / "neighbour.py").write_text("WORD = 'next door'\n")
    assert run(uses_a_neighbour, cwd=tmp_path) == "next door"


def helps():
    return "helped"


a_helper = z_helper = helps


def uses_a_helper_under_other_names():
    print(a_helper(), z_helper())


def test_a_helper_travels_under_every_name_that_it_goes_by():
    assert run(uses_a_helper_under_other_names) == "helped helped"


class Bound:
    """Of the main program, by its word."""


Bound.__module__ = "__main__"
BOUND = Bound()


def uses_what_only_the_main_program_holds():
    print(BOUND)


def test_nothing_is_imported_from_a_main_program_that_will_be_another_one(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "BOUND", BOUND, raising=False)
    assert "cannot be written as source" in faults(uses_what_only_the_main_program_holds)["BOUND"]


def uses_a_lock():
    with LOCK:
        print(STREAM)


def helper_that_locks():
    LOCK.acquire()


def uses_a_helper_that_locks():
    helper_that_locks()


def wants(rate, *, steps):
    print(rate, steps)


def yields():
    yield 1


async def waits():
    pass


def test_what_is_bound_to_this_process_is_named():
    found = faults(uses_a_lock)
    assert set(found) == {"LOCK", "STREAM"}
    assert "lock" in found["LOCK"]


def test_what_a_helper_uses_is_looked_at_too():
    assert set(faults(uses_a_helper_that_locks)) == {"LOCK"}


@each(
    ("function", "words"),
    [
        (lambda: None, "lambda"),
        (print, "def"),
        (wants, "rate, steps"),
        (yields, "generator"),
        (waits, "coroutine"),
        (Config, "def"),
        (Config().show, "def"),
    ],
)
def test_what_is_no_plain_function_is_refused(function, words):
    with pytest.raises(SpecError, match=words):
        as_script(function)


def test_code_without_source_is_refused():
    names = {}
    exec("def typed():\n    pass\n", names)
    assert "source" in faults(names["typed"])["typed"]


def test_a_cell_of_a_notebook_travels():
    """A notebook keeps its cells where `linecache` finds them, in a module without a file."""
    cells = [
        "import math\nfrom dataclasses import dataclass\nFACTOR = 2",
        "@dataclass\nclass Shape:\n    side: float\n    def area(self):\n        return self.side * FACTOR\n",
        "class Bare:\n    word = 'bare'\n",
        "def train():\n    print(Shape(side=math.sqrt(4)).area() == 4, Bare.word)\n",
    ]
    program = (
        "import linecache, sys\n"
        f"for number, text in enumerate({cells!r}):\n"
        "    name = f'<ipython-input-{number}>'\n"
        "    linecache.cache[name] = (len(text), None, text.splitlines(True), name)\n"
        "    exec(compile(text, name, 'exec'))\n"
        "from gputrain.code.function import as_script\n"
        "sys.stdout.write(as_script(train))\n"
    )
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    done = subprocess.run([sys.executable, "-c", made.stdout], capture_output=True, text=True, check=False)
    assert done.stdout == "True bare\n", (done.stderr, made.stdout)
