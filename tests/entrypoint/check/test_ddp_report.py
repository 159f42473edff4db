"""The line of a report: one line of JSON whatever the numbers are."""

from __future__ import annotations

import json
import math

import pytest

from gputrain.ddp import SessionError
from gputrain.ddp.report import metric_line
from gputrain.runtime.contract import METRIC_MARKER


def read_back(line: str) -> dict[str, object]:
    assert line.startswith(METRIC_MARKER)
    assert "\n" not in line
    document: dict[str, object] = json.loads(
        line[len(METRIC_MARKER) :], parse_constant=lambda name: pytest.fail(f"{name} is not JSON")
    )
    return document


def test_numbers_and_texts_come_back() -> None:
    line = metric_line(3, {"loss": 0.5, "phase": "warm\nup", "best": None, "done": True}, now=12.34567)
    assert read_back(line) == {
        "step": 3,
        "time": 12.346,
        "loss": 0.5,
        "phase": "warm\nup",
        "best": None,
        "done": True,
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_come_back_through_float(value: float) -> None:
    found = float(str(read_back(metric_line(1, {"loss": value}, now=0))["loss"]))
    assert found == value or (math.isnan(found) and math.isnan(value))


def test_tensors_and_numpy_scalars_of_one_element_are_numbers() -> None:
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    metrics = {
        "zero_d": torch.tensor(0.25, requires_grad=True),
        "one": torch.tensor([2]),
        "numpy": numpy.float32(0.5),
        "bad": torch.tensor(float("nan"), dtype=torch.bfloat16),
    }
    found = read_back(metric_line(1, metrics, now=0))
    assert (found["zero_d"], found["one"], found["numpy"], found["bad"]) == (0.25, 2, 0.5, "nan")


def test_a_tensor_of_several_elements_is_refused_by_name() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(SessionError, match="'loss' is not one number") as caught:
        metric_line(1, {"loss": torch.zeros(2)}, now=0)
    assert "loss.mean()" in caught.value.fix


def test_what_no_line_can_carry_is_refused_by_type() -> None:
    with pytest.raises(SessionError, match="'losses' is a list"):
        metric_line(1, {"losses": [1.0]}, now=0)


def test_a_metric_called_like_what_every_line_has_keeps_its_value_and_the_line_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputrain.ddp.report._noticed", set())
    metrics = {"time": 0.5, "total_steps": 7}
    for _ in range(3):
        found = read_back(metric_line(1, metrics, now=12.0, total=9))
    both = {"time_reported": 0.5, "total_steps_reported": 7}
    assert found == {"step": 1, "time": 12.0, "total_steps": 9, **both}
    notices = capsys.readouterr().err.splitlines()
    assert len(notices) == 2
    assert "'total_steps' is kept as 'total_steps_reported'" in notices[1]
