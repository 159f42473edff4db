"""One limit on what all points cost: whatever is added, ended or asked for since, the sum stays below it."""

import contextlib
import json
import math
import time

import attrs
import pytest
from hypothesis import given, strategies as st

import gputrain
from gputrain import Local, RequestError, Trainer, TrainingSpec
from gputrain.experiments.book import (
    MOST_RETRIES,
    ExperimentRecord,
    Retried,
    again,
    joined,
    opened,
    read_book,
)
from gputrain.experiments.money import shares
from gputrain.experiments.points import canonical
from gputrain.records import RecordError
from tests.each import each

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


def test_a_limit_over_a_point_that_has_none_is_refused():
    with pytest.raises(RequestError, match="cannot be kept"):
        shares(100.0, [1.0, None], 2)


def record(count, **fields):
    points = tuple({"n": number} for number in range(count))
    args = tuple(("--n", str(number)) for number in range(count))
    return ExperimentRecord(
        name="a", spec={"script": "a.py"}, points=points, args=args, limits_usd=(None,) * count, **fields
    )


def limits(book):
    return [None if one is None else round(one, 4) for one in book.limits_usd]


def test_a_limit_is_shared_among_points_that_are_added_later_too():
    def held(book):
        return book.limits_usd

    first = joined(None, record(2, max_cost=10.0), held)
    assert limits(first) == [5, 5]
    assert joined(first, record(2, max_cost=10.0), held) == first
    with pytest.raises(RequestError, match="max_cost=10 is not enough"):
        joined(first, record(8, max_cost=10.0), held)
    with pytest.raises(RequestError, match="max_cost=1 is not enough"):
        joined(first, record(2, max_cost=1.0), held)
    with pytest.raises(RequestError, match="not enough"):
        joined(first, record(3), held)
    assert limits(joined(first, record(4, max_cost=16.0), held)) == [5, 5, 3, 3]
    assert limits(joined(first, record(4), lambda _: [1.0, 2.0])) == [5, 5, 3.5, 3.5]
    with pytest.raises(RequestError, match="without a limit"):
        joined(record(2), record(2, max_cost=10.0), lambda _: [None, 1.0])


def test_a_book_of_the_release_before_is_read_with_what_it_lacks():
    fields = attrs.asdict(record(2))
    for name in ("limits_usd", "max_cost", "is_whole"):
        del fields[name]
    old = read_book("a", json.dumps({"schema": 1, **fields, "share_usd": 5.0}).encode())
    assert (old.limits_usd, old.max_cost, old.is_whole) == ((5.0, 5.0), 10.0, False)
    asked = attrs.evolve(record(1), spec={"script": "a.py", "args": ["--tag"]}, args=(("--tag", "--n", "0"),))
    assert joined(old, asked, lambda _: ()).args == (("--tag", "--n", "0"), ("--tag", "--n", "1"))
    assert read_book("a", asked.written()) == asked


@pytest.mark.parametrize(("own", "share", "used", "left"), [(1, 4, 0, 1), (3, 4, 2, 2), (3, None, 2, 3)])
def test_a_limit_on_each_job_holds_beside_the_limit_on_all(own, share, used, left):
    book = record(1, retried={canonical({"n": 0}): Retried(times=1, used_usd=used)})
    book = attrs.evolve(book, limits_usd=(share,))
    ((spec, _),) = book.asks(TrainingSpec(script="a.py", max_cost=own))
    assert spec.max_cost == left


def test_no_book_is_written_that_tells_of_more_retries_than_are_read(trainer):
    board, text = trainer._road.boards[0], canonical({"n": 0})
    board.keep("a", record(1, retried={text: Retried(times=MOST_RETRIES)}).written(), 0)
    with pytest.raises(RequestError, match="again 1000 times; nothing was submitted"):
        again(board, "a", {text: Retried(times=MOST_RETRIES + 1)})
    assert opened(board, "a").retries({"n": 0}).times == MOST_RETRIES


@each("usd", [math.nan, math.inf, -1.0, True, "1", 10**400])
@each("field", ["max_cost", "limits_usd", "retried"])
def test_a_book_whose_money_is_none_is_no_record(field, usd):
    said = {
        "max_cost": usd,
        "limits_usd": (usd, 1.0),
        "retried": {canonical({"n": 0}): Retried(times=1, used_usd=usd)},
    }
    book = attrs.evolve(record(2), **{field: said[field]})
    with pytest.raises(RecordError, match="is no record"):
        read_book("a", book.written())


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
