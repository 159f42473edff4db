"""Submitters and supervisors that are killed at any moment: one key is one job, and nothing is left."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from gputrain.orchestration.launcher import submit
from tests.unit.local.jobs import until

TRAINS = """
import os, sys, time
with open(sys.argv[1], "a", buffering=1) as log:
    print("starts", os.getpid(), file=log)
    time.sleep(0.5)
    print("ends", os.getpid(), file=log)
"""
SUBMITTER = """
import sys
from pathlib import Path
from gputrain.orchestration.launcher import submit
from tests.unit.local.jobs import jobs_of
jobs = jobs_of(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
submit(jobs.context, *jobs.first(sys.argv[2], script=sys.argv[3], args=[sys.argv[4]]), None)
"""


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.check) for n in range(2, 14))])
def test_of_submitters_that_are_killed_at_any_moment_one_job_comes(seed, jobs, script, tmp_path):
    draw, path, log = random.Random(seed), script(TRAINS), tmp_path / "log"
    first, plan = jobs.first(f"job-{os.getpid()}-{seed}", script=path, args=[str(log)])
    words = [sys.executable, "-c", SUBMITTER, str(jobs.root), first.job_id, path, str(log)]
    submitters = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(3)
    ]
    for one in submitters:
        one.stdout.readline()
    for one in submitters:
        one.stdin.write(b"\n")
        one.stdin.flush()
        time.sleep(draw.uniform(0, 0.15))
        os.kill(one.pid, signal.SIGKILL)
        one.communicate()
    ended = jobs.end(submit(jobs.context, first, plan, None).record)
    assert ended.result == "succeeded"
    assert jobs.none_left(ended)
    lines = [line.split() for line in log.read_text().splitlines()]
    assert [what for what, *_ in lines][-2:] == ["starts", "ends"], lines
    assert lines[-1][1:] == lines[-2][1:], f"two attempts train at once: {lines}"
    assert [what for what, *_ in lines].count("ends") == 1, (lines, ended)


@pytest.mark.check
@pytest.mark.parametrize("seed", range(6))
def test_a_supervisor_that_is_killed_at_any_moment_leaves_nothing(seed, jobs, script, tmp_path):
    spec = {"script": script(TRAINS), "args": [str(tmp_path / "log")], "num_nodes": 2}
    record = jobs.submit(**spec)
    time.sleep(random.Random(seed).uniform(0, 0.6))
    os.kill(until(lambda: jobs.one_of(record, "backends.local.supervisor")), signal.SIGKILL)
    assert jobs.end(record).result in ("lost", "succeeded")
    assert jobs.none_left(record)
