"""Experiments of this machine."""

import pytest

from gputrain import Local, Trainer

REPORTS = """
import argparse, json, time
asked = argparse.ArgumentParser()
asked.add_argument("--lr", type=float)
asked.add_argument("--seed", type=int, default=0)
asked = asked.parse_args()
if asked.lr > 1:
    raise ValueError(f"lr {asked.lr} is too high")
for step in range(1, 4):
    told = {"step": step, "loss": asked.lr / step + asked.seed, "time": time.time()}
    print("GPUTRAIN_METRIC " + json.dumps(told))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(REPORTS)
    return str(path)


@pytest.fixture
def trainer():
    return Trainer(Local(gpus=0))
