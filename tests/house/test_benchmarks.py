"""The table of benchmarks: load widens a spread and moves no verdict, and one that breaks hides no other."""

import ast
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def measure(monkeypatch):
    spec = importlib.util.spec_from_file_location("measure", BENCHMARKS / "measure.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "measure", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.0, 1.1, 1.2, 1.3, 9.0], "held"),
        ([1.0, 1.2, 1.6, 2.0, 3.0], "open"),
        ([1.6, 1.7, 1.8, 1.9, 9.0], "NOT HELD"),
    ],
)
def test_a_ratio_is_missed_only_where_its_whole_spread_is_above_the_target(measure, ratios, verdict):
    rounds = measure.Rounds({"ours": [3 * one for one in ratios], "theirs": [3.0] * len(ratios)})
    assert rounds.ratio("ours", "theirs").measure("x", target=1.5).verdict == verdict


def test_a_time_is_missed_only_where_even_the_least_is_above_the_target(measure):
    assert measure.Spread.of_times([0.09, 0.4, 0.5, 0.6, 0.7]).measure("x", target=0.1).verdict == "open"
    assert measure.Spread.of_times([0.2, 0.4, 0.5, 0.6, 0.7]).measure("x", target=0.1).verdict == "NOT HELD"
    assert measure.Measure(what="calls", value=7, target=6, unit="").verdict == "NOT HELD"


def test_load_widens_the_spread_of_a_time_and_of_no_count(measure):
    late = measure.Spread.of_times([0.2, 0.4, 0.5, 0.6, 0.7]).measure("x", target=0.1, unit="s")
    assert late.widened(1.0).verdict == "NOT HELD"
    assert late.widened(4.0).verdict == "open"
    calls = measure.Measure(what="calls", value=7, target=6, unit="")
    assert calls.widened(4.0) == calls


def test_each_run_takes_turns_in_being_first(measure):
    order = []
    runs = {name: lambda name=name: order.append(name) or 1.0 for name in "ab"}
    measure.alternated(runs, rounds=4, warm_up=1)
    assert order == [*"ba", *"ab", *"ba", *"ab", *"ba"]


def test_rounds_end_where_the_figure_is_clear_or_the_time_is_over(measure):
    def rounds(value, **limits):
        took = measure.alternated({"a": lambda: value, "b": lambda: 1.0}, rounds=9, **limits)
        return len(took.figures["a"])

    def clear(took):
        return took.ratio("a", "b").is_clear_of(1.5)

    assert [rounds(value, until=clear) for value in (1.0, 1.45, 1.6, 2.0)] == [3, 9, 9, 3]
    assert (rounds(1.45, until=clear, most_s=0), rounds(1.45, least=2, most_s=0)) == (3, 2)


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_what_a_benchmark_takes_of_ours_is_there(path):
    """None is run but by hand, and a name that moved would be missed there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gputrain"):
            module = importlib.import_module(node.module)
            for name in (one.name for one in node.names):
                there = hasattr(module, name) or importlib.util.find_spec(f"{node.module}.{name}")
                assert there, f"line {node.lineno}: {node.module} has no {name}"


def test_the_table_fits_80_columns_and_names_what_came_to_nothing():
    words = [sys.executable, str(BENCHMARKS / "run.py"), "spec", "no_such_module"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "slowest of 500 malformed" in done.stdout
    assert "no_such_module came to nothing: ModuleNotFoundError" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
