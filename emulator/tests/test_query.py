"""The filter language of Logging and of Vertex AI lists."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from gputrain_emulator.query import (
    Call,
    Comparison,
    Every,
    FilterError,
    Leaf,
    Not,
    Some,
    Text,
    holds,
    leaves,
    parse,
)
from tests.each import each


def _eq(path: str, value: str, quoted: bool = False) -> Comparison:
    return Comparison(path=tuple(path.split(".")), operator="=", value=value, quoted=quoted)


def test_or_binds_tighter_than_and() -> None:
    assert parse("a=1 OR b=2 AND c=3 OR d=4") == Every(
        nodes=(Some(nodes=(_eq("a", "1"), _eq("b", "2"))), Some(nodes=(_eq("c", "3"), _eq("d", "4"))))
    )


def test_terms_side_by_side_and_on_new_lines_are_joined_by_and() -> None:
    assert parse("a=1 b=2\nc=3") == Every(nodes=(_eq("a", "1"), _eq("b", "2"), _eq("c", "3")))


def test_not_and_minus_deny_the_next_term_only() -> None:
    assert parse("NOT a=1 -b=2") == Every(nodes=(Not(node=_eq("a", "1")), Not(node=_eq("b", "2"))))


def test_comments_and_blank_filters_say_nothing() -> None:
    assert parse("") == parse("  \n-- only a comment\n") == Every(nodes=())
    assert parse("a=1 -- why\nb=2") == Every(nodes=(_eq("a", "1"), _eq("b", "2")))


def test_paths_keep_quoted_parts_whole() -> None:
    found = parse('labels."compute.googleapis.com/resource_name"="worker-0"')
    assert found == Comparison(
        path=("labels", "compute.googleapis.com/resource_name"), operator="=", value="worker-0", quoted=True
    )


def test_a_value_list_is_spread_over_the_field() -> None:
    assert parse("a=(1 OR 2)") == Some(nodes=(_eq("a", "1", True), _eq("a", "2", True)))


def test_escapes_in_quotes_are_undone() -> None:
    found = parse(r'textPayload:"say \"hi\" \\ there"')
    assert isinstance(found, Comparison)
    assert found.value == 'say "hi" \\ there'


def test_every_operator_is_read() -> None:
    for operator in ("=", "!=", "<", "<=", ">", ">=", ":", "=~", "!~"):
        found = parse(f'timestamp {operator} "x"')
        assert isinstance(found, Comparison)
        assert found.operator == operator


def test_bare_words_strings_and_functions_are_leaves() -> None:
    assert leaves(parse('word "two words" log_id("stderr")')) == (
        Text(value="word"),
        Text(value="two words"),
        Call(name="log_id", argument="stderr"),
    )


@each(
    "text", ["AND", "a=", "(a=1", "a=1)", "a=1 OR", "NOT", '"open', "a==1", "(" * 200, "=1", "a=(b=1)", "f("]
)
def test_what_is_no_filter_is_refused_and_says_where(text: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(text)
    assert str(refused.value)


@given(st.text(max_size=60))
def test_any_text_is_a_tree_or_a_refusal(text: str) -> None:
    try:
        tree = parse(text)
    except FilterError:
        return
    holds(tree, bool)


@given(st.dictionaries(st.sampled_from("abc"), st.booleans(), min_size=3, max_size=3))
def test_a_tree_holds_as_python_would_say(truth: dict[str, bool]) -> None:
    def test(leaf: Leaf) -> bool:
        assert isinstance(leaf, Text)
        return truth[leaf.value]

    a, b, c = truth["a"], truth["b"], truth["c"]
    assert holds(parse("a OR NOT b AND (c OR b)"), test) is ((a or not b) and (c or b))
