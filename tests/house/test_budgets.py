"""Small rooms: a file of at most 300 lines, a function of at most 40; nothing prints in a library."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "gputrain", ROOT / "emulator" / "gputrain_emulator")
FILES = [path for package in PACKAGES for path in sorted(package.rglob("*.py"))]
TABLES = ("catalog", "data")
MAY_PRINT = ("entrypoint", "gputrain_emulator", "ddp", "__main__.py")


def ids(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_a_file_has_at_most_300_lines(path):
    if not set(TABLES) & set(path.parts):
        assert path.read_text().count("\n") <= 300


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_a_function_has_at_most_40_lines(path):
    """As a reader counts: from ``def`` to its last line, blank lines and comments too; not its docstring."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            if ast.get_docstring(node):
                length -= node.body[0].end_lineno - node.body[0].lineno + 1
            assert length <= 40, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_a_library_does_not_print(path):
    if not set(MAY_PRINT) & set(path.parts):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        assert not [node.lineno for node in names if node.id in ("print", "breakpoint")]
        if not {"cli", "keeper"} & set(path.parts):
            streams = [node for node in nodes if isinstance(node, ast.Attribute)]
            assert not [node.lineno for node in streams if ast.unparse(node) == "sys.stdout"]


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_no_checkpoint_is_loaded_as_a_pickle(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.keyword) and node.arg == "weights_only":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is True
