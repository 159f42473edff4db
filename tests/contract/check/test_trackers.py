"""Trackers write offline below the job's outputs. TensorBoard, which torch brings, stands for all of them."""

import re
from pathlib import Path

from gputrain import State

PAGE = Path(__file__).parents[3] / "docs/howto/trackers.md"


def test_what_a_tracker_writes_offline_is_among_the_outputs(road, script, tmp_path):
    (logs,) = re.findall(r"write_text\('''\n(.*?)'''", PAGE.read_text(), re.DOTALL)
    job = road.submit(script(logs))
    assert road.end(job) is State.SUCCEEDED
    (path,) = job.outputs.download(tmp_path / "logged")
    assert path.parent.name == "board"
    assert b"loss" in path.read_bytes()
