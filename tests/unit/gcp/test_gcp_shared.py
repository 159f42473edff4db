"""Many threads, few calls: single flight, freshness, an end to what is kept; and questions side by side."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gputrain.errors import AuthError, TransientError
from gputrain.gcp.pace import Pace
from gputrain.gcp.shared import LONGEST_S, Kept, Shared

PATIENCE_S = 10.0


class Clock:
    """Seconds that a test moves."""

    def __init__(self):
        self.time = 1_000_000.0

    def now(self):
        return self.time


@pytest.fixture
def clock():
    return Clock()


def counted(answer, calls):
    def ask():
        calls.append(answer)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return ask


def test_an_answer_is_good_for_its_time(clock):
    shared, calls = Shared(fresh_s=10, now=clock.now), []
    for pause_s, asked in ((0, 1), (0, 1), (9, 1), (1, 2)):
        clock.time += pause_s
        assert shared.get("a", counted(1, calls)) == 1
        assert len(calls) == asked


def test_nothing_is_believed_for_more_than_a_minute(clock):
    shared, calls = Shared(fresh_s=3600, now=clock.now), []
    for _ in range(2):
        shared.get("a", counted(1, calls))
        clock.time += LONGEST_S
    assert len(calls) == 2


def test_an_answer_says_itself_how_long_it_is_good(clock):
    shared, calls = Shared(fresh_s=lambda value: value, now=clock.now), []
    for pause_s, asked in ((0, 1), (4, 1), (1, 2)):
        clock.time += pause_s
        shared.get("a", counted(5, calls))
        assert len(calls) == asked


def test_a_clock_that_went_back_keeps_nothing(clock):
    shared, calls = Shared(fresh_s=10, now=clock.now), []
    for step_s in (0, 0.5, 3600):
        clock.time -= step_s
        shared.get("a", counted(1, calls))
    assert len(calls) == 3


def test_threads_that_ask_at_the_same_time_share_one_call():
    calls, together = [], threading.Barrier(32)
    shared = Shared(fresh_s=10)

    def ask(_):
        together.wait(PATIENCE_S)
        return shared.get("a", lambda: calls.append(1) or time.sleep(0.05) or "told")

    with ThreadPoolExecutor(32) as pool:
        assert set(pool.map(ask, range(32))) == {"told"}
    assert len(calls) == 1


def test_two_questions_do_not_wait_for_each_other():
    together = threading.Barrier(2)
    shared = Shared(fresh_s=10)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda key: shared.get(key, lambda: together.wait(PATIENCE_S)), "ab"))


def test_a_failure_is_raised_and_asked_anew():
    shared, calls = Shared(fresh_s=10), []
    for _ in range(2):
        with pytest.raises(AuthError):
            shared.get("a", counted(AuthError("no"), calls))
    assert len(calls) == 2


def test_who_waits_for_a_call_that_was_interrupted_makes_it_again():
    shared, under_way, calls = Shared(fresh_s=10), threading.Event(), []

    def interrupted():
        under_way.set()
        time.sleep(0.1)
        raise KeyboardInterrupt

    def first():
        with pytest.raises(KeyboardInterrupt):
            shared.get("a", interrupted)

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        under_way.wait(PATIENCE_S)
        assert pool.submit(shared.get, "a", counted("well", calls)).result(PATIENCE_S) == "well"
        one.result(PATIENCE_S)


def test_what_is_forgotten_is_asked_anew():
    shared, calls = Shared(fresh_s=10), []
    for _ in range(2):
        shared.get("a", counted(1, calls))
        shared.forget()
    assert len(calls) == 2


def test_answers_that_are_good_for_nothing_any_more_are_let_go(clock):
    shared = Shared(fresh_s=10, now=clock.now)
    for number in range(100):
        shared.get(number, lambda: 1)
    clock.time += 10
    shared.get("new", lambda: 1)
    assert list(shared._flights) == ["new"]


@pytest.mark.parametrize(("most", "asked"), [({"most": 5}, 5), ({"most": 5}, 9), ({}, 256), ({}, 260)])
def test_never_more_is_kept_than_was_said_and_the_oldest_goes(clock, most, asked):
    shared, calls = Shared(fresh_s=10, now=clock.now, **most), []
    for number in range(asked):
        shared.get(number, lambda: 1)
    for number in reversed(range(asked)):
        shared.get(number, lambda number=number: calls.append(number))
        if calls:
            break
    assert calls == ([asked - most.get("most", 256) - 1] if asked > most.get("most", 256) else [])


def test_a_failure_side_by_side_is_an_answer_of_its_own_and_kept_for_less(clock):
    shared, calls = Shared(fresh_s=60, failure_s=15, now=clock.now), []
    error = AuthError("no")
    for pause_s, asked in ((0, 1), (14, 1), (2, 2)):
        clock.time += pause_s
        found = shared.ask({"a": counted(error, calls)})["a"]
        assert (found.value, found.error) == (None, error)
        assert len(calls) == asked


def test_all_questions_are_out_at_the_same_time_and_keep_no_process_from_its_end():
    together, is_daemon = threading.Barrier(5), []

    def ask():
        is_daemon.append(threading.current_thread().daemon)
        return together.wait(PATIENCE_S)

    found = Shared(fresh_s=10).ask({str(one): ask for one in range(5)})
    assert sorted(one.value for one in found.values()) == [0, 1, 2, 3, 4]
    assert is_daemon == [True] * 5


def test_what_is_not_answered_in_time_is_late_at_once_for_the_next_and_kept_when_it_comes():
    release = threading.Event()
    shared = Shared(fresh_s=10, wait_s=0.1)

    def ask():
        release.wait(PATIENCE_S)
        return "late"

    first = shared.ask({"a": ask})["a"]
    assert isinstance(first.error, TransientError)
    before = time.monotonic()
    again = shared.ask({"a": ask})["a"]
    assert isinstance(again.error, TransientError)
    assert time.monotonic() - before < 0.1
    release.set()
    until = time.monotonic() + PATIENCE_S
    while shared.ask({"a": ask})["a"].value != "late":
        assert time.monotonic() < until


def test_a_mistake_in_a_question_is_raised_and_not_kept():
    shared, calls = Shared(fresh_s=10), []
    for _ in range(2):
        with pytest.raises(KeyError):
            shared.ask({"a": counted(KeyError("a mistake"), calls)})
    assert len(calls) == 2


def test_what_nobody_has_asked_for_is_not_kept(clock):
    kept = Kept(idle_s=10, now=clock.now)
    kept.put("a", 1)
    kept.put("b", 2)
    clock.time += 8
    assert kept.get("a") == 1
    clock.time += 8
    assert kept.items() == (("a", 1),)
    clock.time += 2
    assert (len(kept), kept.get("a")) == (1, 1)


def test_what_nobody_has_asked_for_in_an_hour_is_not_kept(clock):
    kept = Kept(now=clock.now)
    kept.put("a", 1)
    for later_s, held in ((3600, 1), (3600, 1), (3600.5, 0)):
        clock.time += later_s
        kept.get("a")
        assert len(kept) == held


def test_the_longest_unused_goes_first():
    kept = Kept(most=2)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.get("a")
    kept.put("c", 3)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (1, None, 3)
    many = Kept()
    for number in range(10_001):
        many.put(number, number)
    assert (len(many), many.get(0), many.get(1)) == (10_000, None, 1)


def test_streams_at_the_same_moment_have_the_turns_that_were_saved_and_then_one_each(clock):
    pace = Pace(each_s=2.0, now=clock.now)
    assert pace.take("first")  # alone, which needs no turn
    assert [pace.take(f"job {number}") for number in range(20)] == [True] * 11 + [False] * 9
    turns = [
        (1.9, False),
        (0.1, True),
        (0.0, False),
        (2.0, True),
        (6.0, True),
        (0.0, True),
        (0.0, True),
        (0.0, False),
    ]
    for number, (later_s, has_turn) in enumerate(turns):
        clock.time += later_s
        assert pace.take(f"late {number}") is has_turn, number
    clock.time -= 3600
    assert [pace.take(f"early {number}") for number in range(3)] == [True, False, False]


def test_each_of_several_streams_waits_until_all_had_time_for_a_turn(clock):
    pace = Pace(each_s=2.0, few=1, idle_s=60.0, now=clock.now)
    for _ in range(3):
        assert pace.take("a")
        assert pace.take("b")
        assert pace.take("c")
        clock.time += 5.9
        assert not pace.take("a")
        clock.time += 0.1
    clock.time += 60.5
    pace.note("b")
    assert [pace.take("b") for _ in range(5)] == [True] * 5
    clock.time -= 3600
    assert pace.take("b")


def test_a_stream_that_has_not_asked_for_two_minutes_counts_no_more(clock):
    pace = Pace(each_s=10.0, few=1, now=clock.now)
    pace.note("a")
    pace.note("b")
    for later_s, has_turn in ((0.0, False), (119.5, True), (0.0, False), (0.5, False), (0.5, True)):
        clock.time += later_s
        assert pace.take("a") is has_turn


def test_many_streams_that_are_due_at_once_come_one_after_the_other_and_none_is_forgotten(clock):
    pace, streams = Pace(each_s=1.0, few=4, now=clock.now), range(300)
    for number in streams:
        pace.note(f"job {number}")
    taken, by_minute = dict.fromkeys(streams, 0), []
    for _ in range(15):
        calls = 0
        for _ in range(12):
            clock.time += 5
            turns = [number for number in streams if pace.take(f"job {number}")]
            calls += len(turns)
            for number in turns:
                taken[number] += 1
        by_minute.append(calls)
    assert max(by_minute) <= 60 + 10
    assert set(taken.values()) <= {1, 2, 3}


def test_few_streams_need_no_turn(clock):
    pace = Pace(each_s=1.0, few=4, now=clock.now)
    assert all(pace.take(f"job {number}") for _ in range(5) for number in range(4))


def test_a_stream_that_goes_on_has_its_turn(clock):
    pace = Pace(each_s=1.2, now=clock.now)
    assert pace.take("a")
    assert not pace.take("a")
    assert pace.take("a", is_continued=True)
