"""One limit on what all points cost: whatever is added, ended or asked for since, the sum stays below it."""

import contextlib
import time

import pytest
from hypothesis import given, strategies as st

import gputrain
from gputrain import Local, RequestError, Trainer, TrainingSpec
from gputrain.experiments.record import Entry, ExperimentRecord, shares

USD = st.floats(0.01, 1e6)


@given(st.lists(st.tuples(st.integers(1, 40), USD, st.lists(st.floats(0, 1), max_size=40)), max_size=6))
def test_points_that_are_added_and_limits_that_change_never_add_up_to_more_than_the_limit(asks):
    held = []
    for new, limit, spent in asks:
        for number, share in enumerate(spent[: len(held)]):  # some have ended meanwhile, below their limits
            held[number] *= share
        with contextlib.suppress(RequestError):
            held += shares(limit, held, new)
            assert sum(held) <= limit * (1 + 1e-9) + 1e-6 * len(held)
            assert min(held[-new:]) > 0


def record(count, **fields):
    entries = tuple(Entry(point={"n": number}, args=("--n", str(number))) for number in range(count))
    return ExperimentRecord(name="a", spec={"script": "a.py"}, entries=entries, **fields)


def limits(found):
    return [None if one.limit_usd is None else round(one.limit_usd, 4) for one in found.entries]


def test_a_limit_is_shared_among_points_that_are_added_later_too():
    held = limits
    first = record(0).joined(record(2, max_cost=10.0), held)
    assert limits(first) == [5, 5]
    assert first.joined(record(2, max_cost=10.0), held) == first
    with pytest.raises(RequestError, match="max_cost=10 is not enough"):
        first.joined(record(8, max_cost=10.0), held)
    with pytest.raises(RequestError, match="max_cost=1 is not enough"):
        first.joined(record(2, max_cost=1.0), held)
    with pytest.raises(RequestError, match="not enough"):
        first.joined(record(3), held)
    assert limits(first.joined(record(4, max_cost=16.0), held)) == [5, 5, 3, 3]
    assert limits(first.joined(record(4), lambda _: [1.0, 2.0])) == [5, 5, 3.5, 3.5]
    with pytest.raises(RequestError, match="without a limit"):
        record(2).joined(record(2, max_cost=10.0), lambda _: [None, 1.0])


@pytest.mark.parametrize(("own", "share", "used", "left"), [(1, 4, 0, 1), (3, 4, 2, 2), (3, None, 2, 3)])
def test_a_limit_on_each_job_holds_beside_the_limit_on_all(own, share, used, left):
    entry = Entry(point={"n": 0}, args=(), limit_usd=share, retries=1, used_usd=used)
    assert entry.spec(TrainingSpec(script="a.py", max_cost=own)).max_cost == left


def test_more_points_are_refused_while_those_that_run_may_use_the_whole_limit(tmp_path):
    path = tmp_path / "long.py"
    path.write_text("import time; time.sleep(600)")
    trainer = Trainer(Local(gpus=0))
    scan = trainer.map(str(path), [{"n": 1}], name="dear", max_cost=4)
    with pytest.raises(RequestError, match="max_cost=4 is not enough") as told:
        trainer.map(str(path), [{"n": 1}, {"n": 2}], name="dear", max_cost=4)
    assert "$4.00 already" in told.value.why
    assert len(trainer.experiment("dear").points) == 1
    more = trainer.map(str(path), gputrain.grid(n=[1, 2]), name="dear", max_cost=6, max_parallel=2)
    while len(more.jobs) < 2:
        time.sleep(0.05)
    scan.cancel()
    assert [job.spec.max_cost for job in more.wait(timeout="5m").jobs] == [4, 2]
