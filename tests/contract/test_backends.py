"""What every backend does, told in specs and observations."""

import json
import os

import pytest

from gputrain.backends.base import JobRef
from gputrain.errors import JobLostError, SpecError
from gputrain.job.result import ended
from gputrain.lifecycle import State
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec

TELL = """
import json, os, sys
seen = {"rank": os.environ["RANK"], "args": sys.argv[1:], "env": os.environ.get("TOLD")}
print("told", json.dumps(seen))
"""
RAISE = """
import os, time
if os.environ["RANK"] == "3":
    raise ValueError("shard 3 is torn")
time.sleep(60)
"""
CRASH = """
import os, signal, time
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGSEGV)
time.sleep(60)
"""
COUNT = """
import os, time
for i in range(50):
    print("line", os.environ["RANK"], i, flush=True)
    time.sleep(0.04)
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


def told(road, ref):
    return [json.loads(line.message[5:]) for line in road.lines(ref) if line.message.startswith("told ")]


def test_a_script_runs_on_every_rank_and_succeeds(road, script):
    ref = road.submit(TrainingSpec(script=script(TELL), num_nodes=2, nproc_per_node=2))
    seen = road.end(ref)
    assert (seen.state, seen.exit_code, seen.failure, seen.attempt) == (State.SUCCEEDED, 0, None, 0)
    assert sorted(one["rank"] for one in told(road, ref)) == ["0", "1", "2", "3"]


def test_times_are_told_with_their_zone_and_in_order(road, script):
    seen = road.end(road.submit(TrainingSpec(script=script(TELL))))
    assert seen.started_at.tzinfo is not None
    assert seen.started_at <= seen.ended_at


def test_arguments_and_environment_arrive_as_they_were_given(road, script):
    text = "".join(ODD)
    ref = road.submit(TrainingSpec(script=script(TELL), args=ODD, env={"TOLD": text}))
    road.end(ref)
    assert told(road, ref) == [{"rank": "0", "args": ODD, "env": text}]


def test_a_requirement_that_cannot_be_installed_is_the_cause_in_pips_own_words(road, script):
    env = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    spec = TrainingSpec(script=script(TELL), num_nodes=2, requirements=["no-such-thing"], env=env)
    if not candidates(spec, [road.backend.supply]).candidates:
        pytest.skip("it installs nothing")
    ref = road.submit(spec)
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "requirements")
    assert "No matching distribution found for no-such-thing" in seen.failure.message
    assert any("no-such-thing" in line for line in seen.failure.last_lines)
    assert not told(road, ref)


def test_a_module_runs(road, script):
    folder = script(TELL, name="pkg_train.py").rpartition("/")[0]
    ref = road.submit(TrainingSpec(module="pkg_train", source_dir=folder, args=["x"]))
    assert road.end(ref).state is State.SUCCEEDED
    assert told(road, ref)[0]["args"] == ["x"]


FACTOR = 6


def times(number):
    return FACTOR * number


def train():
    print("the answer is", times(7))


def test_a_function_runs_with_what_it_uses(road, script, monkeypatch):
    monkeypatch.chdir(script("").rpartition("/")[0])
    ref = road.submit(TrainingSpec(function=train, source_dir="."))
    assert road.end(ref).state is State.SUCCEEDED
    assert "the answer is 42" in road.text(ref)


def test_a_command_runs_without_a_shell(road):
    ref = road.submit(TrainingSpec(command=["/bin/echo", "$HOME", "a  b"]))
    assert road.end(ref).state is State.SUCCEEDED
    assert "$HOME a  b" in road.text(ref)


def test_a_failure_is_the_first_cause_with_its_own_traceback(road, script):
    ref = road.submit(TrainingSpec(script=script(RAISE), num_nodes=2, nproc_per_node=2))
    seen = road.end(ref)
    assert seen.state is State.FAILED
    assert (seen.failure.kind, seen.failure.rank, seen.failure.node_rank) == ("exception", 3, 1)
    assert "ValueError: shard 3 is torn" in seen.failure.traceback
    assert 'raise ValueError("shard 3 is torn")' in seen.failure.traceback
    assert seen.exit_code == seen.failure.exit_code == 1


def test_a_rank_that_is_killed_is_told_by_its_signal(road, script):
    seen = road.end(road.submit(TrainingSpec(script=script(CRASH), nproc_per_node=2)))
    assert (seen.state, seen.failure.kind, seen.failure.rank) == (State.FAILED, "crashed", 1)
    assert "SIGSEGV" in seen.failure.message


def test_an_exit_code_is_told(road, script):
    seen = road.end(road.submit(TrainingSpec(script=script("import sys; print('last words'); sys.exit(7)"))))
    assert (seen.state, seen.exit_code, seen.failure.kind) == (State.FAILED, 7, "exit")
    assert "last words" in seen.failure.last_lines


def test_log_lines_come_while_the_job_runs_each_once_in_order_with_their_rank(road, script):
    ref = road.submit(TrainingSpec(script=script(COUNT), num_nodes=2, nproc_per_node=2))
    lines, cursor, early = [], "", 0
    while True:
        is_over = road.backend.observe(ref).state.is_terminal
        page = road.backend.logs(ref, cursor)
        lines += page.lines
        early += 0 if is_over else len(page.lines)
        if is_over and page.cursor == cursor:
            break
        cursor = page.cursor
        road.rest()
    said = [line for line in lines if line.message.startswith("line ")]
    for rank in range(4):
        mine = [line for line in said if line.rank == rank]
        assert [line.message for line in mine] == [f"line {rank} {i}" for i in range(50)]
        assert {line.node_rank for line in mine} == {rank // 2}
    assert early > 0
    for node in range(2):  # between nodes the order is promised as far as their lines come in time
        times = [line.time for line in said if line.node_rank == node]
        assert times == sorted(times)


def test_an_old_cursor_gives_the_same_lines_again(road, script):
    ref = road.submit(TrainingSpec(script=script(TELL), nproc_per_node=2))
    road.end(ref)
    first = road.backend.logs(ref)
    assert road.backend.logs(ref, "").lines == first.lines
    assert road.backend.logs(ref, first.cursor).lines == ()


def test_the_same_id_gives_the_same_job(road, script):
    spec = TrainingSpec(script=script(TELL))
    ref = road.submit(spec, job_id="once-1234")
    assert road.submit(spec, job_id="once-1234") == ref
    road.end(ref)
    assert road.submit(spec, job_id="once-1234") == ref
    assert road.end(ref).state is State.SUCCEEDED
    assert len(told(road, ref)) == 1
    assert road.backend.find() == (ref,)


def test_a_running_job_is_cancelled_and_its_ranks_may_save(road, script):
    ref = road.submit(TrainingSpec(script=script(WAIT), nproc_per_node=2))
    road.until(ref, lambda _: road.text(ref).count("waiting") == 2)
    road.backend.cancel(ref)
    road.backend.cancel(ref)
    seen = road.end(ref)
    assert (seen.state, seen.exit_code, seen.failure.kind) == (State.CANCELLED, 75, "cancelled")
    told = str(ended(ref, seen.state, seen)).lower()
    assert told.count("cancel") == 1, told  # once is enough


def test_a_job_is_cancelled_before_it_runs(road, script):
    ref = road.submit(TrainingSpec(script=script(WAIT)))
    road.backend.cancel(ref)
    assert road.end(ref).state is State.CANCELLED


def test_a_job_that_has_ended_stays_as_it_is(road, script):
    ref = road.submit(TrainingSpec(script=script(TELL)))
    road.end(ref)
    road.backend.cancel(ref)
    assert road.backend.observe(ref).state is State.SUCCEEDED


def test_a_job_ends_with_max_run_duration(road, script):
    ref = road.submit(TrainingSpec(script=script(WAIT), max_run_duration="1s"))
    seen = road.end(ref)
    assert seen.state is State.EXPIRED
    assert "max_run_duration" in seen.detail


def test_jobs_are_found_newest_first_and_by_the_beginning_of_their_name(road, script):
    spec = TrainingSpec(script=script(TELL))
    refs = [road.submit(spec, job_id=name) for name in ("bert-1", "gpt-1", "bert-2")]
    assert road.backend.find() == tuple(reversed(refs))
    assert road.backend.find(name="bert") == (refs[2], refs[0])
    for ref in refs:
        road.end(ref)


def test_a_job_is_known_by_its_uri_alone(road, script):
    ref = road.submit(TrainingSpec(script=script(TELL)))
    again = type(road.backend).for_ref(JobRef.parse(ref.uri))
    road.end(ref)
    assert again.observe(JobRef.parse(ref.uri)).state is State.SUCCEEDED


def test_a_job_that_is_not_there_is_lost(road, script):
    ref = road.submit(TrainingSpec(script=script(TELL)))
    gone = JobRef(backend=ref.backend, project=ref.project, place=ref.place, name="never-was")
    for ask in (road.backend.observe, road.backend.logs, road.backend.cancel):
        with pytest.raises(JobLostError, match="never-was"):
            ask(gone)
    road.end(ref)


def test_a_missing_script_is_refused_and_nothing_is_made(road, tmp_path):
    with pytest.raises(SpecError) as caught:
        road.request(TrainingSpec(script=str(tmp_path / "none.py")))
    assert [fault.field for fault in caught.value.faults] == ["script"]
    assert road.backend.find() == ()


def test_a_request_is_json_and_the_same_each_time(road, script):
    spec = TrainingSpec(script=script(TELL), num_nodes=2, env={"A": "1"})
    one, two = (road.request(spec, job_id="same-1") for _ in range(2))
    assert json.loads(json.dumps(one.body)) == json.loads(json.dumps(two.body))
