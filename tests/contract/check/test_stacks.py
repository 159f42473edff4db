"""A running job can be asked where its ranks stand, and one that stands still is ended with the reason."""

import time
from datetime import timedelta

import pytest

from gputrain.backends.abilities import FindsTheEnd
from gputrain.backends.results import AsksForStacks
from gputrain.gauges import MachineUse
from gputrain.job.stacks import ask
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
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
    if not isinstance(road.backend, AsksForStacks):
        pytest.skip("its agents cannot be asked")
    return road


def lines_of(road, ref):
    return sum(line.message == "blocked" for line in road.lines(ref))


def test_where_every_rank_of_every_node_stands_is_told_while_it_runs(asking, script):
    ref = asking.submit(TrainingSpec(script=script(BLOCKED), num_nodes=2, nproc_per_node=2))
    until = time.monotonic() + PATIENCE_S
    while lines_of(asking, ref) < 4:
        assert time.monotonic() < until, asking.text(ref)
        asking.rest()
    for _ in range(2):  # who asks again is answered again
        found = ask(ref, asking.backend, 2, PATIENCE_S, time.sleep)
        places = [(one.rank, one.node_rank, one.place) for one in found.ranks]
        at = "waits_for_ever at train.py:5"
        assert places == [(0, 0, at), (1, 0, at), (2, 1, at), (3, 1, at)]
        assert (found.missing, list(found.traces.values())) == ((), [(0, 1, 2, 3)])
    asking.backend.cancel(ref)
    asking.end(ref)


def test_a_rank_that_skips_a_collective_ends_the_job_with_its_own_stack(asking, script):
    pytest.importorskip("torch")
    spec = TrainingSpec(
        script=script(SKIPS), num_nodes=2, nproc_per_node=2, hang_timeout=timedelta(seconds=6)
    )
    seen = asking.end(asking.submit(spec))
    assert (seen.state, seen.failure.kind, seen.failure.rank) == (State.FAILED, "hang", 2), seen
    assert "ranks 0, 1, 3 in all_reduce" in seen.failure.message
    assert "rank 2 never came to it: evaluate at train.py:12" in seen.failure.message
    assert "rank 2 began 1 and ranks 0, 1, 3 began 2 collectives" in seen.failure.message
    assert "in evaluate" in seen.failure.traceback


def test_what_the_machines_do_is_told_beside_the_log(asking, script):
    ref = asking.submit(TrainingSpec(script=script("import time; time.sleep(17)"), num_nodes=2))
    asking.end(ref)
    told = MachineUse()
    told.add(asking.lines(ref))
    assert {"node0.cpu_cores", "node0.memory_mib", "node1.memory_mib"} <= set(told.metrics.names)
    if asking.backend.name == "compute":  # the others' replicas are processes without GPUs
        assert told.metrics.last["node1.gpu_celsius"] == 35
        assert told.share == 0.0


def test_the_last_lines_are_read_from_near_the_end(road, script):
    if not isinstance(road.backend, FindsTheEnd):
        pytest.skip("its log is read from the beginning")
    words = "for n in range(3000): print('line', n, flush=True)"
    ref = road.submit(TrainingSpec(script=script(words)))
    road.end(ref)
    cursor = road.backend.cursor_near_end(ref, 20)
    last = road.backend.logs(ref, cursor).lines
    assert 20 <= len(last) <= 200
    assert last == tuple(road.lines(ref)[-len(last) :])
    assert road.backend.cursor_near_end(ref, 10**6) == ""
