"""Jobs on the GPUs of this machine: `make gpu`. Where torch can use none, all is skipped, with the reason."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from gputrain import Local, Trainer
from gputrain.backends.local.offers import find_gpus

_ASKS_TORCH = "import sys, torch; sys.exit(not torch.cuda.is_available())"


def why_no_gpu():
    """Why nothing here can run; None: it can."""
    if not find_gpus():
        return "nvidia-smi finds no GPU"
    if importlib.util.find_spec("torch") is None:
        return "there is no torch"
    if subprocess.run([sys.executable, "-c", _ASKS_TORCH], check=False).returncode:
        return "torch cannot use the GPU that nvidia-smi finds"
    return None


REASON = why_no_gpu()
FIGURES = {}
"""What was measured, for the table at the end."""


def pytest_collection_modifyitems(items):
    if REASON is not None:
        here = [item for item in items if Path(__file__).parent in item.path.parents]
        for item in here:
            item.add_marker(pytest.mark.skip(reason=f"no GPU: {REASON}"))


def pytest_terminal_summary(terminalreporter):
    if FIGURES:
        terminalreporter.section("figures of these GPUs")
        for name, value in FIGURES.items():
            terminalreporter.write_line(f"{name}: {value}")


@pytest.fixture
def figure():
    """Keep a figure for the table: its name, and what it is."""
    return FIGURES.__setitem__


@pytest.fixture
def trainer(tmp_path):
    return Trainer(Local(root=tmp_path / "jobs"))
