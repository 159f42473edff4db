"""``--agent elastic``: torchrun itself starts the ranks; our control plane and verdict are around it."""

import signal

import pytest

torch = pytest.importorskip("torch")

SCRIPT = """
    import os, sys
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    os.write(1, b"sum %d\\n" % int(total))  # one write, as both ranks share torchrun's stdout
    if dist.get_rank() == 3 and len(sys.argv) > 1:
        raise ValueError("bad batch")
    dist.barrier()
"""


@pytest.mark.soak
def test_torchrun_runs_two_nodes(cluster):
    nodes = cluster.run(cluster.script(SCRIPT), nodes=2, flags=["--agent=elastic"])
    for node in nodes:
        assert node.code == 0, node.out
        assert len(node.said("sum 4")) == 2
        assert len(node.result["ranks"]) == 1


def test_torchruns_failure_is_a_failure_on_every_node(cluster):
    for node in cluster.run(cluster.script(SCRIPT), "fail", nodes=2, flags=["--agent=elastic"]):
        assert node.code == 1, node.out
        assert (node.cause["rank"], node.cause["message"]) == (3, "ValueError: bad batch")
        assert "in <module>" in node.cause["traceback"]


@pytest.mark.soak
def test_a_stop_under_torchrun_is_a_stop_though_nobody_knows_what_was_saved(cluster, until):
    script = cluster.script("import os, time\nos.write(1, b'up\\n')\ntime.sleep(600)")
    node = cluster.start(script, flags=["--agent=elastic"])
    until(lambda: len(node.said("up")) == 2, "the ranks' start")
    node.signal(signal.SIGTERM)
    assert node.wait().code != 0
    assert (node.result["state"], node.cause["kind"]) == ("stopped", "stopped"), node.out
