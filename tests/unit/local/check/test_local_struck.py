"""Whatever falls into the making of a job, there is the job, or nothing, and no other place is asked."""

import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import attrs
import pytest

from gputrain.backends.local import Local, remains, start
from gputrain.backends.local.held import Hold
from gputrain.entrypoint import host
from gputrain.errors import PermissionDeniedError, ProviderError, RequestError
from gputrain.keeper import folder
from gputrain.lifecycle import State
from gputrain.records.folder import FolderBoard, explained
from gputrain.trainer import Trainer
from tests.unit.local.check.test_local_faults import WAIT
from tests.unit.local.conftest import none_left, stop_all


class Second(Local):
    """Another place of this machine."""

    name = "second"

    @property
    def supply(self):
        return attrs.evolve(super().supply, backend=self.name)


@pytest.fixture
def places(tmp_path):
    return [Local(gpus=0, root=tmp_path / "one"), Second(gpus=0, root=tmp_path / "two")]


def names_in(*places):
    return [ref.name for place in places for ref in place.find()]


def failing(monkeypatch, error, name="_start_supervisor"):
    """Has a step of a create be done, and raise then."""
    act = getattr(start, name)

    def acts(*words):
        act(*words)
        raise error

    monkeypatch.setattr(start, name, acts)


def test_a_job_that_is_made_as_no_file_can_be_opened_any_more_is_taken_back(places, script, monkeypatch):
    rename, (most, hard) = os.rename, resource.getrlimit(resource.RLIMIT_NOFILE)

    def last_file(source, target):
        rename(source, target)
        if os.path.basename(target).startswith("once"):
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))

    monkeypatch.setattr(os, "rename", last_file)
    take_back = seen(start._take_back, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard)))
    monkeypatch.setattr(start, "_take_back", take_back)
    trainer, entry = Trainer(places[0]), script("import sys; print('ran', sys.argv[1])")
    try:
        with pytest.raises(PermissionDeniedError):
            trainer.submit(entry, args=["first"], idempotency_key="once")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    monkeypatch.undo()
    job = trainer.submit(entry, args=["second"], idempotency_key="once")
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED
    assert "ran second" in "".join(line.message for line in job.logs())


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_record_that_is_there_as_its_write_is_struck_goes_with_the_job(places, script, monkeypatch, error):
    write = FolderBoard._written

    def struck(board, record):
        write(board, record)
        raise error()

    trainer, entry = Trainer(places), script("pass")
    with monkeypatch.context() as patched:
        patched.setattr(FolderBoard, "_written", struck)
        with pytest.raises(error):
            trainer.submit(entry, args=["first"], idempotency_key="once")
    job = trainer.submit(entry, args=["second"], idempotency_key="once")
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), SystemExit(3)], ids=["a disk", "an end"])
def test_a_job_that_was_started_ends_with_the_create_that_fails(places, script, monkeypatch, error):
    failing(monkeypatch, error)
    refs = []
    monkeypatch.setattr(start, "_take_back", seen(start._take_back, lambda: refs.extend(places[0].find())))
    with pytest.raises((SystemExit, PermissionDeniedError)):
        Trainer(places[:1]).submit(script(WAIT), idempotency_key="once")
    assert names_in(*places) == []
    assert refs
    none_left(refs[0])


def seen(act, look):
    def acts(*words):
        look()
        return act(*words)

    return acts


def test_a_job_that_cannot_be_taken_back_is_taken_up_and_no_other_place_is_asked(places, script, monkeypatch):
    failing(monkeypatch, OSError(errno.EIO, "broken"))

    def refused(*_words):
        raise PermissionError(errno.EACCES, "not now")

    monkeypatch.setattr(start, "_set_aside", refused)
    job = Trainer(places).submit(script("pass"), idempotency_key="once")
    assert job.ref.backend == "local"
    assert job.wait(timeout=60) is State.SUCCEEDED
    assert names_in(*places) == [job.id]


def test_a_ctrl_c_whose_folder_python_cannot_close_in_order_is_a_ctrl_c(tmp_path, monkeypatch):
    """As `shutil.rmtree` of Python 3.11, which then closes a file for the second time."""

    def removed(_path, **_):
        try:
            raise KeyboardInterrupt
        finally:
            os.close(1 << 20)

    monkeypatch.setattr(shutil, "rmtree", removed)
    with pytest.raises(KeyboardInterrupt):
        remains.remove(str(tmp_path))
    with pytest.raises(KeyboardInterrupt), explained("jobs"):
        removed("jobs")


def test_a_lock_that_a_ctrl_c_falls_into_is_open(tmp_path, monkeypatch):
    act, hold = fcntl.flock, Hold()

    def pressed(*words):
        act(*words)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", pressed)
        with pytest.raises(KeyboardInterrupt):
            hold.take(str(tmp_path))
    assert hold.lock is None
    assert not folder.is_held(str(tmp_path))


def test_a_lock_that_a_ctrl_c_falls_into_as_it_is_let_go_of_is_closed_once(tmp_path, monkeypatch):
    close, hold = os.close, Hold()
    assert hold.take(str(tmp_path))

    def pressed(number):
        close(number)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", pressed)
        with pytest.raises(KeyboardInterrupt):
            hold.close()
        hold.close()


def test_who_forks_as_a_lock_is_taken_has_none_of_it(tmp_path, monkeypatch):
    is_open, take = threading.Event(), folder.take

    def slowly(path):
        lock = take(path)
        is_open.set()
        time.sleep(0.3)
        return lock

    monkeypatch.setattr(folder, "take", slowly)
    hold = Hold()
    taking = threading.Thread(target=hold.take, args=(str(tmp_path),))
    taking.start()
    assert is_open.wait(60)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    taking.join()
    assert folder.is_held(str(tmp_path))
    hold.close()
    until = time.monotonic() + 60
    try:
        while folder.is_held(str(tmp_path)):  # the child may not have come to it yet
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)


def test_a_start_takes_no_lock_that_a_ctrl_c_may_leave_shut(tmp_path, script, monkeypatch):
    class Shut(subprocess.Popen):
        def __init__(self, *words, **how):
            super().__init__(*words, **how)
            self._waitpid_lock.acquire()

    monkeypatch.setattr(subprocess, "Popen", Shut)
    monkeypatch.setattr(start, "_PATIENCE_S", 20.0)
    job = Trainer(Local(gpus=0, root=tmp_path / "jobs")).submit(script("pass"))
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED


@pytest.mark.parametrize("second", [False, True], ids=["once", "twice"])
def test_a_supervisor_whose_start_is_struck_is_ended_and_reaped(tmp_path, script, monkeypatch, second):
    pause, made, others = time.sleep, [], {*find_children()}
    struck = [KeyboardInterrupt()] * (1 + second)

    def pressed(seconds):
        made.extend(find_children())
        if struck:
            raise struck.pop()
        pause(seconds)

    monkeypatch.setattr(start, "time", SimpleNamespace(sleep=pressed, monotonic=time.monotonic))
    with pytest.raises(KeyboardInterrupt, match=r"withdrawn|may be there"):
        Trainer(Local(gpus=0, root=tmp_path / "jobs")).submit(script(WAIT))
    assert made
    until = time.monotonic() + 60
    while living := {*made} & {*find_children()} - others:
        assert time.monotonic() < until, living
        time.sleep(0.02)


def find_children():
    return host.children_of(os.getpid())


def test_a_process_that_is_forked_as_others_are_started_holds_up_no_submit(tmp_path, script):
    """It would have a copy of the pipe that tells Python whether what it starts could be started."""
    trainer, entry, children, made = Trainer(Local(gpus=0, root=tmp_path / "jobs")), script("pass"), [], []
    threads = [
        threading.Thread(target=lambda: made.append(trainer.submit(entry)), daemon=True) for _ in range(4)
    ]
    for one in threads:
        one.start()
    while any(one.is_alive() for one in threads) and len(children) < 200:
        child = os.fork()
        if not child:
            time.sleep(120)
            os._exit(0)
        children.append(child)
        time.sleep(0.005)
    try:
        for one in threads:
            one.join(60)
        assert len(made) == len(threads)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert all(job.wait(timeout=60, progress="none") is State.SUCCEEDED for job in made)


def test_what_still_runs_when_it_is_withdrawn_is_told_as_one_that_may_be_there(tmp_path, script, monkeypatch):
    begin, stopped = start._start_supervisor, set()

    def struck(path, lock):
        begin(path, lock)
        (ref,) = local.find()
        stopped.update(stop_all(ref))
        raise KeyboardInterrupt

    local = Local(gpus=0, root=tmp_path / "jobs")
    monkeypatch.setattr(start, "_start_supervisor", struck)
    with pytest.raises(KeyboardInterrupt, match="may be there"):
        Trainer(local).submit(script(WAIT), idempotency_key="once")
    assert stopped
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    job = Trainer(local).submit(script("pass"), idempotency_key="once")
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED


def test_a_ctrl_c_takes_back_nothing_that_another_submit_was_told_of(tmp_path, script, monkeypatch):
    begin, told, entry = start._start_supervisor, [], script("pass")

    def struck(path, lock):
        begin(path, lock)
        told.append(Trainer(Local(gpus=0, root=tmp_path / "jobs")).submit(entry, idempotency_key="once"))
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "_start_supervisor", struck)
    with pytest.raises(KeyboardInterrupt, match="may be there"):
        Trainer(Local(gpus=0, root=tmp_path / "jobs")).submit(entry, idempotency_key="once")
    (job,) = told
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED


def test_what_was_asked_of_a_folder_of_another_machine_is_no_job_of_this_one(tmp_path, script):
    """Where records lie in a bucket both machines read them; each has its jobs at the same path."""
    here, there = Local(gpus=0, root=tmp_path / "here"), Local(gpus=0, root=tmp_path / "there")
    job = Trainer(there).submit(script("pass"), idempotency_key="once")
    record = there.recorder().board.read(job.id)
    assert there.recorder().there(record) is not None
    with pytest.raises(RequestError, match="another folder"):
        here.recorder().there(record)
    assert here.recorder().there(attrs.evolve(record, settings={})) is None  # of a release that told none
    job.wait(timeout=60, progress="none")


IGNORES = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from gputrain.backends.local import Local, start
from gputrain.trainer import Trainer
if len(sys.argv) > 3:
    start._SUPERVISOR = sys.argv[3]
print(Trainer(Local(gpus=0, root=sys.argv[1])).submit(sys.argv[2]).wait(timeout=30, progress="none").value)
"""
"""A client that does not want to hear of its children's ends, as servers do."""


def test_a_job_of_a_client_that_ignores_its_children_s_ends_comes_to_its_own(tmp_path, script):
    words = [sys.executable, "-c", IGNORES, str(tmp_path / "jobs"), script("print('done')")]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.stdout.strip() == State.SUCCEEDED.value, done.stderr


def test_such_a_client_is_told_of_a_supervisor_that_does_not_start(tmp_path, script):
    broken = "import sys; sys.exit('it is broken')"
    words = [sys.executable, "-c", IGNORES, str(tmp_path / "jobs"), script("print('done')"), broken]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode
    assert ProviderError.__name__ in done.stderr
    assert "it is broken" in done.stderr
