"""What every backend does for one job."""

import json
from itertools import dropwhile

import pytest

from gputrain import JobError, JobFailedError, JobLostError, SpecError, State

TELL = """
import json, os, sys
seen = {"rank": os.environ["RANK"], "args": sys.argv[1:], "env": os.environ.get("TOLD")}
print("told", json.dumps(seen))
"""
RAISE = """
import os, time
if os.environ["RANK"] == "3":
    raise ValueError("shard 3 is torn")
time.sleep(600)
"""
CRASH = """
import os, signal, time
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGSEGV)
time.sleep(600)
"""
COUNT = """
import os, time
for i in range(30):
    print("line", os.environ["RANK"], i, flush=True)
    time.sleep(0.4)
"""
WAIT = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("waiting", flush=True)
while True:
    time.sleep(0.1)
"""
DOLLARS = ["$(GPUTRAIN_JOB_ID)", "$$", "$$(HOME)", "${HOME}", "$5", "$"]
"""Kubernetes would take the first for the job's id, and one of two dollars away."""
ODD = ["", "two\nlines", "a b", "$(touch x)", "`id`", "'\"", "ümläut €", "-m", "--", "\\", "*", *DOLLARS]


def told(job):
    return [json.loads(line.message[5:]) for line in job.logs() if line.message.startswith("told ")]


def test_a_script_runs_on_every_rank_and_succeeds(road, script):
    job = road.submit(script(TELL), num_nodes=2, nproc_per_node=2)
    assert road.end(job) is State.SUCCEEDED
    assert (job.failure, job.attempt) == (None, 0)
    assert sorted(one["rank"] for one in told(job)) == ["0", "1", "2", "3"]
    assert job.started_at.tzinfo is not None
    assert job.started_at <= job.ended_at
    assert list(job.logs()) == list(job.logs())


def test_arguments_and_environment_arrive_as_they_were_given(road, script):
    text = "".join(ODD)
    job = road.submit(script(TELL), args=ODD, env={"TOLD": text})
    road.end(job)
    assert told(job) == [{"rank": "0", "args": ODD, "env": text}]


KEEP = """
import os
for name in ("OUTPUT", "CHECKPOINT"):
    with open(os.path.join(os.environ[f"GPUTRAIN_{name}_DIR"], "kept.txt"), "w") as file:
        file.write(name)
"""


def test_outputs_and_checkpoints_are_listed_and_downloaded(road, script, tmp_path):
    job = road.submit(script(KEEP))
    assert road.end(job) is State.SUCCEEDED
    for name, files in (("OUTPUT", job.outputs), ("CHECKPOINT", job.checkpoints)):
        assert files.uri.endswith(f"/{job.id}/{name.lower()}{'s' * (name == 'CHECKPOINT')}")
        assert [(one.name, one.size) for one in files.list()] == [("kept.txt", len(name))]
        shown = []
        (path,) = files.download(tmp_path / name, progress=lambda *told: shown.append(told))  # noqa: B023
        assert (path.read_text(), shown[-1]) == (name, (len(name), len(name)))


def test_a_module_runs(road, script):
    folder = script(TELL, name="pkg_train.py").rpartition("/")[0]
    job = road.submit(module="pkg_train", source_dir=folder, args=["x"])
    assert road.end(job) is State.SUCCEEDED
    assert told(job)[0]["args"] == ["x"]


FACTOR = 6


def times(number):
    return FACTOR * number


def train():
    print("the answer is", times(7))


def test_a_function_runs_with_what_it_uses(road, script, monkeypatch):
    monkeypatch.chdir(script("").rpartition("/")[0])
    job = road.submit(train, source_dir=".")
    assert road.end(job) is State.SUCCEEDED
    assert "the answer is 42" in road.text(job)


def test_a_command_runs_without_a_shell(road):
    job = road.submit(["/bin/echo", "$HOME", "a  b"])
    assert road.end(job) is State.SUCCEEDED
    assert "$HOME a  b" in road.text(job)


def test_a_failure_is_the_first_cause_with_its_own_traceback(road, script):
    job = road.submit(script(RAISE), num_nodes=2, nproc_per_node=2)
    assert road.end(job) is State.FAILED
    with pytest.raises(JobFailedError) as caught:
        job.result()
    cause = caught.value
    assert (cause.kind, cause.rank, cause.node_rank, cause.exit_code) == ("exception", 3, 1, 1)
    assert "ValueError: shard 3 is torn" in cause.traceback
    assert 'raise ValueError("shard 3 is torn")' in cause.traceback


def test_a_rank_that_is_killed_is_told_by_its_signal(road, script):
    job = road.submit(script(CRASH), nproc_per_node=2)
    assert road.end(job) is State.FAILED
    assert (job.failure.kind, job.failure.rank) == ("crashed", 1)
    assert "SIGSEGV" in job.failure.message


def test_an_exit_code_is_told(road, script):
    job = road.submit(script("import sys; print('last words'); sys.exit(7)"))
    assert road.end(job) is State.FAILED
    assert (job.failure.exit_code, job.failure.kind) == (7, "exit")
    assert "last words" in job.failure.last_lines


def test_log_lines_come_while_the_job_runs_each_once_in_order_with_their_rank(road, script):
    job = road.submit(script(COUNT), num_nodes=2, nproc_per_node=2)
    lines = dropwhile(lambda line: not line.message.startswith("line "), job.logs(follow=True))
    first = next(lines)
    assert not job.refresh().state.is_terminal
    said = [first, *(line for line in lines if line.message.startswith("line "))]
    for rank in range(4):
        mine = [line for line in said if line.rank == rank]
        assert [line.message for line in mine] == [f"line {rank} {i}" for i in range(30)]
        assert {line.node_rank for line in mine} == {rank // 2}
    for node in range(2):  # between nodes the order is promised as far as their lines come in time
        times = [line.time for line in said if line.node_rank == node]
        assert times == sorted(times)


def test_a_job_ends_with_max_run_duration(road, script):
    job = road.submit(script(WAIT), max_run_duration="1s")
    assert road.end(job) is State.EXPIRED
    with pytest.raises(JobError, match="max_run_duration"):
        job.result()


def test_jobs_are_listed_newest_first_and_by_the_beginning_of_their_name(road, script):
    file = script(TELL)
    jobs = [road.submit(file, name=name) for name in ("bert-1", "gpt-1", "bert-2")]
    assert road.trainer.jobs() == list(reversed(jobs))
    assert road.fresh().jobs(name="bert") == [jobs[2], jobs[0]]
    for job in jobs:
        road.end(job)


def test_a_job_that_is_not_there_is_lost(road, script):
    job = road.submit(script(TELL))
    road.end(job)
    with pytest.raises(JobLostError, match="never-was"):
        road.trainer.attach(job.uri.replace(job.id, "never-was-1"))


def test_a_missing_script_is_refused_and_nothing_is_made(road, tmp_path):
    with pytest.raises(SpecError) as caught:
        road.submit(str(tmp_path / "none.py"))
    assert [fault.field for fault in caught.value.faults] == ["script"]
    assert road.trainer.jobs() == []


def test_a_plan_is_json_the_same_each_time_and_makes_nothing(road, script):
    plan = road.plan(script(TELL), num_nodes=2, env={"A": "1"})
    assert json.dumps(plan.requests) == json.dumps(plan.requests)
    assert (road.trainer.jobs(), road.begun()) == ([], 0)
