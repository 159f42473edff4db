"""What trackers write offline, by the lines of the page, is among the outputs; `make soak` has all three."""

import re
from pathlib import Path

import pytest

from gputrain import State

PAGE = (Path(__file__).parents[3] / "docs/howto/trackers.md").read_text()
(TENSORBOARD,) = re.findall(r"write_text\('''\n(.*?)'''", PAGE, re.DOTALL)
(WANDB,) = re.findall(r"\| W&B, offline \| `(.*?)`", PAGE)
(MLFLOW,) = re.findall(r"\| MLflow, offline \| `(.*?)`", PAGE)
SCRIPTS = {  # tracker -> script, the one file that holds the loss
    "tensorboard": (TENSORBOARD, "board/events*"),
    "wandb": (
        f"import os, wandb\nwith {WANDB} as run:\n    run.log({{'loss': 0.5}})",
        "wandb/offline-run-*/*.wandb",
    ),
    "mlflow": (
        f"import os, mlflow\n{MLFLOW}\nwith mlflow.start_run():\n    mlflow.log_metric('loss', 0.5)",
        "mlruns/*/*/metrics/loss",
    ),
}


@pytest.mark.parametrize("tracker", SCRIPTS)
def test_what_a_tracker_writes_offline_is_among_the_outputs(road, script, tmp_path, tracker):
    pytest.importorskip("torch" if tracker == "tensorboard" else tracker)
    lines, pattern = SCRIPTS[tracker]
    job = road.submit(script(lines), env={"MLFLOW_ALLOW_FILE_STORE": "true"})
    assert road.end(job) is State.SUCCEEDED
    job.outputs.download(tmp_path / "logged")
    (path,) = (tmp_path / "logged").glob(pattern)
    assert {"mlflow": b" 0.5 "}.get(tracker, b"loss") in path.read_bytes()
