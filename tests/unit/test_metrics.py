import json
import math

from gputrain.metrics import Metrics, sparkline


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
    assert metrics.series("loss") == ((1, 3.0),)


def test_values_that_are_no_numbers_are_not_plotted():
    metrics = Metrics.read(['GPUTRAIN_METRIC {"step": 1, "loss": NaN, "phase": "warm-up"}'])
    assert metrics.names == ()
    assert metrics.series("loss") == ()


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
