"""Who asks an agent where its ranks stand is answered, by whatever the ranks and the machine offer."""

import sys
import time

import pytest

from gputrain.backends.agent_reports import read_standings
from gputrain.runtime import contract, stacks

BLOCKED = """
    import threading
    def blocked():
        print("up", flush=True)
        threading.Event().wait()
    blocked()
"""
AHEAD = """
    import torch, torch.distributed as dist, threading
    dist.init_process_group("gloo")
    rank, loss = dist.get_rank(), torch.ones(1)
    def waits_for_its_gpu():
        print("up", flush=True)
        threading.Event().wait()
    for step in range(3 if rank else 2):
        dist.all_reduce(loss, async_op=True)
    waits_for_its_gpu()
"""


def asked(folder, nonce, until, node=0):
    (folder / contract.STACKS_ASK).write_text(nonce)
    answer = folder / contract.STACKS_FILE.format(nonce=nonce, node_rank=node)
    until(answer.exists, "the answer")
    return read_standings(answer.read_bytes(), node)


def test_whoever_asks_in_the_result_folder_is_answered_each_time(cluster, until, tmp_path):
    results = tmp_path / "results"
    flags = [f"--result-dir={results}", f"--code-dir={cluster.folder}"]
    node = cluster.start(cluster.script(BLOCKED), nproc=2, flags=flags)
    until(lambda: len(node.said("up")) == 2, "the ranks' start")
    for nonce in ("0123456789abcdef", "fedcba9876543210"):
        began = time.monotonic()
        found = asked(results, nonce, until)
        assert [(one["rank"], one["place"]) for one in found] == [
            (rank, "blocked at train.py:5") for rank in (0, 1)
        ]
        assert all('File "train.py", line 5 in blocked' in one["trace"] for one in found)
        assert "bootstrap" not in found[0]["trace"]
        took = time.monotonic() - began
    assert took < 20
    assert not node.said("stands at")  # it is told to those who ask, not to the log


def test_a_program_of_ones_own_offers_no_stack(cluster, until, tmp_path):
    results = tmp_path / "results"
    script = f"exec {sys.executable} -uc 'import time; print(\"up\"); time.sleep(600)'"
    node = cluster.start("/bin/sh", "-c", script, nproc=1, flags=[f"--result-dir={results}"])
    until(lambda: node.said("up"), "the program's start")
    (found,) = asked(results, "0123456789abcdef", until)
    assert found["absent"] == stacks.UNOFFERED


def test_ranks_that_stand_at_one_place_are_told_apart_by_what_they_began(cluster, until, tmp_path):
    results = tmp_path / "results"
    flags = [f"--result-dir={results}", "--hang-timeout=600"]
    node = cluster.start(cluster.script(AHEAD), nproc=3, flags=flags)
    until(lambda: len(node.said("up")) == 3, "the ranks' start")
    found = asked(results, "0123456789abcdef", until)
    (group,) = found[0]["recorded"]  # which says where torch is built with NCCL that it is gloo's
    assert [one["recorded"][group]["begun"] for one in found] == [2, 3, 3]
    guilty, story = stacks.story(found)
    assert guilty["rank"] == 0
    assert "rank 0 began 2 and ranks 1, 2 began 3 collectives, the last of them gloo:all_reduce" in story


@pytest.mark.check
@pytest.mark.parametrize("frozen", [0, 1])
def test_a_stopped_agent_is_found_on_either_side(cluster, until, frozen):
    import signal

    nodes = cluster.start_all(cluster.script(BLOCKED), nodes=2, nproc=1, flags=["--hang-timeout=12"])
    until(lambda: all(node.said("up") for node in nodes), "the ranks' start")
    nodes[frozen].signal(signal.SIGSTOP)
    other = nodes[1 - frozen].wait(90)
    assert (other.code, other.cause["kind"], other.cause["node_rank"]) == (69, "node_lost", frozen), other.out
    assert "answers no more" in other.cause["message"]
