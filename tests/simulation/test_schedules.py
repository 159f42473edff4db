"""Schedules that nobody chose break no law."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEEDS = 500


def simulated(*words, limit_s):
    """What the simulation says of some schedules, and its exit code."""
    command = [sys.executable, "-m", "tests.simulation", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.timeout(400)
def test_no_schedule_breaks_a_law():
    code, told = simulated("--seeds", f"0:{SEEDS}", limit_s=300)
    print(told)
    assert code == 0, told


def test_one_seed_is_one_schedule():
    first, second = (simulated("--replay", "7", limit_s=100) for _ in range(2))
    assert first == second
    assert "request" in first[1]
