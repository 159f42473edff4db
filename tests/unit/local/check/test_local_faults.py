"""What can go wrong on a machine of one's own, with real processes."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from gputrain import JobFailedError, Local, Trainer
from gputrain.errors import SpecError
from gputrain.lifecycle import State
from gputrain.orchestration.look import cancel
from tests.patience import until
from tests.support.processes import living
from tests.unit.local.conftest import WAITS

DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("waiting", flush=True)
time.sleep(600)
"""
AGENT = "gputrain.entrypoint"


def test_nothing_is_left_when_a_job_has_ended(jobs, script):
    text = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
    )
    record = jobs.submit(script=script(text), nproc_per_node=2)
    assert jobs.end(record).result == "succeeded"
    assert jobs.none_left(record)


def test_ranks_that_do_not_listen_are_killed_with_all_they_started(jobs, script):
    record = jobs.submit(script=script(DEAF), nproc_per_node=2)
    jobs.until_said(record, "waiting")
    cancel(jobs.context, record.job_id, grace_s=10)
    assert jobs.end(record).result == "cancelled"
    assert jobs.none_left(record)


@pytest.mark.parametrize("seed", range(6))
def test_a_supervisor_that_is_killed_at_any_moment_leaves_nothing(seed, jobs, script):
    record = jobs.submit(script=script("import time\ntime.sleep(0.5)\n"), num_nodes=2)
    time.sleep(random.Random(seed).uniform(0, 0.6))
    os.kill(until(lambda: jobs.one_of(record, "backends.local.supervisor")), signal.SIGKILL)
    assert jobs.end(record).result in ("lost", "succeeded")
    assert jobs.none_left(record)


def test_a_lost_agent_fails_the_job_and_names_its_node(jobs, waits):
    record = jobs.submit(**waits[0], num_nodes=2)
    jobs.until_said(record, "waiting", times=2)
    os.kill(_agent_of_node(jobs, record, 1), signal.SIGKILL)
    ended = jobs.end(record)
    assert (ended.result, ended.failure.node_rank) == ("node_lost", 1)
    assert jobs.none_left(record)


def _agent_of_node(jobs, record, node_rank):
    environments = {pid: environ for pid, (_, environ) in living().items()}
    for pid, line in jobs.processes(record).items():
        if AGENT in line and f"GPUTRAIN_NODE_RANK={node_rank}\0".encode() in environments.get(pid, b""):
            return pid
    raise AssertionError(jobs.processes(record))


def test_restarts_do_not_lengthen_max_run_duration(jobs, script):
    text = "import sys, time\ntime.sleep(0.2)\nsys.exit(75)\n"
    spec = {"max_restarts": 1000, "max_run_duration": "6s"}
    ended = jobs.end(jobs.submit(script=script(text), **spec))
    assert (ended.result, jobs.status(ended).restarts > 0) == ("time_limit", True)


def test_a_stop_from_outside_fails_a_job_without_restarts(jobs, waits):
    record = jobs.submit(**waits[0])
    jobs.until_said(record, "waiting")
    jobs.kill(record, AGENT, signal.SIGTERM)
    ended = jobs.end(record)
    assert ended.result == "stopped"


def test_a_user_error_is_not_started_again(jobs, script):
    ended = jobs.end(jobs.submit(script=script("raise SystemExit(3)"), max_restarts=5))
    seen = jobs.status(ended)
    assert (ended.result, seen.failure.exit_code, seen.restarts) == ("exit", 3, 0)


def test_a_node_that_never_comes_is_named(jobs, waits, monkeypatch, tmp_path):
    monkeypatch.setenv("GPUTRAIN_JOIN_TIMEOUT", "1")
    record, request = jobs.drawn(**waits[0], num_nodes=2)
    request.body["nodes"][1]["argv"][:0] = ["--run-dir", str(tmp_path / "elsewhere")]
    jobs.backend.launch(request)
    seen = until(lambda: (found := jobs.status(record)).state.is_terminal and found)
    assert (seen.failure.kind, seen.failure.node_rank) == ("node_missing", 1)


DETACHED = """
import sys
from gputrain import Local, Trainer
print(Trainer(Local(gpus=0, root=sys.argv[1])).submit(sys.argv[2], args=[sys.argv[3]]).uri)
"""


def test_a_job_goes_on_without_its_client(jobs, script, tmp_path):
    words = [sys.executable, "-c", DETACHED, str(jobs.root), script(WAITS), str(tmp_path / "saved")]
    with subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE, text=True) as client:
        uri, _ = client.communicate()
    job = Trainer(Local(gpus=0, root=jobs.root)).attach(uri.strip())
    until(lambda: any(line.message == "waiting" for line in job.logs()))
    with pytest.raises(ProcessLookupError):  # a Ctrl-C at its terminal reaches nobody
        os.killpg(client.pid, signal.SIGINT)
    job.cancel()
    assert job.wait() is State.CANCELLED


def test_a_checkpoint_dir_that_cannot_be_made_is_a_fault_of_the_spec(jobs, tmp_path, script):
    (tmp_path / "file").write_text("in the way")
    record, request = jobs.drawn(script=script("pass"), checkpoint_dir=str(tmp_path / "file" / "deep"))
    with pytest.raises(SpecError) as caught:
        jobs.backend.launch(request)
    assert [fault.field for fault in caught.value.faults] == ["checkpoint_dir"]
    assert not jobs.folder(record).exists()


def run(tmp_path, text, **spec):
    script = tmp_path / "train.py"
    script.write_text(text)
    return Trainer(Local(root=tmp_path / "jobs", gpus=0)).submit(str(script), nproc_per_node=2, **spec)


def test_a_job_that_hangs_fails_as_such_with_the_place_of_its_ranks(tmp_path):
    text = "import time\ndef stuck():\n    time.sleep(600)\nprint('up', flush=True)\nstuck()\n"
    with pytest.raises(JobFailedError, match="stood still") as caught:
        run(tmp_path, text, hang_timeout="5s").result()
    assert caught.value.kind == "hang"
    assert "ranks 0, 1 in stuck at train.py:3" in caught.value.why
