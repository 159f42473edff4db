"""A Ctrl-C that Python tells nobody of is raised where somebody waits, and one that was told is not."""

import json
import os
import random
import signal
import sys
import threading
import time

import pytest

from gputrain.backends.local import Local, start, states
from gputrain.backends.local.order import creator
from gputrain.experiments import experiment
from gputrain.gcp.shared import Shared
from gputrain.interrupts import heeding, minding, raise_untold, sleep
from gputrain.job import stopping
from gputrain.keeper import folder
from gputrain.lifecycle import State
from gputrain.threads import Aside, await_end, side_by_side
from gputrain.trainer import Trainer
from tests.struck import press, press_untold
from tests.unit.local.check.test_local_faults import WAIT

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def never(_seconds):
    raise AssertionError("it slept")


@heeding
def doing(*steps):
    for step in steps:
        step()


def raises():
    with pytest.raises(KeyboardInterrupt):
        sleep(0.0)


def test_the_next_wait_raises_what_was_told_nobody():
    pause = minding(never)

    def raises_at_once():
        with pytest.raises(KeyboardInterrupt):
            pause(1.0)

    doing(press_untold, raises_at_once)


def test_it_is_raised_once():
    doing(press_untold, raises, lambda: sleep(0.0), lambda: minding(time.sleep)(0.0))


def test_one_that_was_told_is_not_raised_again():
    def told():
        with pytest.raises(KeyboardInterrupt):
            press()

    doing(told, raise_untold)


def test_one_that_came_before_is_nothing_to_a_later_act():
    doing(press_untold)
    raise_untold()
    doing(raise_untold)


@pytest.mark.parametrize("inner", [(), (raise_untold,), (press_untold,)], ids=["idle", "waits", "pressed"])
def test_an_act_within_another_forgets_nothing(inner):
    with pytest.raises(KeyboardInterrupt):
        doing(*([] if press_untold in inner else [press_untold]), lambda: doing(*inner), raise_untold)


def test_an_act_that_was_left_by_an_error_hears_nothing_any_more():
    with pytest.raises(ZeroDivisionError):
        doing(press_untold, lambda: 1 / 0)
    raise_untold()


def test_one_that_comes_afterwards_is_nothing_to_it_though_its_hook_is_called_still(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)

    def put_another_before():
        ours = sys.unraisablehook
        sys.unraisablehook = lambda told: ours(told)

    doing(put_another_before)
    press_untold()
    raise_untold()
    doing(raise_untold)


def test_what_hears_of_lost_errors_hears_them_still_and_is_back_afterwards(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    before = sys.unraisablehook
    doing(lambda: doing(press_untold))
    assert [one.exc_type for one in told] == [KeyboardInterrupt]
    assert sys.unraisablehook == before


@pytest.mark.parametrize("hook", ["none", "deleted"])
def test_a_process_without_such_a_hook_has_acts_too(monkeypatch, capsys, hook):
    monkeypatch.setattr(sys, "unraisablehook", None)
    if hook == "deleted":
        monkeypatch.delattr(sys, "unraisablehook")
    doing(press_untold, raises)
    assert "KeyboardInterrupt" in capsys.readouterr().err


def test_a_hook_that_came_meanwhile_stays(monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    doing(lambda: setattr(sys, "unraisablehook", print))
    assert sys.unraisablehook is print


def test_ours_put_back_by_others_act_by_act_is_no_chain_that_grows(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    saved = []

    def put_theirs():
        saved.append(sys.unraisablehook)
        sys.unraisablehook = print

    for _ in range(2 * sys.getrecursionlimit()):
        doing(put_theirs)
        sys.unraisablehook = saved.pop()
    doing(press_untold, raises)
    assert len(told) == 1
    assert sys.unraisablehook == told.append


def test_one_that_falls_where_another_loss_is_told_is_raised(monkeypatch):
    class Lost:
        def __del__(self):
            raise ValueError

    monkeypatch.setattr(sys, "unraisablehook", lambda _told: press())
    doing(Lost, raises)


def test_a_hook_that_puts_itself_before_ours_is_led_in_no_circle(monkeypatch):
    told, before = [], []
    monkeypatch.setattr(sys, "unraisablehook", None)

    def first(one):
        told.append(one.exc_type)
        before[-1](one)

    def be_first():
        if sys.unraisablehook != first:
            before.append(sys.unraisablehook or sys.__unraisablehook__)
            sys.unraisablehook = first

    be_first()
    doing(be_first, press_untold, raises)
    assert told == [KeyboardInterrupt, KeyboardInterrupt]  # once by us, who were told by it


def test_whoever_was_there_is_told_of_what_two_threads_lose_at_once(monkeypatch):
    told, both = [], threading.Barrier(2, timeout=60)

    class Lost:
        def __del__(self):
            raise ValueError

    def hear(one):
        both.wait()
        told.append(one.exc_type)

    monkeypatch.setattr(sys, "unraisablehook", hear)
    doing(lambda: side_by_side(lambda _: Lost() and None, range(2)))
    assert told == [ValueError, ValueError]


def test_another_thread_neither_hears_nor_is_told():
    before, met = sys.unraisablehook, []

    def beside():
        thread = threading.Thread(target=doing, args=(lambda: met.append(sys.unraisablehook), raise_untold))
        thread.start()
        thread.join()

    def act():
        ours = sys.unraisablehook
        press_untold()
        beside()
        assert met == [ours]
        assert sys.unraisablehook == ours != before
        raises()

    doing(act)
    assert sys.unraisablehook == before


def test_what_another_thread_has_lost_is_no_ctrl_c():
    """As by an executor that ends its threads so."""

    class Raises:
        def __del__(self):
            raise KeyboardInterrupt

    def act():
        thread = threading.Thread(target=Raises)
        thread.start()
        thread.join()
        raise_untold()

    doing(act)


def test_a_fork_in_the_midst_of_an_act_is_not_interrupted():
    def act():
        press_untold()
        child = os.fork()
        if not child:
            try:
                raise_untold()
            except BaseException:  # noqa: BLE001  # told by how it ends
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        raises()

    doing(act)


def test_a_ctrl_c_in_an_act_s_begin_or_end_leaves_nothing(monkeypatch):
    """Whenever it falls: what comes afterwards is nothing to anything, and the hook is back."""
    told, presses = [], 0
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        while presses < 500:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-6, 2e-4))
                for _ in range(1000):
                    doing()
            except KeyboardInterrupt:
                presses += 1
            press_untold()
            raise_untold()
            doing(raise_untold)
            assert sys.unraisablehook == told.append
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
            press_untold()
        return do()

    return striking


def test_a_loop_of_short_waits_ends(tmp_path):
    (tmp_path / "train.py").write_text(WAIT)
    job = Trainer(Local(gpus=0, root=tmp_path / "jobs")).submit(str(tmp_path / "train.py"))

    def look(_event):
        time.sleep(0.05)
        press_untold()

    with pytest.raises(KeyboardInterrupt, match="the job goes on"):
        job.wait(timeout=0.01, on_change=look)
    job.cancel()


def test_an_experiment_s_wait_ends(tmp_path, monkeypatch):
    trainer = Trainer(Local(gpus=0, root=tmp_path / "jobs"))
    mapped = trainer.map(["true"], [{"a": 1}], name="mapped")
    mapped.wait(timeout=60)
    monkeypatch.setattr(experiment, "watched", lambda *_: Ticks())
    with pytest.raises(KeyboardInterrupt):
        mapped.wait(timeout=60)


class Ticks:
    def tick(self, at_once=False):
        if at_once:
            press_untold()

    def close(self):
        pass


def test_a_stop_is_waited_for_no_longer():
    with pytest.raises(KeyboardInterrupt):
        doing(press_untold, lambda: stopping.is_stopped(threading.Event(), 30.0))


WAITS = {
    "threads side by side": lambda: side_by_side(lambda _: time.sleep(5.0), "ab"),
    "a thread's end": lambda: await_end(Aside(target=print)),
    "what another thread asks": lambda: Shared(fresh_s=1.0, wait_s=5.0).ask({"it": lambda: time.sleep(5.0)}),
    "a job that another process starts": lambda: start.await_start("job"),
    "a withdrawn job's end": lambda: start.withdraw("jobs", "job"),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_all_that_waits_waits_no_longer(monkeypatch, tmp_path, wait):
    (tmp_path / "jobs" / "job").mkdir(parents=True)
    (tmp_path / "jobs" / "job" / folder.ORDER).write_text(json.dumps({"creator": creator()}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(states, "is_starting", lambda _path: True)
    monkeypatch.setattr(folder, "is_held", lambda _path: True)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        doing(press_untold, wait)
    assert time.monotonic() - began < 0.9


def test_a_listener_s_own_kind_of_ctrl_c_comes_through_as_it_is(tmp_path):
    class Pressed(KeyboardInterrupt):
        def __init__(self, one, other):
            super().__init__(one, other)

    def press_own(_event):
        raise Pressed("one", "other")

    job = Trainer(Local(gpus=0, root=tmp_path / "jobs")).submit(["true"])
    with pytest.raises(Pressed, match="other"):
        job.wait(timeout=30, on_change=press_own)
