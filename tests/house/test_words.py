"""One word, one thing: a class name that stands twice sends a reader to the wrong file."""

import ast
from collections import defaultdict

from tests.house.test_floors import modules


def places():
    """Class name -> the modules that define one of that name."""
    found = defaultdict(list)
    for module, path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module)
    return found


def test_a_class_name_stands_for_one_thing():
    assert {name: where for name, where in places().items() if len(where) > 1} == {}


def test_the_classes_are_seen():
    assert places()["TrainingSpec"] == ["gputrain.spec.training"]
