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


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert not failed


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


def test_links_between_pages_lead_somewhere():
    links = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
        if "://" not in target
    ]
    assert not [f"{page.name}: {target}" for page, target in links if not (page.parent / target).exists()]


DECISIONS = ROOT / "docs" / "design" / "decisions"


def test_every_decision_has_a_number_of_its_own():
    told = [int(page.name[:4]) for page in sorted(DECISIONS.glob("*.md"))]
    assert told == list(range(1, len(told) + 1))


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("*.md")), ids=lambda page: page.name)
def test_a_decision_is_titled_by_its_number(page):
    assert page.read_text().startswith(f"# {int(page.name[:4])}. ")


def test_a_decision_is_linked_by_its_number():
    links = [
        (page.name, number, target)
        for page in PAGES
        for number, target in re.findall(r"\[decision (\d+)\]\((\S+?)\)", page.read_text())
    ]
    assert links
    assert not [link for link in links if int(link[1]) != int(Path(link[2]).name[:4])]
