import json
import math
import re

from gputrain.metrics import KEPT, Metrics, Reports, sparkline


def lines(*reports):
    return [f"GPUTRAIN_METRIC {json.dumps(report)}" for report in reports]


def test_reports_are_read_among_other_lines():
    log = ["loading", *lines({"step": 1, "loss": 2.5}), "GPUTRAIN_METRIC {cut sho", "GPUTRAIN_METRIC [1]"]
    assert [dict(row) for row in Metrics.read(log).rows] == [{"step": 1, "loss": 2.5}]


def test_a_step_run_again_after_a_restart_counts_once():
    metrics = Metrics.read(
        lines({"step": 1, "loss": 3.0}, {"step": 2, "loss": 9.0}, {"step": 2, "loss": 2.0})
    )
    assert metrics.series("loss") == ((1, 3.0), (2, 2.0))


def test_the_last_value_of_every_name_is_kept():
    metrics = Metrics.read(lines({"step": 1, "loss": 3.0}, {"step": 2, "tokens_per_s": 10}))
    assert dict(metrics.last) == {"step": 2, "loss": 3.0, "tokens_per_s": 10}
    assert metrics.names == ("loss", "tokens_per_s")


def test_a_loss_that_diverged_is_seen():
    metrics = Metrics.read(lines({"step": 1, "loss": 3.0}, {"step": 2, "loss": "nan"}))
    assert math.isnan(metrics.last["loss"])
    assert str(metrics.series("loss")) == "((1, 3.0), (2, nan))"
    assert metrics.table.rows == (("loss", "3", "nan", "3", "▁"),)


def test_values_that_are_no_numbers_are_not_plotted():
    metrics = Metrics.read(['GPUTRAIN_METRIC {"step": 1, "loss": NaN, "phase": "warm-up"}'])
    assert metrics.names == ("loss",)
    assert metrics.table.rows == (("loss", "nan", "nan", "", ""),)
    assert "<svg" not in metrics._repr_mimebundle_()["text/html"]


def test_numbers_of_any_size_have_a_row():
    large = "1" + 400 * "0"
    log = [
        f'GPUTRAIN_METRIC {{"step": {n}, "a": {value}, "b": {value}}}' for n, value in ((1, large), (2, 3))
    ]
    metrics = Metrics.read([*log, 'GPUTRAIN_METRIC {"step": 3, "b": -Infinity}'])
    assert metrics.table.rows[0] == ("a", "1.000e+400", "3", "3", "▁")
    assert metrics.table.rows[1][:4] == ("b", "1.000e+400", "-inf", "3")
    assert "<svg" in metrics._repr_mimebundle_()["text/html"]


def test_metrics_show_a_table_with_the_course_and_plots_in_a_notebook():
    metrics = Metrics.read(lines(*({"step": n, "loss": 1 / n} for n in range(1, 30))))
    assert "█" in str(metrics)
    html = metrics._repr_mimebundle_()["text/html"]
    assert "<svg" in html
    assert html.count("<polyline") == 1


def test_a_hostile_metric_name_is_escaped():
    metrics = Metrics.read(lines({"step": 1, "<script>": 1.0}))
    assert "<script>" not in metrics._repr_mimebundle_()["text/html"]


def test_a_sparkline_bears_constants_infinities_and_nothing():
    assert sparkline([]) == ""
    assert sparkline([math.nan, math.inf]) == ""
    assert sparkline([2, 2]) == "▁▁"
    assert len(sparkline(range(1000))) == 24


def long_run(reports):
    return [{"step": n, "loss": 1 / (n + 1), "lr": math.sin(n / 1000)} for n in range(reports)]


def test_a_long_run_is_kept_thin_with_every_extreme_and_newest_value():
    reports = long_run(50_000)
    reports[31_007]["loss"], reports[12_345]["lr"], reports[40_001]["loss"] = 99.0, -7.0, -1.0
    reports[3]["params"] = 1e9
    metrics = Metrics.read(lines(*reports))
    assert metrics.count == 50_000
    assert len(metrics.rows) <= 2 * KEPT
    losses, rates = dict(metrics.series("loss")), dict(metrics.series("lr"))
    assert (losses[31_007], losses[40_001], rates[12_345]) == (99.0, -1.0, -7.0)
    assert metrics.last == {**reports[-1], "params": 1e9}
    assert losses[0] == 1.0


def test_a_thin_course_shows_from_when_to_when_a_loss_was_nan():
    spans = [(5_000, 5_700), (20_003, 20_003), (29_998, 30_001)]
    reports = Reports()
    for step in range(1, 40_000):
        is_lost = any(first <= step <= last for first, last in spans)
        reports.add(lines({"step": step, "loss": "nan" if is_lost else 1 / step, "lr": 0.1}))
    points = reports.metrics.series("loss")
    assert len(points) <= 2 * KEPT
    for first, last in spans:
        told = {step for step, value in points if math.isnan(value)}
        assert {first, last} <= told
        assert not {first - 1, last + 1} & told
        assert {first - 1, last + 1} <= {step for step, _ in points}


def test_a_thin_course_shows_when_a_text_changed():
    reports = Reports()
    for step in range(1, 40_000):
        reports.add(lines({"step": step, "phase": "warm-up" if step < 12_345 else "train", "loss": 1.0}))
    phases = {row["step"]: row["phase"] for row in reports.metrics.rows}
    assert (phases[12_344], phases[12_345]) == ("warm-up", "train")


def test_values_that_change_with_every_report_stay_bounded():
    reports = Reports()
    for step in range(1, 10_000):
        reports.add(lines({"step": step, "loss": "nan" if step % 2 else 1.0, "id": f"run-{step}"}))
        assert step % 7 or len(reports.metrics.rows) <= 2 * KEPT


def test_reports_of_which_each_has_a_name_of_its_own_are_read_as_fast_as_others():
    reports = Reports()
    reports.add(lines(*({f"loss_{step}": 1.0} for step in range(20_000))))
    assert len(reports.metrics.names) == 20_000


def test_old_reports_are_no_thinner_than_new_ones():
    steps = [step for step, _ in Metrics.read(lines(*long_run(50_000))).series("loss")]
    first, second = sum(step < 20_000 for step in steps), sum(20_000 <= step < 40_000 for step in steps)
    assert 0.8 < first / second < 1.25


def test_a_step_run_again_counts_once_however_thin_the_course_is():
    before = [{"step": n, "loss": 100.0} for n in range(6_000)]
    after = [{"step": n, "loss": 1.0} for n in range(3_000, 20_000)]
    metrics = Metrics.read(lines(*before, *after))
    assert {loss for step, loss in metrics.series("loss") if step >= 3_000} == {1.0}
    assert {loss for step, loss in metrics.series("loss") if step < 3_000} == {100.0}


def test_reports_that_come_page_by_page_are_the_same_as_all_at_once():
    told, pages = lines(*long_run(10_000)), Reports()
    for start in range(0, len(told), 700):
        pages.add(told[start : start + 700])
    assert pages.metrics.rows == Metrics.read(told).rows


def test_nothing_new_is_the_same_value():
    reports = Reports()
    reports.add(lines({"step": 1, "loss": 3.0}))
    once = reports.metrics
    reports.add(["a line of another kind"])
    assert reports.metrics is once


def test_a_plot_has_at_most_two_points_a_column_of_pixels():
    html = Metrics.read(lines(*long_run(30_000)))._repr_mimebundle_()["text/html"]
    for line in re.findall(r'<polyline points="([^"]*)"', html):
        columns = [point.partition(",")[0] for point in line.split()]
        assert max(columns.count(column) for column in columns) <= 2
    assert len(html) < 60_000
