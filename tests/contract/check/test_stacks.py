"""A running job can be asked where its ranks stand, and one that stands still is ended with the reason."""

from datetime import timedelta

import pytest

from gputrain import State
from tests.patience import PATIENCE_S

BLOCKED = """
import os, threading
def waits_for_ever():
    print("blocked", flush=True)
    threading.Event().wait()
waits_for_ever()
"""
SKIPS = """
import threading, time
is_up = threading.Event()
def speak():
    while not is_up.wait(1.0):
        print("importing", flush=True)  # which takes its time on a busy machine
threading.Thread(target=speak).start()
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, loss = dist.get_rank(), torch.ones(1)
def evaluate():
    time.sleep(600)
dist.all_reduce(loss)
is_up.set()
if rank == 2:
    evaluate()
dist.all_reduce(loss)
"""


@pytest.fixture
def asking(road):
    """The road over a backend whose agents can be asked."""
    if not road.ANSWERS:
        pytest.skip("its agents cannot be asked")
    return road


def test_where_every_rank_of_every_node_stands_is_told_while_it_runs(asking, script):
    job = asking.submit(script(BLOCKED), num_nodes=2, nproc_per_node=2)
    asking.until_said(job, "blocked", times=4)
    for _ in range(2):  # a second question is answered as well
        found = job.stacks(PATIENCE_S)
        places = [(one.rank, one.node_rank, one.place) for one in found.ranks]
        at = "waits_for_ever at train.py:5"
        assert places == [(0, 0, at), (1, 0, at), (2, 1, at), (3, 1, at)]
        assert (found.missing, list(found.traces.values())) == ((), [(0, 1, 2, 3)])
    job.cancel()
    asking.end(job)


def test_a_rank_that_skips_a_collective_ends_the_job_with_its_own_stack(asking, script):
    pytest.importorskip("torch")
    job = asking.submit(script(SKIPS), num_nodes=2, nproc_per_node=2, hang_timeout=timedelta(seconds=15))
    assert asking.end(job) is State.FAILED
    assert (job.failure.kind, job.failure.rank) == ("hang", 2), job.failure
    assert "ranks 0, 1, 3 in all_reduce" in job.failure.message
    assert "rank 2 never came to it: evaluate at train.py:12" in job.failure.message
    assert "rank 2 began 1 and ranks 0, 1, 3 began 2 collectives" in job.failure.message
    assert "in evaluate" in job.failure.traceback


def test_what_the_machines_do_is_told_beside_the_log(asking, script):
    job = asking.submit(script("import time; time.sleep(17)"), num_nodes=2)
    asking.end(job)
    told = job.metrics("gpu")
    assert {"node0.cpu_cores", "node0.memory_mib", "node1.memory_mib"} <= set(told.names)
    if asking.HAS_GPUS:
        assert told.last["node1.gpu_celsius"] == 35
        assert job.gpu_busy == 0.0


def test_the_last_lines_of_a_long_log_are_read(road, script):
    job = road.submit(script("for n in range(3000): print('line', n, flush=True)"))
    road.end(job)
    last = [line.message for line in job.logs(tail=20, grep="^line ")]
    assert last == [f"line {n}" for n in range(2980, 3000)]
