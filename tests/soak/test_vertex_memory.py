"""Nothing grows with the number of jobs that were watched."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def memory(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("memory", BENCHMARKS / "memory.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "memory", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(600)
def test_a_process_that_watched_a_thousand_jobs_is_as_large_as_after_a_hundred(memory):
    before, after = memory.watched(100, 1000)
    assert after <= 1.1 * before, f"{before / 1024:.0f} MiB became {after / 1024:.0f}"
