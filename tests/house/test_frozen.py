"""A frozen value is data: what asks or remembers is a thing of its own."""

import ast
import re

from tests.house.test_floors import modules

LIVING = frozenset({"Access", "Board", "Kept", "Shared"})
"""They speak to the world, or remember; whatever holds one of them does."""
ASKS = "Callable[[]"
"""What is called without a word knows more than its holder did."""
GIVEN = {"TrainingSpec"}
"""Its function is a user's, and runs elsewhere."""
HANDS_ON = {"PointOutcome"}
"""A row of a table, with the handle of its job for whoever reads it."""


def classes():
    """Class name -> whether it is frozen, and the annotations of all that it is made of."""
    found = {}
    for _, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                init = [one for one in node.body if getattr(one, "name", "") == "__init__"]
                held = [one.annotation for one in node.body if isinstance(one, ast.AnnAssign)]
                held += [one.annotation for each in init for one in (*each.args.args, *each.args.kwonlyargs)]
                told = [ast.unparse(one) for one in (*node.bases, *filter(None, held))]
                is_frozen = any("frozen" in ast.unparse(one) for one in node.decorator_list)
                found[node.name] = is_frozen, " ".join(told)
    return found


KNOWN = classes()


def living():
    """The names of all that lives, by what it is made of."""
    asking = {name for name, (_, held) in KNOWN.items() if ASKS in held} - GIVEN
    found, more = frozenset(), LIVING | asking
    while more > found:
        found = more
        more = found | {name for name, (_, held) in KNOWN.items() if found & set(re.findall(r"\w+", held))}
    return found - HANDS_ON


def test_what_is_frozen_neither_asks_nor_remembers():
    assert sorted(name for name in living() if name in KNOWN and KNOWN[name][0]) == []


def test_no_value_is_handed_a_way_to_google():
    for module, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and KNOWN[node.name][0]:
                given = [ast.unparse(one.args) for one in node.body if isinstance(one, ast.FunctionDef)]
                assert not [one for one in given if "Access" in one], f"{module}.{node.name}"


def test_what_lives_is_seen():
    assert {"Objects", "BucketBoard", "VertexAI", "Increase", "Result"} <= living()
