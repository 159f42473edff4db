"""When a supervisor asks, and when it kills."""

from hypothesis import given, settings, strategies as st

from gputrain.runtime.supervisor import AGAIN_S, ASK, KILL, NOTHING, Rules


def test_those_who_do_not_heed_are_killed_again_and_again():
    rules = Rules(10.0, "expired", 5.0)
    rules.at(1.0, "cancelled")
    assert [rules.at(now) for now in (5.9, 6.0, 6.1, 6.0 + AGAIN_S)] == [NOTHING, KILL, NOTHING, KILL]


def test_the_rest_that_has_to_leave_was_not_stopped_until_somebody_says_so():
    rules = Rules(10.0, "expired", 5.0)
    assert rules.at(1.0, leave_by=1.0) == ASK
    assert rules.stop == ""
    assert rules.at(2.0, "cancelled") == NOTHING
    assert rules.stop == "cancelled"


MOMENTS = st.tuples(st.floats(0, 5), st.sampled_from(["", "", "cancelled", "peer"]), st.booleans())


@settings(max_examples=200)
@given(st.lists(MOMENTS, max_size=40))
def test_in_any_story_they_are_asked_once_before_they_are_killed_and_the_reason_stays(story):
    rules, now, done, reasons = Rules(20.0, "expired", 3.0), 0.0, [], []
    for pause, word, leaves in story:
        now += pause
        assert 0 <= rules.pause_s(now, 0.2) <= 0.2
        done.append(rules.at(now, word, leave_by=now if leaves else float("inf")))
        reasons += [rules.stop] if rules.stop else []
    assert done.count(ASK) <= 1
    assert KILL not in done or done.index(ASK) < done.index(KILL)
    assert len(set(reasons)) <= 1
    assert ASK in done or not reasons
