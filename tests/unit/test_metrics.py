"""Reports of a script, what is kept of them, how they are shown, and how far the run is."""

import itertools
import json
import math
import sys
from xml.etree import ElementTree

import pytest

from gputrain import Local, RequestError, Trainer
from gputrain.display.plot import Curve, Plot
from gputrain.metrics import MOST_REPORTS, Metrics, Progress
from tests.each import each


def lines(*reports):
    return [f"GPUTRAIN_METRIC {json.dumps(report)}" for report in reports]


def read(*reports):
    return Metrics.read(lines(*reports))


def test_a_step_that_ran_again_after_a_restart_counts_once():
    metrics = read({"step": 1, "loss": 3.0}, {"step": 2, "loss": 9.0}, {"step": 2, "loss": 2.0})
    assert metrics.series("loss") == ((1, 3.0), (2, 2.0))


def test_a_loss_that_diverged_is_seen():
    metrics = read({"step": 1, "loss": 3.0}, {"step": 2, "loss": "nan"})
    assert math.isnan(metrics.last["loss"])
    assert str(metrics.series("loss")) == "((1, 3.0), (2, nan))"
    assert metrics.table.rows == (("loss", "3", "nan", "3", "▁"),)


def test_metrics_show_a_table_with_history_and_plots_in_a_notebook(monkeypatch):
    metrics = read(*({"step": n, "loss": 1 / n, "<script>": 1.0} for n in range(1, 30)))
    assert "█" in str(metrics)
    html = metrics._repr_mimebundle_()["text/html"]
    assert html.count('src="data:image/png;base64,') == 1
    assert "<script>" not in html
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    html = metrics._repr_mimebundle_()["text/html"]
    assert "<img" not in html
    assert "█" in html


def test_metrics_are_a_frame_and_a_plot(tmp_path):
    pandas = pytest.importorskip("pandas")
    metrics = read({"step": 1, "loss": 3.0}, {"step": 2, "loss": 2.0, "lr": 0.1})
    frame = metrics.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["loss"]) == [3.0, 2.0]
    assert list(metrics.plot().panels) == ["loss", "lr"]
    metrics.plot("loss", log=True, x="time").save(tmp_path / "loss.svg")
    assert ElementTree.parse(tmp_path / "loss.svg").getroot().tag.endswith("svg")


def plot(*values, **how):
    curves = tuple(Curve(label=f"lr={n}", points=tuple(enumerate(values))) for n in range(2))
    return Plot(panels={"loss": curves}, **how)


def test_without_matplotlib_a_plot_prints_and_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    one = plot(1.0, 2.0)
    assert str(one) == "loss\nlr=0  ▁█  2\nlr=1  ▁█  2"
    assert one._repr_html_() == f"<pre>{one}</pre>"
    with pytest.raises(RequestError, match="matplotlib is not installed") as caught:
        one.save(tmp_path / "loss.svg")
    assert "python -m pip install matplotlib" in caught.value.fix


def test_of_a_long_run_every_second_report_is_dropped_and_never_the_newest():
    reports = [{"step": n, "loss": 1 / (n + 1), "lr": 0.1} for n in range(50_000)]
    reports[3]["params"] = 1e9
    for n in range(0, 50_000, 100):
        reports.insert(n + n // 100, {"step": n, "val_loss": 1.0})
    metrics = read(*reports)
    assert metrics.count == 50_500
    assert len(metrics.rows) <= MOST_REPORTS + 1
    assert metrics.last == {**reports[-1], "params": 1e9, "val_loss": 1.0}
    steps = [step for step, _ in metrics.series("loss")]
    assert (steps[0], steps[-1]) == (0, 49_999)
    assert max(after - before for before, after in itertools.pairwise(steps)) <= 8  # old ones are no thinner
    assert len(metrics.series("val_loss")) >= 100


def steps(first, last, *, total=100, at=0.0, each_s=2.0):
    return [
        {"step": step, "total_steps": total, "time": at + each_s * step, "loss": 1.0}
        for step in range(first, last + 1)
    ]


def test_the_newest_report_tells_how_far_it_is():
    found = read(*steps(1, 40)).progress
    assert found == Progress(step=40, total=100, left_s=120.0)
    assert (found.share, str(found)) == (0.4, "step 40 of 100, about 2m left")
    assert read(*steps(1, 40)).names == ("loss",)
    assert str(read(*steps(1, 3, total=sys.maxsize)).progress) == f"step 3 of {sys.maxsize:,}"


@each(
    "rows",
    [
        [],
        [{"step": 1, "loss": 2.0}],
        [{"step": 1, "total_steps": 0}],
        [{"step": 1, "total_steps": "many"}],
        [{"step": 1, "total_steps": "nan"}],
        [{"total_steps": 5}],
        [{"step": 1, "total_steps": 9}, {"step": 2}],
    ],
)
def test_without_a_number_of_steps_there_is_no_progress(rows):
    assert read(*rows).progress is None


@pytest.mark.check
@pytest.mark.parametrize(
    ("asked", "total"), [({"max_steps": 3}, 3), ({"epochs": 2}, 8), ({"epochs": 9, "max_steps": 5}, 5)]
)
def test_a_session_reports_how_many_steps_there_will_be(tmp_path, asked, total):
    pytest.importorskip("torch")
    path = tmp_path / "session.py"
    path.write_text(f"""
import torch
from gputrain import ddp
with ddp.session(device="cpu") as s:
    for step, x in s.steps(s.loader(torch.zeros(8, 1), 2), **{asked!r}):
        s.report(step=step, loss=1.0)
    s.report(step=77, loss=1.0)
""")
    job = Trainer(Local(gpus=0)).submit(str(path))
    assert job.wait("4m") == "succeeded", list(job.logs())
    rows = job.metrics().rows
    assert [row.get("total_steps") for row in rows] == [total] * (len(rows) - 1) + [None]
