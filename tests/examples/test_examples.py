"""One example runs as it is, and all are short; check/ runs the others."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def test_an_example_on_the_emulator_runs():
    story = [sys.executable, EXAMPLES / "failover_story.py"]
    done = subprocess.run(story, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr


def test_an_example_fits_on_a_page():
    assert [path.name for path in EXAMPLES.glob("*.py") if path.read_text().count("\n") > 66] == []
