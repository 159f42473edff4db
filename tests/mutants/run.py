"""How many single-line mutants the quick unit tests catch: `make mutants`, or with folders as words.

cosmic-ray makes the mutants, of a copy of the tree. Which are drawn and which tests judge them is decided
here: its own runner makes all of them, and has one command for every file.
"""

from __future__ import annotations

import argparse
import ast
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[2]

JUDGES = {
    "trainer": ("trainer", "test_trainer.py", "test_abilities.py", "test_since.py", "test_job_everywhere.py"),
    "planning": ("planning",),
    "gcp": ("gcp",),
    "staging": ("staging",),
    "backends/local": ("local",),
    "backends/vertex": ("vertex",),
    "backends/compute": ("compute",),
}
"""The folders and files of `tests/unit` that judge a folder of gputrain."""

_PATIENCE_S = 600.0


class _Meaning(ast.NodeTransformer):
    """Leaves out what no test can see: annotations, docstrings, what only type checkers read."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.annotation = ast.Constant(None)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = []  # whether a value is frozen or takes keywords alone, type checkers see
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        same = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}  # of enums and None, which is all that `is` is for here
        node.ops = [same.get(type(one), type(one))() for one in node.ops]
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.dump(node.test) else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


def mutants(path: Path, source: str, draw: random.Random) -> Iterator[str]:
    """One-line mutants of a file, of all kinds, in an order that is drawn; none that means the same."""
    meant = _meaning(source)
    nodes = list(_nodes(source))
    places = []
    for name in operator_names():
        operator = get_operator(name)
        if operator.arguments():  # those that are told what to change
            continue
        count = sum(1 for node in nodes for _ in operator().mutation_positions(node))
        places += [(name, occurrence) for occurrence in range(count)]
    draw.shuffle(places)
    for name, occurrence in places:
        mutant = mutate_code(source, get_operator(name)(), occurrence)
        try:
            if mutant is not None and _meaning(mutant) != meant:
                yield mutant
        except SyntaxError:
            continue


def _nodes(source: str) -> Iterator[object]:
    import parso

    stack = [parso.parse(source)]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(getattr(node, "children", ()))


def _meaning(source: str) -> str:
    return ast.dump(_Meaning().visit(ast.parse(source)))


def main() -> int:
    """Draw, judge, tell; the exit status is 1 where a folder's rate is below what is asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", default=list(JUDGES))
    parser.add_argument("--sample", type=int, default=25, help="mutants of each folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python"), help="what runs the tests")
    parser.add_argument("--at-least", type=int, default=85, help="per cent")
    options = parser.parse_args()
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tree"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in listed.decode().split("\0"):
            if name and (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy / name)
        for room in options.folders:
            rates[room] = _rate(copy, room, options)
    for room, (caught, judged) in rates.items():
        print(f"{room:18} {caught} of {judged} caught, {100 * caught // max(1, judged)} %")
    return int(any(100 * caught < options.at_least * judged for caught, judged in rates.values()))


def _rate(copy: Path, room: str, options: argparse.Namespace) -> tuple[int, int]:
    """How many of a folder's mutants the tests caught, of how many; a file is drawn by its length."""
    draw = random.Random(f"{options.seed} {room}")
    files = sorted((copy / "gputrain" / room).glob("**/*.py"))
    sources = {path: path.read_text() for path in files}
    streams = {path: mutants(path, source, draw) for path, source in sources.items()}
    words = [
        options.python,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
    ]
    words += [f"tests/unit/{judge}" for judge in JUDGES[room]]
    if not _passes(words, copy):
        raise SystemExit(f"{room}: the tests fail without a mutant")
    caught = judged = 0
    while judged < options.sample:
        (path,) = draw.choices(files, [len(sources[one]) for one in files])
        mutant = next(streams[path], None)
        if mutant is None:
            continue
        path.write_text(mutant)
        judged += 1
        survived = _passes(words, copy)
        path.write_text(sources[path])
        caught += not survived
        changed = [(a, b) for a, b in zip(sources[path].splitlines(), mutant.splitlines()) if a != b][:1]
        at = path.relative_to(copy)
        told = " -> ".join(part.strip() for part in (changed or [("a line", "gone")])[0])
        print(f"{'SURVIVED' if survived else 'caught  '} {at}: {told}", flush=True)
    return caught, judged


def _passes(words: list[str], folder: Path) -> bool:
    try:
        told = subprocess.run(words, cwd=folder, capture_output=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return told.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
