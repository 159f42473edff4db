"""A session under real agents on two nodes: one stop reaches all ranks, and the job is taken up again."""

import signal
from pathlib import Path

import pytest

pytest.importorskip("torch")

from gputrain import ddp
from gputrain.runtime import contract

SCRIPT = Path(__file__).parents[3] / "examples" / "train_session.py"


def test_a_stop_on_one_node_saves_one_step_on_all_and_the_job_goes_on_from_it(cluster, until, tmp_path):
    directory = str(tmp_path / "checkpoints")
    env = {contract.CHECKPOINT_DIR: directory, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    nodes = cluster.start_all(SCRIPT, "--steps", 100_000, env=env)
    until(lambda: nodes[0].said('"step": 3,'), "the third step")
    nodes[1].signal(signal.SIGTERM)
    assert [node.wait().code for node in nodes] == [contract.STOPPED] * 2
    saved = ddp.Checkpoints(directory).latest()
    assert nodes[0].said(f"{saved} steps are done, on 4 rank(s) in the end")

    again = cluster.run(SCRIPT, "--steps", saved + 5, nodes=2, env=env)
    assert [node.code for node in again] == [0, 0], again[0].out
    assert again[0].said(f"resumed from step {saved}")
    assert len(again[0].said(contract.METRIC_MARKER)) == 5
