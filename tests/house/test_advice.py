"""Advice can be followed: what a sentence in the code tells a reader to call, run or read is there."""

import ast
import functools
import importlib
import re
from pathlib import Path

import attrs

import gputrain
from gputrain.cli import parser
from gputrain.ddp.session import Session
from gputrain.job import Job
from gputrain.trainer import PlannedJob, Trainer

ROOT = Path(__file__).parents[2]
HANDLES = {"trainer": Trainer, "job": Job, "plan": PlannedJob, "session": Session}
"""How a sentence calls a value that its reader holds."""

FILES = re.compile(r"gputrain\.(toml|log|service|pyz)")
NAMED = re.compile(r"\b(trainer|job|plan|session)\.([a-z][a-z_]*)\b(?!/)")
OURS = re.compile(r"(?<![\w./-])gputrain((?:\.[A-Za-z_]\w*)+)")
COMMAND = re.compile(r"`+gputrain ([a-z]+(?:-[a-z]+)*)([^`]*)`")
PAGE = re.compile(r"\bdocs/[\w./-]+\.(?:md|svg)")


@functools.cache
def sentences():
    """Every text in the library, with its place; parts that are filled in at run time are left out."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node.value)
        for path in sorted((ROOT / "gputrain").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]


def members(cls):
    """The public names of a class, its instances' own included."""
    fields = {field.name for field in attrs.fields(cls)} if attrs.has(cls) else set()
    tree = ast.parse(Path(importlib.import_module(cls.__module__).__file__).read_text())
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {*dir(cls), *fields, *(one.attr for one in attributes if isinstance(one.ctx, ast.Store))}


def test_what_a_reader_is_told_to_call_on_a_value_is_there():
    known = {handle: members(cls) for handle, cls in HANDLES.items()}
    named = ((place, *found) for place, text in sentences() for found in NAMED.findall(text))
    assert not [f"{place}: {handle}.{name}" for place, handle, name in named if name not in known[handle]]


def test_what_a_reader_is_told_to_import_is_there():
    named = ((place, name) for place, text in sentences() for name in OURS.findall(FILES.sub("", text)))
    assert not [f"{place}: gputrain{name}" for place, name in named if not is_there(f"gputrain{name}")]


def is_there(dotted):
    """Whether a dotted name is a module, a name in one, or a group of entry points of ours."""
    found, path = gputrain, "gputrain"
    for part in dotted.split(".")[1:]:
        path += f".{part}"
        if not hasattr(found, part):
            try:
                importlib.import_module(path)
            except ImportError:
                return dotted in (ROOT / "pyproject.toml").read_text()
        found = getattr(found, part)
    return True


def test_a_command_that_a_reader_is_told_to_run_is_one_with_its_options():
    _, commands = parser.parsers()
    wrong = []
    for place, text in sentences():
        for command, rest in COMMAND.findall(text):
            known = commands[command]._option_string_actions if command in commands else None
            if known is None or not set(re.findall(r" (--?[a-z][a-z-]*)", rest)) <= set(known):
                wrong.append(f"{place}: gputrain {command}{rest}")
    assert not wrong


def test_a_page_that_a_reader_is_sent_to_is_there():
    named = ((place, page) for place, text in sentences() for page in PAGE.findall(text))
    assert not [f"{place}: {page}" for place, page in named if not (ROOT / page).exists()]
