"""Only who knows a platform may take its places apart: planning and the trainer know names, not grammars."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gputrain"
PATHS = sorted(
    path
    for room in ("planning", "trainer", "job", "experiments", "records")
    for path in (PACKAGE / room).rglob("*.py")
)
CUTS = {"rpartition", "partition", "split", "rsplit"}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_place_is_cut_at_a_hyphen(path):
    tree = ast.parse(path.read_text())
    assert "region_of" not in {node.name for node in ast.walk(tree) if isinstance(node, ast.alias)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert not [call.lineno for call in calls if ast.unparse(call.func).endswith("catalog.region_of")]
    cuts = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in CUTS]
    assert not [call.lineno for call in cuts if any(ast.unparse(arg) == "'-'" for arg in call.args)]
