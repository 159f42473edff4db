"""The filter language of Google's lists."""

from __future__ import annotations

from gputrain_emulator.query import Leaf, Test, compiled
from tests.each import each

TRUE = {"a": "1", "b": "2", "c": "3"}


def equal(leaf: Leaf) -> Test:
    return lambda document: bool(document.get(leaf.path[0], "") == leaf.value)


def read(text: str) -> list[Leaf]:
    """The leaves of a filter, left to right."""
    found: list[Leaf] = []

    def keep(leaf: Leaf) -> Test:
        found.append(leaf)
        return lambda _: True

    compiled(text, keep)
    return found


@each(
    ("text", "held"),
    [
        ("", True),
        ("a=0 OR b=2 AND c=3 OR d=4", True),  # OR binds tighter than AND
        ("a=1 OR b=2 AND c=0 OR d=4", False),
        ("a=1 b=2\nc=3", True),
        ("NOT a=0 NOT b=0", True),
        ("NOT a=1 b=2", False),
        ("(a=0 OR b=2) AND c=3", True),
        ("(a=1 b=2) c=0", False),
    ],
)
def test_terms_are_joined_as_google_joins_them(text: str, held: bool) -> None:
    assert compiled(text, equal)(TRUE) is held


def test_a_leaf_is_a_path_an_operator_and_a_value() -> None:
    assert read('labels."compute.googleapis.com/resource_name"="worker-0"') == [
        Leaf(path=("labels", "compute.googleapis.com/resource_name"), operator="=", value="worker-0")
    ]
    assert read(r'textPayload:"say \"hi\" \\ there"')[0].value == 'say "hi" \\ there'
    operators = ("=", "!=", "<", "<=", ">", ">=", ":", "=~", "!~", "eq", "ne")
    assert [read(f'timestamp {one} "x"')[0].operator for one in operators] == list(operators)
    assert read('word "two words"') == [Leaf(path=("word",)), Leaf(path=("two words",))]
