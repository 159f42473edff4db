from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from gputrain.spec import format_duration, parse_duration
from tests.each import each


@each(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("12h", 43200),
        ("1d", 86400),
        ("45s", 45),
        ("1h30m", 5400),
        (" 2H ", 7200),
        ("1d12h", 129600),
    ],
)
def test_durations_are_read_as_people_write_them(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@each("bad", ["", "h", "12", "-1h", "1.5h", "1h 30m", "0s", "30m1h", 5, None, timedelta(0), "1w"])
def test_anything_else_is_refused(bad):
    with pytest.raises(ValueError, match=r"duration|second"):
        parse_duration(bad)


@given(st.integers(1, 10**7))
def test_what_is_written_is_read_back(seconds):
    assert parse_duration(format_duration(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


def test_the_longest_is_read_back():
    whole = timedelta(days=timedelta.max.days)
    assert parse_duration(format_duration(whole)) == whole
