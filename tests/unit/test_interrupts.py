"""A Ctrl-C that Python tells nobody of is raised where somebody waits, and one that was told is not."""

import os
import signal
import sys
import threading
import time

import pytest

from gputrain.backends.local import Local
from gputrain.interrupts import heeding, minding, raise_untold
from gputrain.job import stopping
from gputrain.lifecycle import State
from gputrain.trainer import Trainer
from tests.unit.local.test_local_faults import WAIT

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def heard():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    os.kill(os.getpid(), signal.SIGINT)


def half_read():
    try:
        yield 1
        yield 2
    finally:
        press()


def pressed_unseen():
    """As Python closes a generator that `any` has left."""
    assert any(one for one in half_read())


def never(_seconds):
    raise AssertionError("it slept")


def test_the_next_wait_raises_what_was_told_nobody():
    sleep = minding(never)
    with heeding():
        pressed_unseen()
        with pytest.raises(KeyboardInterrupt):
            sleep(1.0)


def test_it_is_raised_once():
    with heeding():
        pressed_unseen()
        with pytest.raises(KeyboardInterrupt):
            raise_untold()
        minding(time.sleep)(0.0)


def test_one_that_was_told_is_not_raised_again():
    with heeding():
        with pytest.raises(KeyboardInterrupt):
            press()
        raise_untold()


def test_one_that_came_before_is_nothing_to_a_later_act():
    with heeding():
        pressed_unseen()
    raise_untold()
    with heeding():
        raise_untold()


def test_one_that_comes_afterwards_is_nothing_to_it_though_its_hook_is_called_still(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    with heeding():
        ours = sys.unraisablehook
        sys.unraisablehook = lambda told: ours(told)
    pressed_unseen()
    raise_untold()


def test_what_hears_of_lost_errors_hears_them_still_and_is_back_afterwards(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    before = sys.unraisablehook
    with heeding(), heeding():
        pressed_unseen()
    assert [one.exc_type for one in told] == [KeyboardInterrupt]
    assert sys.unraisablehook == before


def test_a_hook_that_came_meanwhile_stays(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    with heeding():
        sys.unraisablehook = print
    assert sys.unraisablehook is print


def test_another_thread_neither_hears_nor_is_told():
    before, met = sys.unraisablehook, []

    def act():
        with heeding():
            met.append(sys.unraisablehook)
            raise_untold()

    with heeding():
        ours = sys.unraisablehook
        pressed_unseen()
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()
        assert met == [ours]
        assert sys.unraisablehook == ours != before
        with pytest.raises(KeyboardInterrupt):
            raise_untold()


@pytest.mark.parametrize("progress", ["none", "plain"])
@pytest.mark.parametrize("stop", [None, threading.Event()], ids=["no stop", "stop"])
def test_a_wait_ends_by_one_that_falls_into_its_looks(tmp_path, monkeypatch, stop, progress):
    (tmp_path / "train.py").write_text(WAIT)
    job = Trainer(Local(gpus=0, root=tmp_path / "jobs")).submit(str(tmp_path / "train.py"))
    threading.Timer(0.3, monkeypatch.setattr, (time, "monotonic", once(time.monotonic))).start()
    with pytest.raises(KeyboardInterrupt, match="the job goes on"):
        job.wait(timeout=30, progress=progress, stop=stop)
    assert job.refresh().state is State.RUNNING
    job.cancel()


def once(do):
    """As that, and the first time that the main thread asks, a Ctrl-C comes that is told nobody."""
    asked = []

    def striking():
        if not asked and threading.current_thread() is threading.main_thread():
            asked.append(True)
            pressed_unseen()
        return do()

    return striking


def test_a_stop_is_waited_for_no_longer():
    with heeding():
        pressed_unseen()
        with pytest.raises(KeyboardInterrupt):
            stopping.is_stopped(threading.Event(), 30.0)
