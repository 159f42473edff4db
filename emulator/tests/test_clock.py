"""The clock: events in their order, nothing lost, nothing early."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings, strategies as st

from gputrain_emulator.clock import Clock, compute_time, parse_time, zulu_time

TIMES = st.lists(st.integers(0, 50), max_size=20)


@settings(max_examples=50, deadline=None)
@given(whens=TIMES, steps=st.lists(st.integers(0, 20), max_size=6))
def test_events_happen_in_order_each_at_its_own_time(whens: list[int], steps: list[int]) -> None:
    clock = Clock(start=0.0)
    seen: list[tuple[float, float]] = []
    for when in whens:
        clock.at(when, lambda when=when: seen.append((when, clock.now())))  # type: ignore[misc]
    for step in steps:
        clock.advance(step)
    now = sum(steps)
    assert clock.now() == now
    assert seen == [(when, when) for when in sorted(whens) if steps and when <= now]


def test_an_event_may_make_another_that_falls_due_in_the_same_step() -> None:
    clock = Clock(start=0.0)
    seen: list[float] = []
    clock.after(1, lambda: clock.after(1, lambda: seen.append(clock.now())))
    clock.advance(5)
    assert seen == [2.0]
    assert clock.now() == 5.0


def test_a_cancelled_event_never_happens() -> None:
    clock = Clock(start=0.0)
    seen: list[int] = []
    clock.after(1, lambda: seen.append(1)).cancel()
    assert clock.next_event() is None
    clock.advance(5)
    assert seen == []


def test_a_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        Clock().advance(-1)


def test_a_wall_clock_runs_by_itself_and_can_be_pushed() -> None:
    clock = Clock(wall=True)
    happened = threading.Event()
    clock.after(3600, happened.set)
    assert not happened.wait(0.05)
    clock.advance(3600)
    assert happened.is_set()
    soon = threading.Event()
    clock.after(0.05, soon.set)
    assert soon.wait(10)
    clock.close()


def test_waiting_on_a_standing_clock_jumps_no_further_than_needed() -> None:
    clock = Clock(start=0.0)
    done: list[bool] = []
    clock.after(7, lambda: done.append(True))
    clock.after(9, lambda: done.append(True))
    assert clock.wait_for(lambda: bool(done), 100)
    assert clock.now() == 7.0
    assert not clock.wait_for(lambda: len(done) > 2, 100)
    assert clock.now() == 107.0


@given(when=st.integers(0, 4_000_000_000))
def test_both_ways_of_printing_a_time_read_back_as_it(when: int) -> None:
    assert parse_time(zulu_time(when)) == when
    assert parse_time(compute_time(when)) == when


def test_a_time_without_a_zone_is_no_time() -> None:
    for text in ("2026-11-20T12:00:00", "yesterday", ""):
        with pytest.raises(ValueError):
            parse_time(text)
    assert parse_time("2026-11-20T12:00:00.123456789Z") == pytest.approx(1795176000.123457)


def test_an_event_that_fails_stops_no_clock() -> None:
    clock, told, done = Clock(wall=True), [], threading.Event()
    clock.failed = told.append
    clock.after(0, lambda: [].pop())
    clock.after(0.01, done.set)
    assert done.wait(60)
    assert [type(error) for error in told] == [IndexError]
    clock.close()
