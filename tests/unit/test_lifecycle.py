import itertools
from datetime import datetime, timezone

import pytest

from gputrain import SpecError
from gputrain.backends.base import LogLine
from gputrain.lifecycle import Observation, State, advance
from tests.each import each

ENDS = [state for state in State if state.is_terminal]
PAIRS = list(itertools.product(State, [*State, None]))


@each(("state", "seen"), PAIRS)
def test_every_pair_of_states_has_an_answer(state, seen):
    assert advance(state, seen) in State


@each("seen", [*State, None])
@each("end", ENDS)
def test_an_end_is_never_left(end, seen):
    assert advance(end, seen) is end


@each("state", State)
def test_a_failed_look_changes_nothing(state):
    assert advance(state, None) is state


def test_ranks_that_ran_and_now_wait_were_interrupted():
    assert advance(State.RUNNING, State.QUEUED) is State.INTERRUPTED
    assert advance(State.RUNNING, State.PROVISIONING) is State.INTERRUPTED
    assert advance(State.INTERRUPTED, State.RUNNING) is State.RUNNING


def test_a_stop_is_not_forgotten_because_a_late_look_sees_ranks():
    assert advance(State.STOPPING, State.RUNNING) is State.STOPPING
    assert advance(State.STOPPING, State.CANCELLED) is State.CANCELLED
    assert advance(State.STOPPING, State.SUCCEEDED) is State.SUCCEEDED


@pytest.mark.parametrize(
    ("kind", "given", "field"),
    [(Observation, {}, "started_at"), (Observation, {}, "ended_at"), (LogLine, {"message": "hello"}, "time")],
)
def test_a_moment_without_its_time_zone_is_refused_where_it_is_told(kind, given, field):
    assert kind(**given, **{field: datetime(2026, 11, 23, tzinfo=timezone.utc)})
    with pytest.raises(SpecError, match=f"{kind.__name__}: {field}=.*a moment with its time zone"):
        kind(**given, **{field: datetime(2026, 11, 23)})
