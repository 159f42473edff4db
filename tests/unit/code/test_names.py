"""A function's script means by every name what its module means by it, on whichever system it runs."""

import importlib.util
import subprocess
import sys
import uuid

import pytest

from gputrain.code.entry import examine
from gputrain.code.function import as_script
from gputrain.errors import SpecError
from gputrain.spec import TrainingSpec
from tests.each import each

MODULES = {
    "a text that names a module": """
from datetime import datetime
NOTE = "datetime.now, pathlib.Path, re.I"
def train(): print(datetime.min, NOTE)
""",
    "another thing by a module's name": """
import random as re, logging as log
LOG = log.getLogger("a.b")
pathlib = "mine"
def logging(): return "ours"
def fractions(): return LOG.name
def train(): print(re.__name__, pathlib, logging(), fractions())
""",
    "another thing by a builtin's name": """
from math import pow, prod as max
from operator import neg as float
LIMIT, NONE, SOME = -__import__("math").inf, set(), frozenset({1})
def set(x): return ["set", x]
def frozenset(x): return x
range = 4
def train(): print(pow(2, 2), max([2, 3]), float(1), set(range), frozenset(LIMIT), NONE, SOME)
""",
    "what the script itself begins with": """
os, sys, json = 5, "sys", {}
def train(): print(os, sys, json)
""",
    "parts of a module under other names": """
import xml.etree.ElementTree as tree, xml.dom as d, os.path as p
from os.path import join
from os import getcwd
xml = "mine"
def train(): print(tree.fromstring("<a/>").tag, d.minidom.__name__, p.join("a"), join("a"), getcwd(), xml)
import xml.dom.minidom
del globals()["xml"]
xml = "mine"
""",
}


def home(folder, text, monkeypatch):
    """A module of that text, imported, whose function is `train`."""
    name = f"home_{uuid.uuid4().hex[:8]}"
    (folder / f"{name}.py").write_text(text)
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module.train


@each("text", MODULES.values())
def test_a_name_means_there_what_it_means_here(tmp_path, monkeypatch, capsys, text):
    monkeypatch.chdir(tmp_path)
    train = home(tmp_path, text, monkeypatch)
    train()
    script = as_script(train)
    words = [sys.executable, "-I", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (capsys.readouterr().out, ""), script


def test_arguments_are_read_whatever_the_functions_are_called(tmp_path, monkeypatch):
    text = "def json(): return 2\nsys = 3\ndef train(n): print(n, json(), sys)\n"
    script = as_script(home(tmp_path, text, monkeypatch), {"n": 1})
    words = [sys.executable, "-I", "-c", script, "--arguments", '{"n": 1}']
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1 2 3\n", "")


def test_what_is_imported_goes_by_a_name_that_other_systems_have_too(tmp_path, monkeypatch):
    text = """
import os.path as p
from os.path import join
from os import getcwd
from pathlib import Path
from multiprocessing import cpu_count
def train(): print(p, join, getcwd, Path, cpu_count)
"""
    script = as_script(home(tmp_path, text, monkeypatch))
    assert set(text.splitlines()[1:-1]) < set(script.splitlines())


def test_what_a_notebook_adds_to_python_is_not_python(tmp_path, monkeypatch):
    def of_ipython(*_):
        """As IPython gives every notebook one."""

    of_ipython.__module__ = "IPython.core.interactiveshell"
    opens = home(tmp_path, "def train(): return open\n", monkeypatch)
    monkeypatch.setitem(opens.__globals__, "open", of_ipython)
    assert "IPython" not in as_script(opens)
    monkeypatch.setattr("builtins.display", of_ipython, raising=False)
    with pytest.raises(SpecError, match="display: it is not defined"):
        as_script(home(tmp_path, "def train(): display(1)\n", monkeypatch))


TOKEN = "hf_" + "aB3dE5gH7jK9" * 3


@each(
    "text",
    [
        f"CONFIG = {{'hub': [{TOKEN!r}]}}\ndef train(): print(CONFIG)",
        f"def train(): print({TOKEN!r})",
        f"def train(): print(used())\ndef used(): return {TOKEN!r}",
        f"class Hub:\n    key = {TOKEN!r}\ndef train(): print(Hub.key)",
        f"def train(key={TOKEN!r}): print(key)",
        f"KEY = b{TOKEN!r}\ndef train(): print(KEY)",
        "DB = ['postgres://me:hunter2@db/x']\ndef train(): print(DB)",
    ],
)
def test_a_secret_does_not_travel_wherever_it_is_written(tmp_path, monkeypatch, text):
    train = home(tmp_path, text, monkeypatch)
    found = examine(TrainingSpec(function=train, source_dir=tmp_path), is_sent=True)
    assert "looks like a secret" in str(found.faults)
    assert TOKEN not in str(found.faults)
