"""A job that stands still is found, explained by the stacks of all its ranks, and ended."""

import pytest

from gputrain.runtime import failures
from tests.each import each

DEADLOCK = """
    import threading, time
    ready = threading.Event()
    def speak():
        while not ready.wait(1.0):
            print("importing", flush=True)  # which takes its time on a busy machine
    threading.Thread(target=speak).start()
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    def evaluate():
        print("evaluating", flush=True)
        time.sleep(600)
    def train():
        loss = torch.ones(1)
        dist.all_reduce(loss)
        ready.set()
        if rank == 1:
            evaluate()
        dist.all_reduce(loss)
    train()
"""


def standing(rank, collective, place, absent=""):
    return {
        "absent": absent,
        "rank": rank,
        "local_rank": 0,
        "node_rank": rank,
        "collective": collective,
        "place": place,
        "trace": "" if absent else "t",
    }


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_the_rank_that_skips_a_collective_is_blamed_with_its_own_stack(cluster, nodes):
    ended = cluster.run(cluster.script(DEADLOCK), nodes=nodes, nproc=4 // nodes, flags=["--hang-timeout=6"])
    for node in [ended] if nodes == 1 else ended:
        cause = node.cause
        assert (node.code, cause["kind"], cause["rank"]) == (1, "hang", 1), node.out
        assert "rank 1 never came to it: evaluate at train.py:13" in cause["message"]
        assert "ranks 0, 2, 3 in all_reduce, from train at train.py:20" in cause["message"]
        assert "in evaluate" in cause["traceback"]
        assert "all_reduce" not in cause["traceback"]
        assert "deprecated" not in node.out


def test_a_rank_that_speaks_now_and_then_does_not_hang(cluster):
    script = cluster.script("""
        import os, time
        for _ in range(8):
            time.sleep(0.5)
            if os.environ["RANK"] == "0":
                print("step", flush=True)
    """)
    nodes = cluster.run(script, nodes=2, nproc=1, flags=["--hang-timeout=3"])
    assert [node.code for node in nodes] == [0, 0], nodes[0].out


def test_steps_without_a_word_are_signs_of_life(cluster):
    script = cluster.script("""
        import time
        from gputrain.ddp import report
        for _ in range(10):
            time.sleep(0.5)
            report.beat()
    """)
    node = cluster.run(script, nproc=1, flags=["--hang-timeout=3"])
    assert node.code == 0, node.out


UNASKED = "could not be asked: a reason"
GONE = "had ended with 0 before"
WAIT = [standing(n, "all_reduce", "b at t.py:2") for n in (0, 1)]
ALL = "ranks 0, 1 in all_reduce, from b at t.py:2"


@each(
    ("standings", "left", "mute", "rank", "story"),
    [
        (WAIT, (), (), 0, f"{ALL}; all came, so what they send does not arrive: look at the network"),
        (WAIT, [2], (), 2, f"{ALL}; rank 2 {GONE}"),
        ([*WAIT, standing(2, "", "", UNASKED)], (), (), 2, f"{ALL}; rank 2 {UNASKED}"),
        (WAIT, (), ["node 1"], 0, f"{ALL}; node 1 did not tell in time where its ranks stand"),
        (
            [*WAIT, standing(2, "", "e at t.py:9"), standing(3, "", "", UNASKED)], (), (), 2,
            f"waiting: {ALL}; rank 2 never came to it: e at t.py:9; rank 3 {UNASKED}",
        ),
        (
            [standing(2, "barrier", "a at t.py:1"), *WAIT], (), (), 2,
            f"the ranks are at different places: {ALL}; rank 2 in barrier, from a at t.py:1",
        ),
        (
            [standing(0, "", "f at t.py:2"), standing(1, "", "", GONE)], [1], (), 0,
            f"rank 0 in f at t.py:2; rank 1 {GONE}",
        ),
    ],
)  # fmt: skip
def test_the_story_names_who_waits_where_and_who_holds_up_the_others(standings, left, mute, rank, story):
    cause = failures.hang_cause(300, standings, left=left, mute=mute)
    assert (cause["rank"], cause["message"]) == (rank, f"silent for 300 s: {story}")
    assert cause["traceback"].endswith("most recent call first:\nt")  # some stack rather than none


def test_who_is_still_importing_is_told_that_the_timeout_is_short(cluster):
    (cluster.folder / "slow.py").write_text("import time\nprint('in', flush=True)\ntime.sleep(600)\n")
    node = cluster.run(cluster.script("import slow"), nproc=2, flags=["--hang-timeout=3"])
    assert "still importing: hang_timeout is shorter than the start" in node.cause["message"]
