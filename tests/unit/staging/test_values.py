import datetime
import fractions
import logging
import pathlib
import re
import threading

import pytest
from hypothesis import given, settings, strategies as st

from gputrain.staging.code import CannotTravel, expression, modules_of

MODULES = {one.__name__: one for one in (datetime, fractions, logging, pathlib, re)}

ATOMS = (
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.complex_numbers(allow_nan=False),
)
PLAIN = st.recursive(
    st.one_of(*ATOMS),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(inner).map(tuple),
    max_leaves=10,
)


def again(value):
    text = expression(value)
    return eval(text, {name: MODULES[name] for name in modules_of(text)})


@settings(max_examples=50)
@given(PLAIN)
def test_plain_values_are_made_again(value):
    made = again(value)
    assert made == value
    assert repr(made) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        set(),
        {1, 2},
        frozenset({"a"}),
        range(3),
        ...,
        pathlib.Path("/a/b"),
        datetime.timedelta(hours=3),
        fractions.Fraction(1, 3),
        re.compile("a+", re.IGNORECASE),
        logging.getLogger("a.b"),
        [pathlib.PurePosixPath("x")],
        float("-inf"),
    ],
)
def test_other_values_that_are_made_again(value):
    assert again(value) == value


def test_not_a_number_stays_none():
    assert str(again(float("nan"))) == "nan"


class Named(int):
    """An int that is more than an int."""


def endless():
    loop = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize("value", [threading.Lock(), object(), Named(3), [object()], {"a": open}, endless()])
def test_what_is_bound_to_this_process_is_refused(value):
    with pytest.raises(CannotTravel):
        expression(value)


def test_data_is_not_a_constant():
    with pytest.raises(CannotTravel, match="too large"):
        expression("x" * (2 << 20))
