import datetime
import logging
import pathlib
import re
import threading

import pytest
from hypothesis import given, settings, strategies as st

from gputrain.code.function import CannotTravel, expression
from tests.each import each

ATOMS = (st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary())
PLAIN = st.recursive(
    st.one_of(*ATOMS),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
    max_leaves=10,
)


def again(value):
    """Evaluated where every name is somebody else's."""
    hidden = dict.fromkeys(["float", "complex", "set", "frozenset", "range", "datetime", "pathlib", "re"])
    return eval(expression(value), hidden)


@settings(max_examples=50)
@given(PLAIN)
def test_plain_values_are_made_again(value):
    made = again(value)
    assert made == value
    assert repr(made) == repr(value)


@each(
    "value",
    [
        set(),
        {1, 2},
        frozenset({"a"}),
        pathlib.Path("/a/b"),
        re.compile("a+", re.IGNORECASE),
        logging.getLogger("a.b"),
        [pathlib.Path("x")],
        float("-inf"),
    ],
)
def test_other_values_that_are_made_again(value):
    assert again(value) == value


class Span(datetime.timedelta):
    """As pandas has one, whose repr is no expression of ours."""


class Named(int):
    """An int that is more than an int."""


def endless(kind):
    loop = kind()
    loop.update({1: loop}) if kind is dict else loop.append(loop)
    return loop


@each(
    "value",
    [
        threading.Lock(),
        object(),
        Named(3),
        Span(1),
        pytest.param(10**5000, id="long"),
        [object()],
        {"a": open},
        endless(list),
        endless(dict),
    ],
)
def test_what_is_bound_to_this_process_is_refused(value):
    with pytest.raises(CannotTravel):
        expression(value)
