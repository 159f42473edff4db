"""What a backend can do is asked of its protocol, never of a name."""

import ast
from pathlib import Path

import pytest

from gputrain.backends.abilities import ABILITIES, members
from gputrain.backends.base import Backend

PACKAGE = Path(__file__).parents[2] / "gputrain"
NAMES = frozenset().union(*(members(one) for one in (Backend, *ABILITIES)))


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_ability_is_looked_up_by_its_name(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("getattr", "hasattr")
        ):
            name = node.args[1]
            assert not (isinstance(name, ast.Constant) and name.value in NAMES), f"{path}:{node.lineno}"
