import math
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from gputrain import SpecError
from gputrain.spec import format_duration, parse_duration
from gputrain.spec.duration import parse_moment, seconds_of
from tests.each import each

NOON = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)


@each(
    ("text", "seconds"),
    [("90m", 5400), ("12h", 43200), ("1d", 86400), ("45s", 45), ("1h30m", 5400), (" 2H ", 7200)],
)
def test_durations_are_read_as_people_write_them(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert seconds_of(text) == seconds


@each("bad", ["", "h", "12", "-1h", "1.5h", "1h 30m", "0s", "30m1h", 5, None, timedelta(0), "1w"])
def test_anything_else_is_refused(bad):
    with pytest.raises(ValueError, match=r"duration|second"):
        parse_duration(bad)


@given(st.integers(1, 10**7) | st.just(timedelta.max.days * 86_400))
def test_what_is_written_is_read_back(seconds):
    assert parse_duration(format_duration(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


@each("value", ["soon", math.nan, "nan", 10**400, [], {}])
def test_a_timeout_that_is_no_duration_is_refused(value):
    with pytest.raises(SpecError, match="timeout="):
        seconds_of(value)


@each("value", ["2h", timedelta(hours=2), "2026-11-22T10:00Z", NOON.replace(hour=10)])
def test_a_moment_is_said_as_people_say_it(value):
    assert parse_moment(value, NOON) == NOON.replace(hour=10)


@each("value", ["2026-11-22", datetime(2026, 11, 22)])
def test_a_moment_without_a_zone_is_local_time(value):
    assert parse_moment(value, NOON) == datetime(2026, 11, 22).astimezone()


@each("value", ["nope", "2026-13-40", 5, [], timedelta.max])
def test_what_is_no_moment_is_refused(value):
    with pytest.raises(SpecError, match="since="):
        parse_moment(value, NOON)
