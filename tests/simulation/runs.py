"""Runs the simulation in a process of its own: gputrain is loaded with the simulation's time and threads."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def simulated(*words, limit_s):
    """What the simulation says of some schedules, and its exit code."""
    command = [sys.executable, "-m", "tests.simulation", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
    return ended.returncode, ended.stdout + ended.stderr
