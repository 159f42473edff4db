"""Every command, for people and as JSON, on this machine and against the emulator."""

import os
import pty
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gputrain.spec import TrainingSpec
from gputrain.spec.entry import make_job_id
from gputrain_emulator import faults
from gputrain_emulator.errors import ApiError

ROOT = Path(__file__).parents[4]
SPEC = ("train.py", "--gpu", "L4:2")


def program(*words, env=None, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.Popen([sys.executable, "-m", "gputrain", *words], env=environment, text=True, **options)


def test_a_name_is_not_called_unknown_where_jobs_cannot_be_listed(cloud, run, read, script):
    script()
    _, job = read("submit", *SPEC, "--detach")
    order = cloud.fail("storage.objects.list", faults.Refuse(error=ApiError(403, "drawn")), times=None)
    status, _, err = run("cancel", job["name"])
    assert (status, "there is no job" in err) == (3, False)
    order.cancel()
    assert read("cancel", job["name"])[0] == 0


def test_a_name_stands_for_no_other_job_though_its_own_cannot_be_looked_at(
    cloud, run, read, script, monkeypatch
):
    monkeypatch.setenv("GPUTRAIN_BACKENDS", "vertex")
    words = ("submit", script(), "--gpu", "L4:2", "--detach", "--idempotency-key", "k")
    wanted = make_job_id(TrainingSpec(script="train.py"), "k")
    read(*words, "--name", wanted)  # so the id of another job begins with the whole of the wanted one's
    assert read(*words)[1]["id"] == wanted
    cloud.fail("aiplatform.customJobs.get", faults.Refuse(error=ApiError(403, "drawn")))
    status, _, err = run("cancel", wanted)
    assert (status, "could not look at the job" in err) == (3, True)
    assert not [one for one in cloud.requests if one.method == "aiplatform.customJobs.cancel"]


@pytest.mark.parametrize("flags", [(), ("--cancel-on-interrupt",)])
def test_ctrl_c_ends_the_watching_and_names_both_ways_on(run, read, script, flags):
    script("import time\nprint('up', flush=True)\ntime.sleep(600)")
    watcher = program(
        "submit", "train.py", "--nproc-per-node", "1", *flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for line in watcher.stdout:
        if "[0] up" in line:
            break
    watcher.send_signal(signal.SIGINT)
    _, err = watcher.communicate(timeout=60)
    (job,) = read("jobs")[1]["jobs"]
    assert (watcher.returncode, "Traceback" in err) == (130, False)
    assert f"gputrain wait {job['uri']}" in err.splitlines()
    assert (f"gputrain cancel {job['uri']}" in err.splitlines()) is (not flags)
    if flags:  # it was asked to end, which takes a moment
        assert run("wait", job["name"], "--timeout", "60")[0] == 1
        assert read("jobs")[1]["jobs"][0]["state"] == "cancelled"
    else:
        assert job["state"] == "running"
        run("cancel", job["name"])
        assert run("wait", job["name"])[0] == 1


def test_whoever_waits_at_a_terminal_is_told_for_what(tmp_path):
    """The address takes the question and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        words = ["jobs", "--backend", "vertex", "--project", "my-project", "--region", "us-central1"]
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        ours, theirs = pty.openpty()
        with program(*words, "--endpoint", url, cwd=tmp_path, stdout=theirs, stderr=theirs,
                     env={"TERM": "xterm"}) as running:  # fmt: skip
            os.close(theirs)
            said = ""
            while "waiting for vertex" not in said:
                said += os.read(ours, 1000).decode()
            running.kill()
        os.close(ours)
