"""What the documents say, runs."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gputrain

ROOT = Path(__file__).parents[3]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "emulator").rglob("*.md")),
]
CONTAINER_SIDE = ("gputrain.ddp", "gputrain.entrypoint")
"""Rooms whose examples are run by their own tests."""

MODULES = [
    module.name
    for module in pkgutil.walk_packages(gputrain.__path__, "gputrain.")
    if not module.name.startswith(CONTAINER_SIDE) and not module.name.endswith("__main__")
]


def test_the_examples_in_docstrings_run(monkeypatch):
    monkeypatch.chdir(ROOT)
    options = doctest.NORMALIZE_WHITESPACE
    results = {name: doctest.testmod(importlib.import_module(name), optionflags=options) for name in MODULES}
    assert not {name: one.failed for name, one in results.items() if one.failed}
    assert sum(one.attempted for one in results.values()) > 50


def blocks(page):
    """The Python blocks of a page, joined into one program; a block marked ``no-run`` is left out."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_python_on_a_page_runs_from_top_to_bottom(page, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    program = tmp_path / "page.py"
    program.write_text(blocks(page))
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
