"""The clock: events in their order, nothing lost, nothing early."""

from __future__ import annotations

import threading

from hypothesis import given, settings, strategies as st

from gputrain_emulator.clock import Clock

TIMES = st.lists(st.integers(0, 50), max_size=20)


@settings(max_examples=50)
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
