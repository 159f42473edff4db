"""Many threads, few calls: single flight, freshness, an end to what is kept; and questions side by side."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gputrain.errors import AuthError, TransientError
from gputrain.gcp.shared import LONGEST_S, Kept, Pace, Shared

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
    for pause_s, asked in ((0, 1), (9, 1), (1, 2)):
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
    shared.get("a", counted(1, calls))
    clock.time -= 3600
    shared.get("a", counted(1, calls))
    assert len(calls) == 2


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


def test_never_more_is_kept_than_was_said(clock):
    shared = Shared(fresh_s=10, now=clock.now, most=5)
    for number in range(100):
        shared.get(number, lambda: 1)
    assert list(shared._flights) == [95, 96, 97, 98, 99]


def test_a_failure_side_by_side_is_an_answer_of_its_own_and_kept_for_less(clock):
    shared, calls = Shared(fresh_s=60, failure_s=15, now=clock.now), []
    error = AuthError("no")
    for pause_s, asked in ((0, 1), (14, 1), (2, 2)):
        clock.time += pause_s
        found = shared.ask({"a": counted(error, calls)})["a"]
        assert (found.value, found.error) == (None, error)
        assert len(calls) == asked


def test_all_questions_are_out_at_the_same_time():
    together = threading.Barrier(5)
    asked = {str(one): lambda: together.wait(PATIENCE_S) for one in range(5)}
    found = Shared(fresh_s=10).ask(asked)
    assert sorted(one.value for one in found.values()) == [0, 1, 2, 3, 4]


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


def test_the_longest_unused_goes_first():
    kept = Kept(most=2)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.get("a")
    kept.put("c", 3)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (1, None, 3)


def test_streams_together_stay_within_their_calls_a_minute(clock):
    pace = Pace(each_s=1.2, now=clock.now)
    calls = 0
    for _ in range(600):
        clock.time += 0.1
        calls += sum(pace.take(f"job {number}") for number in range(10))
    assert calls <= 60 / 1.2 + 10


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
