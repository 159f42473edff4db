"""An experiment is many jobs as one thing: each point once, whoever is killed, the bad ones in place."""

import functools

import numpy
import pytest

import gputrain
from gputrain import JobFailedError, RequestError, SpecError
from tests.each import each


def losses(lr):
    """A function that is mapped."""


def test_a_grid_is_every_combination_in_order():
    assert gputrain.grid(lr=[0.1, 0.2], seed=range(2)) == (
        {"lr": 0.1, "seed": 0}, {"lr": 0.1, "seed": 1}, {"lr": 0.2, "seed": 0}, {"lr": 0.2, "seed": 1},
    )  # fmt: skip


@pytest.mark.parametrize("values", ["adamw", b"sgd", {"lr": 1}, 3, None])
def test_a_value_alone_is_no_axis_of_a_grid(values):
    with pytest.raises(SpecError, match=r"optimizer: .*a list of values"):
        gputrain.grid(optimizer=values)


def test_a_grid_of_too_many_points_is_told_before_they_are_made(trainer, script):
    with pytest.raises(SpecError, match="more than 10000"):
        trainer.map(script, gputrain.grid(a=range(10**5), b=range(10**6)), name="scan")


def test_each_point_is_a_job_and_a_failing_one_stops_none(trainer, script):
    scan = trainer.map(script, gputrain.grid(lr=[0.5, 3.0, 0.1]), name="scan")
    ended = list(scan.as_completed())
    assert {job.point["lr"] for job in ended} == {0.5, 3.0, 0.1}
    outcomes = scan.results()
    assert [one.point["lr"] for one in outcomes] == [0.5, 3.0, 0.1]
    assert [type(one.error) for one in outcomes] == [type(None), JobFailedError, type(None)]
    with pytest.raises(JobFailedError, match="too high"):
        outcomes[1].result  # noqa: B018
    assert outcomes[0].result.metrics.last["loss"] == pytest.approx(0.5 / 3)
    assert scan.best("loss").point == {"lr": 0.1}
    assert scan.best("loss", mode="max").point == {"lr": 0.5}
    with pytest.raises(RequestError, match="accuracy"):
        scan.best("accuracy")
    assert "1 failed\nthe first failure: ValueError: lr 3.0 is too high" in str(scan)
    assert [one["state"] for one in scan.to_dicts()] == ["succeeded", "failed", "succeeded"]
    assert "too high" in scan.to_dicts()[1]["failure"]["message"]


def test_a_function_that_lacks_an_argument_is_refused_before_anything_runs(trainer):
    with pytest.raises(SpecError, match="lr"):
        trainer.submit(losses)
    with pytest.raises(SpecError, match="JSON"):
        trainer.submit(functools.partial(losses, lr=object()))


@each(
    ("over", "match"),
    [
        ([], "none"),
        ([{}], "a mapping"),
        ([{"lr": 1}, {"lr": 1}], "each point once"),
        ([{"lr": float("nan")}], "JSON"),
        ([{"lr": object()}], "JSON"),
        ([{"lr": numpy.array([0.1, 0.2])}], "JSON"),
        ([{"lr": 10**5000}], "JSON"),
        (["lr"], "a mapping"),
    ],
)
def test_points_that_are_none_are_told_at_once(trainer, script, over, match):
    with pytest.raises(SpecError, match=match):
        trainer.map(script, over, name="scan")
    with pytest.raises(SpecError, match="lr-scan"):
        trainer.map(script, [{"lr": 1}], name="LR scan!")
    with pytest.raises(SpecError, match="max_cost"):
        trainer.map(script, [{"lr": 1}], name="scan", max_cost=0)
