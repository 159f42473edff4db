"""A slip at the keyboard is answered with what to type instead."""

import os
import subprocess
import sys
from pathlib import Path

from gputrain_emulator.faults import server_error

ROOT = Path(__file__).parents[4]


def complete(*words):
    """What bash is told may stand at the end of a line."""
    told = {"_GPUTRAIN_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(("gputrain", *words)),
            "COMP_CWORD": str(len(words))}  # fmt: skip
    line = [sys.executable, "-m", "gputrain"]
    done = subprocess.run(
        line, env={**os.environ, "PYTHONPATH": str(ROOT), **told}, capture_output=True, text=True, check=True
    )
    return [one.partition(",")[2] for one in done.stdout.split()]


def test_a_shell_completes_commands_flags_values_and_names_of_jobs(read, script):
    script()
    _, job = read("submit", "train.py", "--nproc-per-node", "1", "--name", "bert")
    assert complete("sub") == ["submit"]
    assert complete("plan", "--num") == ["--num-nodes"]
    assert complete("jobs", "--backend", "v") == ["vertex"]
    assert complete("submit", "--provisioning-model", "s") == ["standard", "spot"]
    assert complete("logs", "be") == [job["id"]]


def test_a_doctor_that_could_look_at_little_exits_5(cloud, read):
    assert read("doctor")[0] == 0
    for method in {seen.method for seen in cloud.requests} - {"oauth.token"}:
        cloud.fail(method, server_error(501), times=None)
    status, document = read("doctor")
    assert status == 5
    assert {one["finding"] for one in document["checks"]} == {"unknown", "ok"}
