"""Jobs whose maker died or was interrupted, whose folder is gone, or is not ours: with real processes."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from gputrain.backends.local import Local, start
from gputrain.errors import JobLostError
from gputrain.keeper import folder
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from tests.unit.local.check.test_local_faults import CREATE, WAIT
from tests.unit.local.conftest import none_left, record_of
from tests.unit.steps import Steps

INTERRUPTED = """
import os, signal, sys, threading, time
from gputrain.backends.local import Local
from gputrain.trainer import Trainer
trainer = Trainer(Local(gpus=0, root=sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
began = time.monotonic()
try:
    threading.Timer(float(sys.argv[3]), os.kill, (os.getpid(), signal.SIGINT)).start()
    trainer.submit(sys.argv[2], idempotency_key="once")
except KeyboardInterrupt:
    pass
print(time.monotonic() - began, flush=True)
"""


@pytest.fixture
def died(road, script):
    """A job whose creator died before it could start it."""
    words = [sys.executable, "-c", CREATE, str(road.backend._root), script("print('once')"), "dies"]
    done = subprocess.run(words, check=False, capture_output=True)
    assert done.returncode == -signal.SIGABRT
    (ref,) = road.backend.find()
    return ref


def test_a_job_that_was_never_started_is_not_known_so_that_a_submit_starts_it(road, died, script):
    assert road.backend.recorder().there(record_of(died.name)) is None
    assert road.submit(TrainingSpec(script=script("print('once')")), job_id=died.name) == died
    assert road.backend.recorder().there(record_of(died.name)) == died
    assert road.end(died).state is State.SUCCEEDED


def test_the_time_of_a_job_whose_creator_died_begins_when_another_starts_it(road, died, script):
    order = str(road.backend._root / died.name / folder.ORDER)
    told = folder.read_json(order)
    folder.write_json(order, {**told, "created_at": 1.0})
    began = folder.now()
    road.submit(TrainingSpec(script=script("print('once')")), job_id=died.name)
    after = folder.read_json(order)
    assert after["created_at"] >= began
    assert after == {**told, "created_at": after["created_at"]}
    assert road.end(died).state is State.SUCCEEDED


def test_a_submit_of_the_same_key_starts_the_job_whose_creator_died(tmp_path, script):
    trainer = Trainer(Local(gpus=0, root=tmp_path / "jobs"))
    path = script("print('once')")
    code = (
        "import os, sys\nfrom gputrain.backends.local import Local, start\n"
        "from gputrain.trainer import Trainer\n"
        "start._start_supervisor = lambda *_: os.abort()\n"
        "Trainer(Local(gpus=0, root=sys.argv[1])).submit(sys.argv[2], idempotency_key='k')\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "jobs"), path]
    assert subprocess.run(words, check=False, capture_output=True).returncode == -signal.SIGABRT
    job = trainer.submit(path, idempotency_key="k")
    assert job.wait(timeout=60) is State.SUCCEEDED


def test_a_job_whose_maker_was_killed_as_it_took_it_back_is_none_for_the_next_submit(tmp_path, script):
    code = (
        "import os, sys\nfrom gputrain.backends.local import Local, start\n"
        "from gputrain.trainer import Trainer\n"
        "made = Local.create\n"
        "def strike(*given):\n    made(*given)\n    raise KeyboardInterrupt\n"
        "Local.create, start.withdraw = strike, lambda *_: os.abort()\n"
        "Trainer(Local(gpus=0, root=sys.argv[1])).submit(sys.argv[2], idempotency_key='k')\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "jobs"), script(WAIT)]
    assert subprocess.run(words, check=False, capture_output=True).returncode == -signal.SIGABRT
    local = Local(gpus=0, root=tmp_path / "jobs")
    (ref,) = local.find()
    assert not local.observe(ref).state.is_terminal
    job = Trainer(local).submit(script("print('anew')", name="other.py"), idempotency_key="k")
    assert job.wait(timeout=20) is State.SUCCEEDED


def test_a_job_that_was_cancelled_before_its_start_is_known_and_not_started(road, died, script):
    road.backend.cancel(died)
    assert road.backend.recorder().there(record_of(died.name)) == died
    assert road.submit(TrainingSpec(script=script("print('once')")), job_id=died.name) == died
    assert road.backend.observe(died).state is State.CANCELLED


def test_what_was_half_made_is_cleared_after_a_minute_and_not_before(road, script):
    root = road.backend._root
    old, new = root / ".new-old", root / ".new-new"
    for path in (old, new):
        path.mkdir(parents=True, mode=0o700)
        (path / "token").write_text("x")
    others = [root / ".new-held", root / "bert-1"]
    for path in others:
        path.mkdir(mode=0o700)
    held = folder.take(str(others[0]))
    for path in (old, *others):
        os.utime(path, (time.time() - 100,) * 2)
    road.end(road.submit(TrainingSpec(script=script("pass"))))
    os.close(held)
    assert not old.exists()
    assert all(path.exists() for path in (new, *others))


def test_a_job_whose_folder_is_removed_ends_and_the_folder_stays_gone(road, script):
    ref = road.submit(TrainingSpec(script=script(WAIT), num_nodes=2, nproc_per_node=2))
    road.until(ref, lambda _: road.text(ref).count("waiting") == 4)
    shutil.rmtree(os.path.join(ref.place, ref.name))
    assert none_left(ref, within_s=5)
    assert not os.path.exists(os.path.join(ref.place, ref.name))
    with pytest.raises(JobLostError):
        road.backend.observe(ref)


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15])
def test_a_job_withdrawn_while_its_agents_start_leaves_nothing_in_its_name(road, script, delay_s):
    ref = road.submit(TrainingSpec(script=script(WAIT), num_nodes=2), job_id="once-1")
    threading.Event().wait(delay_s)
    os.rename(os.path.join(ref.place, ref.name), os.path.join(ref.place, ".new-moved"))
    assert none_left(ref, within_s=5)
    assert not os.path.exists(os.path.join(ref.place, ref.name))


def test_what_an_agent_made_late_whose_job_was_withdrawn_bars_no_job_of_that_name(road, script):
    request = road.request(TrainingSpec(script=script("pass")), job_id="mine-1")
    (road.backend._root / "mine-1" / "attempt-0" / "gputrain-7-ab").mkdir(parents=True, mode=0o700)
    (road.backend._root / "mine-1").chmod(0o700)
    road.backend.create(request)
    assert road.end(request.ref).state is State.SUCCEEDED


def test_a_job_that_another_process_made_is_not_withdrawn(road, script):
    words = [sys.executable, "-c", CREATE, str(road.backend._root), script(WAIT)]
    subprocess.run(words, check=True, capture_output=True)
    (ref,) = road.backend.find()
    road.until_said(ref, "waiting")
    road.backend.recorder().clear(record_of(ref.name))
    assert road.backend.observe(ref).state is State.RUNNING
    road.backend.cancel(ref)
    assert road.end(ref).state is State.CANCELLED


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.03, 0.06, 0.1])
def test_ctrl_c_in_a_submit_returns_at_once_and_leaves_a_job_or_nothing(road, script, delay_s):
    root = road.backend._root
    words = [sys.executable, "-c", INTERRUPTED, str(root), script(WAIT), str(delay_s)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout.readline() == "ready\n"
        client.stdin.write("\n")
        client.stdin.flush()
        took_s = float(client.stdout.readline())
    assert took_s < 2.0
    left = road.backend.find()
    for ref in left:
        assert road.backend.observe(ref).state is not State.CANCELLED
        road.backend.cancel(ref)
        road.end(ref)


def test_a_supervisor_that_comes_up_when_its_job_was_withdrawn_leaves_the_next_alone(
    tmp_path, script, monkeypatch
):
    """A Ctrl-C may fall where Python has started a process and nobody has its number yet."""
    go, begun, real = tmp_path / "go", [], subprocess.Popen._execute_child

    def interrupted(self, *words):
        real(self, *words)
        begun.append(self.pid)
        raise KeyboardInterrupt

    trainer = Trainer(Local(gpus=0, root=tmp_path / "jobs"))
    entry = script(f"import time\nopen({str(tmp_path / 'ran')!r}, 'a').write('once ')\ntime.sleep(0.5)")
    late = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n{start._SUPERVISOR}"
    with monkeypatch.context() as patched:
        patched.setattr(start, "_SUPERVISOR", late)
        patched.setattr(subprocess.Popen, "_execute_child", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"withdrawn|may be there"):
            trainer.submit(entry, idempotency_key="once")
    job = trainer.submit(entry, idempotency_key="once")
    go.touch()
    assert os.waitpid(begun[0], 0)[1] != 0
    assert job.wait(timeout=60) is State.SUCCEEDED
    assert (tmp_path / "ran").read_text() == "once "


def test_a_job_that_its_maker_takes_back_while_it_is_waited_for_is_made_anew(road, script, monkeypatch):
    spec, root = TrainingSpec(script=script("print('once')")), road.backend._root
    first = road.submit(spec, job_id="bert-1")
    road.end(first)

    def taken_back(path):
        assert start.withdraw(str(root), "bert-1")

    monkeypatch.setattr(start, "await_start", taken_back)
    assert road.backend.create(road.request(spec, "bert-1")) == first
    assert road.end(first).state is State.SUCCEEDED


def test_eight_threads_withdraw_and_submit_one_name_and_one_job_is_left(local, script):
    road = Steps(local)
    request = road.request(TrainingSpec(script=script(WAIT)), job_id="once-1")
    for _ in range(3):
        threads = [threading.Thread(target=local.create, args=(request,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert local.find() == (request.ref,)
        local.recorder().clear(record_of(request.ref.name))
    assert none_left(request.ref, within_s=5)
