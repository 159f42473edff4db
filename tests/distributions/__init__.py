"""Distributions of others, built and installed as theirs would be."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def install(name, target):
    """Build a distribution of this folder and install it into a folder of its own; nothing is fetched."""
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words += ["--no-build-isolation", "--no-index", "--target", str(target), str(HERE / name)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return target
