"""Pages and messages name only what is there, and the reference leaves nothing out."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import attrs

import gputrain
from gputrain import State, TrainingSpec, errors
from gputrain.cli.commands import gputrain as program
from gputrain.ddp.session import Session
from gputrain.job import Job
from gputrain.trainer import Plan, Trainer
from tests.house.source import ROOT, modules

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "emulator").rglob("*.md"))]
DECISIONS = sorted((DOCS / "design" / "decisions").glob("*.md"))


def first_column(page):
    return set(re.findall(r"^\| `([^`]+)`", (DOCS / "reference" / page).read_text(), re.MULTILINE))


def test_every_field_state_and_error_is_on_its_page():
    assert first_column("spec.md") == {field.name for field in attrs.fields(TrainingSpec)}
    assert first_column("states.md") == {state.name for state in State}
    kinds = {
        one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.GputrainError)
    }
    groups = {errors.GputrainError, errors.RequestError, errors.AccessError, errors.JobError}
    assert first_column("errors.md") == {kind.__name__ for kind in kinds - groups}


def test_every_public_name_is_in_the_reference():
    page = (DOCS / "reference" / "api.md").read_text()
    names = set(gputrain.__all__) - {"__version__"}
    assert not [name for name in names if not re.search(rf":: gputrain\.{name}$", page, re.MULTILINE)]


def test_every_page_is_in_the_contents():
    """The sidebar is for users: design pages stand below the architecture."""
    trees = {DOCS: "index.md", DOCS / "design": "design/architecture.md"}
    listed = {DOCS / "index.md"}
    for folder, page in trees.items():
        for tree in re.findall(r"```{toctree}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
            for one in re.findall(r"^([\w./*-]+)$", tree, re.MULTILINE):
                listed |= {path.resolve() for path in folder.glob(f"{one}.md")}
    assert {path.resolve() for path in DOCS.rglob("*.md")} - listed == set()


def test_links_between_pages_lead_somewhere():
    links = [
        (page, one) for page in PAGES for one in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    ]
    assert not [
        f"{page}: {one}" for page, one in links if "://" not in one and not (page.parent / one).exists()
    ]


def test_decisions_are_numbered_and_linked_by_their_number():
    numbers = [int(page.name[:4]) for page in DECISIONS]
    assert len(set(numbers)) == len(numbers)
    assert not [page for page in DECISIONS if not page.read_text().startswith(f"# {int(page.name[:4])}. ")]
    links = re.findall(r"\[decision (\d+)\]\((\S+?)\)", "".join(page.read_text() for page in PAGES))
    assert links
    assert not [link for link in links if int(link[0]) != int(Path(link[1]).name[:4])]


HANDLES = {"trainer": Trainer, "job": Job, "plan": Plan, "session": Session}
"""How a message calls a value that its reader holds."""
FILES = re.compile(r"gputrain\.(toml|log|service|pyz)")
NAMED = re.compile(r"\b(trainer|job|plan|session)\.([a-z][a-z_]*)\b(?!/)")
OURS = re.compile(r"(?<![\w./-])gputrain((?:\.[A-Za-z_]\w*)+)")
COMMAND = re.compile(r"`+gputrain ([a-z]+(?:-[a-z]+)*)([^`]*)`")
PAGE = re.compile(r"\bdocs/[\w./-]+\.(?:md|svg)")


def texts():
    """Every text in the library with its place."""
    return [
        (f"{name}:{node.lineno}", node.value)
        for name, (_, tree) in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]


def members(cls):
    """The public names of a class, its instances' own included."""
    fields = {field.name for field in attrs.fields(cls)} if attrs.has(cls) else set()
    attributes = (node for node in ast.walk(modules()[cls.__module__][1]) if isinstance(node, ast.Attribute))
    return {*dir(cls), *fields, *(one.attr for one in attributes if isinstance(one.ctx, ast.Store))}


def is_there(dotted):
    """Whether a dotted name is a module, a name in one, or a group of entry points."""
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


def test_what_a_message_says_to_call_run_or_read_is_there():
    known = {handle: members(cls) for handle, cls in HANDLES.items()}
    flags = {
        name: {flag for one in command.params for flag in one.opts} | {"-h", "--help"}
        for name, command in program.commands.items()
    }
    wrong = []
    for place, text in texts():
        wrong += [f"{place}: {one}.{name}" for one, name in NAMED.findall(text) if name not in known[one]]
        names = [f"gputrain{name}" for name in OURS.findall(FILES.sub("", text))]
        wrong += [f"{place}: {name}" for name in names if not is_there(name)]
        for command, rest in COMMAND.findall(text):
            if not set(re.findall(r" (--?[a-z][a-z-]*)", rest)) <= flags.get(command, set()):
                wrong.append(f"{place}: gputrain {command}{rest}")
        wrong += [f"{place}: {page}" for page in PAGE.findall(text) if not (ROOT / page).exists()]
    assert not wrong


def test_what_a_benchmark_imports_is_there():
    """Benchmarks run by hand, so a name that moved would be missed."""
    wrong = []
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gputrain"):
                names = [f"{node.module}.{one.name}" for one in node.names]
                wrong += [f"{path.name}:{node.lineno}: {one}" for one in names if not can_be_imported(one)]
    assert not wrong


def can_be_imported(dotted):
    module, _, name = dotted.rpartition(".")
    return hasattr(importlib.import_module(module), name) or importlib.util.find_spec(dotted) is not None
