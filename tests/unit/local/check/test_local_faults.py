"""What can go wrong on a machine of one's own, with real processes."""

import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from datetime import datetime, timezone

import pytest

from gputrain.backends.local import Local
from gputrain.errors import PermissionDeniedError, ProviderError, SpecError
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from tests.unit.local.conftest import SEEING, none_left, one_of, processes_of
from tests.unit.steps import Steps

WAIT = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("waiting", flush=True)
while True:
    time.sleep(0.1)
"""
DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("waiting", flush=True)
time.sleep(600)
"""
SECOND_TIME = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("attempt", os.environ["GPUTRAIN_ATTEMPT"], flush=True)
while os.environ["GPUTRAIN_ATTEMPT"] == "0":
    time.sleep(0.1)
"""
SUPERVISOR = "backends.local.supervisor"
AGENT = "gputrain.entrypoint.__main__"


def test_nothing_is_left_when_a_job_has_ended(road, script):
    text = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
    )
    ref = road.submit(TrainingSpec(script=script(text), nproc_per_node=2))
    assert road.end(ref).state is State.SUCCEEDED
    assert none_left(ref)


def test_a_killed_supervisor_leaves_no_rank_and_the_job_has_failed(road, script):
    spec = TrainingSpec(script=script(WAIT), num_nodes=2, nproc_per_node=2)
    ref = road.submit(spec)
    road.until(ref, lambda _: road.text(ref).count("waiting") == 4)
    os.kill(one_of(ref, SUPERVISOR), signal.SIGKILL)
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "lost")
    assert seen.started_at <= seen.ended_at <= datetime.now(timezone.utc)
    assert none_left(ref)


def test_a_job_whose_supervisor_was_killed_is_not_started_again(road, script):
    spec = TrainingSpec(script=script(WAIT))
    ref = road.submit(spec)
    road.until_said(ref, "waiting")
    os.kill(one_of(ref, SUPERVISOR), signal.SIGKILL)
    assert road.end(ref).state is State.FAILED
    assert road.submit(spec, job_id=ref.name) == ref
    assert road.backend.observe(ref).state is State.FAILED
    assert none_left(ref)


def test_ranks_that_do_not_listen_are_killed_with_all_they_started(road, script):
    ref = road.submit(TrainingSpec(script=script(DEAF), nproc_per_node=2))
    road.until_said(ref, "waiting")
    road.backend.cancel(ref)
    assert road.end(ref).state is State.CANCELLED
    assert none_left(ref)


def test_an_agent_that_does_not_listen_is_killed(road, script):
    ref = road.submit(TrainingSpec(script=script(WAIT)))
    road.until_said(ref, "waiting")
    os.kill(one_of(ref, AGENT), signal.SIGSTOP)
    road.backend.cancel(ref)
    assert road.end(ref).state is State.CANCELLED
    assert none_left(ref)


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.25])
def test_cancel_at_any_moment_ends_cancelled_and_leaves_nothing(road, script, delay_s):
    ref = road.submit(TrainingSpec(script=script(WAIT), num_nodes=2))
    threading.Event().wait(delay_s)
    road.backend.cancel(ref)
    assert road.end(ref).state is State.CANCELLED
    assert none_left(ref)


def test_a_request_to_stop_the_supervisor_is_a_request_to_stop_the_job(road, script):
    ref = road.submit(TrainingSpec(script=script(WAIT)))
    road.until_said(ref, "waiting")
    os.kill(one_of(ref, SUPERVISOR), signal.SIGTERM)
    assert road.end(ref).state is State.CANCELLED


def test_a_lost_agent_fails_the_job_and_names_its_node(road, script):
    ref = road.submit(TrainingSpec(script=script(WAIT), num_nodes=2))
    road.until(ref, lambda _: road.text(ref).count("waiting") == 2)
    os.kill(_agent_of_node(ref, 1), signal.SIGKILL)
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind, seen.failure.node_rank) == (State.FAILED, "node_lost", 1)
    assert seen.exit_code == 69
    assert none_left(ref)


def _agent_of_node(ref, node_rank):
    for pid, line in processes_of(ref).items():
        with SEEING(), open(f"/proc/{pid}/environ", "rb") as file:
            if AGENT in line and f"GPUTRAIN_NODE_RANK={node_rank}\0".encode() in file.read():
                return pid
    raise AssertionError(processes_of(ref))


def test_a_lost_node_is_started_again_where_restarts_are_left(road, script):
    ref = road.submit(TrainingSpec(script=script(WAIT), num_nodes=2, max_restarts=1))
    road.until(ref, lambda _: road.text(ref).count("waiting") == 2)
    os.kill(_agent_of_node(ref, 1), signal.SIGKILL)
    road.until(ref, lambda seen: seen.attempt == 1 and seen.state is State.RUNNING)
    road.backend.cancel(ref)
    seen = road.end(ref)
    assert (seen.state, seen.attempt) == (State.CANCELLED, 1)
    assert none_left(ref)


def test_a_job_that_was_stopped_from_outside_goes_on_in_a_new_attempt(road, script):
    ref = road.submit(TrainingSpec(script=script(SECOND_TIME), max_restarts=1))
    road.until_said(ref, "attempt 0")
    os.kill(one_of(ref, AGENT), signal.SIGTERM)
    seen = road.end(ref)
    assert (seen.state, seen.attempt) == (State.SUCCEEDED, 1)
    said = [line.message for line in road.lines(ref) if line.rank is not None]
    assert said == ["attempt 0", "attempt 1"]


def test_a_script_that_leaves_with_75_by_itself_is_started_again(road, script):
    text = "import os, sys\nprint('attempt', os.environ['GPUTRAIN_ATTEMPT'], flush=True)\n"
    text += "sys.exit(75 if os.environ['GPUTRAIN_ATTEMPT'] == '0' else 0)\n"
    ref = road.submit(TrainingSpec(script=script(text), nproc_per_node=2, max_restarts=1))
    seen = road.end(ref)
    assert (seen.state, seen.attempt) == (State.SUCCEEDED, 1)


def test_restarts_do_not_lengthen_max_run_duration(road, script):
    text = "import sys, time\ntime.sleep(0.2)\nsys.exit(75)\n"
    spec = TrainingSpec(script=script(text), nproc_per_node=2, max_restarts=1000, max_run_duration="3s")
    seen = road.end(road.submit(spec))
    assert (seen.state, seen.attempt > 0) == (State.EXPIRED, True)


def test_a_stop_from_outside_fails_a_job_without_restarts(road, script):
    ref = road.submit(TrainingSpec(script=script(SECOND_TIME)))
    road.until_said(ref, "attempt 0")
    os.kill(one_of(ref, AGENT), signal.SIGTERM)
    seen = road.end(ref)
    assert (seen.state, seen.exit_code, seen.failure.kind) == (State.FAILED, 75, "stopped")


def test_a_user_error_is_not_started_again(road, script):
    seen = road.end(road.submit(TrainingSpec(script=script("raise SystemExit(3)"), max_restarts=5)))
    assert (seen.state, seen.exit_code, seen.attempt) == (State.FAILED, 3, 0)


def test_a_node_that_never_comes_is_named(road, script, monkeypatch):
    monkeypatch.setenv("GPUTRAIN_JOIN_TIMEOUT", "1")
    request = road.request(TrainingSpec(script=script(WAIT), num_nodes=2))
    request.body["nodes"][1]["argv"][:0] = ["--coordinator", "127.0.0.1:1"]
    seen = road.end(road.backend.create(request))
    assert (seen.state, seen.exit_code) == (State.FAILED, 69)
    assert (seen.failure.kind, seen.failure.node_rank) == ("node_missing", 1)


def test_a_rank_that_hangs_ends_with_max_run_duration(road, script):
    text = "import os, time\nif os.environ['RANK'] == '1':\n    time.sleep(600)\nprint('here', flush=True)\n"
    ref = road.submit(TrainingSpec(script=script(text), nproc_per_node=2, max_run_duration="1s"))
    seen = road.end(ref)
    assert seen.state is State.EXPIRED
    assert none_left(ref)


def test_two_clients_at_once_make_one_job(local, road, script):
    request = road.request(TrainingSpec(script=script("print('once')")), job_id="once-1")
    start = threading.Barrier(8)

    def create(_):
        start.wait()
        return Local(gpus=0, root=local._root).create(request)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        refs = set(pool.map(create, range(8)))
    assert refs == {request.ref}
    road.end(request.ref)
    assert road.text(request.ref).splitlines().count("once") == 1
    assert os.listdir(local._root) == ["once-1"]


CREATE = """
import sys
from gputrain.backends.local import Local
from gputrain.backends.local import start
from gputrain.spec import TrainingSpec
from tests.unit.steps import Steps
road = Steps(Local(gpus=0, root=sys.argv[1]))
if len(sys.argv) > 3:
    start._start_supervisor = lambda *_: __import__("os").abort()
print(road.submit(TrainingSpec(script=sys.argv[2]), job_id="once-1").uri)
"""


def test_a_job_goes_on_without_its_client(road, script):
    words = [sys.executable, "-c", CREATE, str(road.backend._root), script(WAIT)]
    with subprocess.Popen(words, start_new_session=True, stdout=subprocess.PIPE) as client:
        client.communicate()
    (ref,) = road.backend.find()
    road.until_said(ref, "waiting")
    with pytest.raises(ProcessLookupError):  # a Ctrl-C at its terminal reaches nobody
        os.killpg(client.pid, signal.SIGINT)
    road.backend.cancel(ref)
    assert road.end(ref).state is State.CANCELLED


CLOSED = """
import json, os, sys
for one in map(int, sys.argv[1].split(",")):
    os.close(one)
from gputrain import Local, Trainer
job = Trainer(Local(gpus=0)).submit(sys.argv[2])
told = [job.refresh().state.value]
while not job.state.is_terminal:
    told.append(job.refresh().state.value)
with open(sys.argv[3], "w") as file:
    json.dump([told, job.refresh().state.value, str(job.failure)], file)
"""


@pytest.mark.parametrize("closed", ["0", "1", "2", "0,1,2"])
def test_a_client_whose_streams_are_closed_starts_a_job_like_any_other(tmp_path, script, closed):
    path, told = script("import time\ntime.sleep(0.5)\nprint('done')\n"), tmp_path / "told.json"
    subprocess.run([sys.executable, "-c", CLOSED, closed, path, str(told)], timeout=120, check=True)
    states, last, failure = json.loads(told.read_text())
    assert (states[-1], last, failure) == ("succeeded", "succeeded", "None")


FORKS = """
import os, sys, time
from gputrain import Local, Trainer
forked = []

def fork(event, words):
    if event == "subprocess.Popen" and "gputrain.backends.local.supervisor" in " ".join(words[1]):
        forked.append(os.fork())
        if not forked[-1]:
            os.close(1), os.close(2)
            time.sleep(120)
            os._exit(0)

sys.addaudithook(fork)
job = Trainer(Local(gpus=0, root=sys.argv[1])).submit(sys.argv[2], idempotency_key="k")
print(*forked)
"""
"""A client of which another thread forks, as a pool of processes does, while it starts a job."""


def test_a_process_that_was_forked_during_a_submit_keeps_no_job_that_has_ended(road, script):
    words = [sys.executable, "-c", FORKS, str(road.backend._root), script(WAIT)]
    forked = int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    try:
        (ref,) = road.backend.find()
        road.until_said(ref, "waiting")
        os.kill(one_of(ref, "gputrain.backends.local.supervisor"), signal.SIGKILL)
        assert road.end(ref).state is State.FAILED
    finally:
        os.kill(forked, signal.SIGKILL)


def test_a_job_whose_client_died_before_it_started_is_started_by_the_next(road, script):
    path = script("print('once')")
    words = [sys.executable, "-c", CREATE, str(road.backend._root), path]
    died = subprocess.run([*words, "dies"], check=False, capture_output=True)
    assert died.returncode == -signal.SIGABRT
    (ref,) = road.backend.find()
    seen = road.backend.observe(ref)
    assert (seen.state, "submit it again" in seen.detail) == (State.QUEUED, True)
    subprocess.run(words, check=True, capture_output=True)
    assert road.end(ref).state is State.SUCCEEDED
    assert road.text(ref).splitlines().count("once") == 1


SUBMIT_WHEN_TOLD = """
import sys
from gputrain.backends.local import Local
from gputrain.spec import TrainingSpec
from tests.unit.steps import Steps
road = Steps(Local(gpus=0, root=sys.argv[1]))
request = road.request(TrainingSpec(script=sys.argv[2]), job_id="once-1")
print("ready", flush=True)
sys.stdin.readline()
road.backend.create(request)
"""


@pytest.mark.parametrize("delay_ms", [0, 1, 2, 4, 8, 12, 16, 24, 40])
def test_a_client_killed_at_any_moment_of_its_write_makes_one_job_at_most(road, script, delay_ms):
    path = script("print('once')")
    words = [sys.executable, "-c", SUBMIT_WHEN_TOLD, str(road.backend._root), path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"ready\n"
        client.stdin.write(b"\n")
        client.stdin.flush()
        threading.Event().wait(delay_ms / 1000)
        client.kill()
    ref = road.submit(TrainingSpec(script=path), job_id="once-1")
    assert road.end(ref).state is State.SUCCEEDED
    assert road.text(ref).splitlines().count("once") == 1
    assert road.backend.find() == (ref,)


def test_a_root_that_cannot_be_written_is_told_before_anything_runs(tmp_path, script):
    (tmp_path / "file").write_text("in the way")
    road = Steps(Local(gpus=0, root=tmp_path / "file" / "jobs"))
    with pytest.raises(PermissionDeniedError, match="file/jobs") as caught:
        road.submit(TrainingSpec(script=script(WAIT)))
    assert "Local(root=...)" in caught.value.fix


def test_a_supervisor_that_does_not_start_leaves_no_job(road, script, monkeypatch):
    request = road.request(TrainingSpec(script=script(WAIT)))
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(ProviderError, match="supervisor did not start"):
        road.backend.create(request)
    assert road.backend.find() == ()


def test_a_checkpoint_dir_that_cannot_be_made_is_a_fault_of_the_spec(road, tmp_path, script):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SpecError) as caught:
        road.submit(TrainingSpec(script=script(WAIT), checkpoint_dir=str(tmp_path / "file" / "deep")))
    assert [fault.field for fault in caught.value.faults] == ["checkpoint_dir"]
    assert road.backend.find() == ()


FILL = """
def fill(ballast):
    with open(ballast, "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 512):
                pass
        except OSError:
            return file.tell()
"""
FULL = """
import os, sys
from pathlib import Path
from gputrain.backends.local import Local
from gputrain.errors import CapacityError
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from tests.unit.steps import Steps
road = Steps(Local(gpus=0, root=sys.argv[1]))
ballast = Path(sys.argv[1]).parent / "ballast"

fill(ballast)
try:
    road.submit(TrainingSpec(script=sys.argv[2]))
except CapacityError as error:
    print("refused:", error.what)
try:
    Trainer(road.backend).submit(sys.argv[2])
except CapacityError as error:
    print("submit:", error.fix)
assert road.backend.find() == ()
ballast.unlink()
ref = road.submit(TrainingSpec(script=sys.argv[2]))
road.until_said(ref, "filling")
fill(ballast)
open(sys.argv[3], "w").close()
seen = road.end(ref)
print("ended:", seen.state.value)
print("detail:", seen.detail)
"""
WRITE = """
import os, sys, time
print("filling", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
for number in range(200):
    print("x" * 1000, flush=True)
"""
"""A rank that goes on writing to a log on a disk that is full."""


NEARLY_FULL = """
import os, shutil, sys
from pathlib import Path
from gputrain.backends.local import Local
from gputrain.errors import CapacityError
from gputrain.trainer import Trainer

root = Path(sys.argv[1])
for left_kib in range(0, 49, 4):
    ballast = root.parent / "ballast"
    os.truncate(ballast, fill(ballast) - (left_kib << 10))
    try:
        job = Trainer(Local(gpus=0, root=root)).submit(["/bin/true"], idempotency_key="k")
    except CapacityError:
        print("full", end=" ")
    else:
        print(job.wait(timeout=60, progress="none").value, end=" ")
    shutil.rmtree(root, ignore_errors=True)
    ballast.unlink()
"""
"""Submits to a disk that has ever more room left, from none to enough."""


@pytest.fixture
def on_a_small_disk(tmp_path):
    """What a program prints that has a disk of 256 KiB, whose folder of jobs is its first word."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here: no small disk can be made")
    disk = tmp_path / "disk"
    disk.mkdir()

    def run(program, *words):
        mount = 'mount -t tmpfs -o size=256k none "$0" && exec "$@"'
        inner = [sys.executable, "-c", FILL + program, str(disk / "jobs"), *words]
        words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(disk), *inner]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        if "mount" in done.stderr or "unshare" in done.stderr:
            pytest.skip(f"no small disk can be made here: {done.stderr.strip()}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_wherever_a_disk_becomes_full_in_a_submit_that_is_what_is_told(on_a_small_disk):
    told = on_a_small_disk(NEARLY_FULL).split()
    assert set(told) == {"full", "succeeded"}
    assert told == sorted(told)


def test_a_full_disk_refuses_a_new_job_and_ends_a_running_one_in_plain_sight(
    tmp_path, script, on_a_small_disk
):
    flag = tmp_path / "flag"
    path = script(WRITE.replace("sys.argv[1]", repr(str(flag))))
    refused, submitted, ended, detail = on_a_small_disk(FULL, path, str(flag)).splitlines()
    assert refused.startswith("refused: no room for the job in")
    assert submitted.startswith("submit: make room there")
    assert ended == "ended: succeeded"
    assert "lost" in detail
