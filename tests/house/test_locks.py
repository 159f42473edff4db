"""What runs before a person waits by no lock that Python itself takes: a Ctrl-C within leaves it shut."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gputrain"
THERE = ("keeper", "entrypoint", "ddp")
"""What runs where nobody presses anything."""
FILES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.relative_to(PACKAGE).parts[0] not in (*THERE, "threads.py")
]
IN_PYTHON = {"Barrier", "Condition", "Event", "Semaphore", "ThreadPoolExecutor", "Timer"}
"""Instead of them there is `gputrain.threads`."""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_waits_by_a_lock_in_words_of_python(path):
    made = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    names = {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in made}
    assert not names & IN_PYTHON


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_lock_is_one_that_is_open_in_a_fork(path):
    assert not re.search(r"threading\.R?Lock\(|from threading import", path.read_text())
