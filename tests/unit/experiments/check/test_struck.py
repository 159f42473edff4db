"""What falls into an experiment as it is begun or begun again, and the forks of a process that has one."""

import os
import time

import pytest

import gputrain
from gputrain.errors import StoppedError
from gputrain.experiments.driver import Driver
from tests.unit.experiments.check.test_many_hands import until


class TooLong(TimeoutError):
    """What a handler of SIGALRM raises, as a rule."""


def rests(x):
    time.sleep(60)


def fails(x):
    raise ValueError(x)


def struck(monkeypatch, name, error, *, is_done):
    """Has a step of the driver be struck, once it is done or before."""
    act = getattr(Driver, name)

    def acts(driver, *words):
        if is_done:
            act(driver, *words)
        raise error

    monkeypatch.setattr(Driver, name, acts)


@pytest.mark.parametrize("error", [KeyboardInterrupt, TooLong, SystemExit])
def test_a_map_that_is_struck_submits_no_more_points(trainer, monkeypatch, error):
    with monkeypatch.context() as patched:
        struck(patched, "begin", error(), is_done=True)
        with pytest.raises(error):
            trainer.map(rests, gputrain.grid(x=range(9)), name="scan")
    before = len(trainer.jobs())
    time.sleep(1.0)
    assert before - 1 <= len(trainer.jobs()) - 1 <= before < 9  # the one that was under way, at most
    trainer.experiment("scan").cancel()


class StruckSet(set):
    """Is struck once it has lost something."""

    def difference_update(self, *others):
        super().difference_update(*others)
        raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["as it is written down", "before they are pending", "when they are"])
def test_a_retry_that_is_struck_leaves_nobody_waiting(trainer, monkeypatch, step):
    scan = trainer.map(fails, gputrain.grid(x=range(2)), name="scan")
    scan.wait(timeout=60)
    if step == "as it is written down":
        scan._over = StruckSet(scan._over)
    with monkeypatch.context() as patched:
        struck(patched, "again", KeyboardInterrupt(), is_done=step == "when they are")
        with pytest.raises(KeyboardInterrupt, match=r"no more points are submitted; .*trainer.experiment"):
            scan.retry_failed()
    with pytest.raises(StoppedError, match="closed here"):
        scan.wait(timeout=60)
    again = trainer.map(fails, gputrain.grid(x=range(2)), name="scan")
    again.wait(timeout=60)
    assert {job.state.value for job in again.jobs} == {"failed"}


def in_a_fork(act):
    """What a call comes to in a process that is forked, within 20 s."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            told = f"returned {act()}"
        except BaseException as error:  # noqa: BLE001  # told to the test
            told = f"{type(error).__name__}: {error}"
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        return told.read()


def test_a_fork_waits_for_nothing_that_its_parent_watches(trainer):
    scan = trainer.map(rests, gputrain.grid(x=range(2)), name="scan", max_parallel=1)
    until(lambda: scan.jobs)
    for act in (scan.wait, scan.results, scan.retry_failed):
        told = in_a_fork(act)
        assert "was forked from" in told
        assert "trainer.experiment('scan')" in told
    scan.cancel()


def test_a_fork_may_cancel_all_of_it(trainer):
    scan = trainer.map(rests, gputrain.grid(x=range(2)), name="scan", max_parallel=1)
    until(lambda: scan.jobs)
    assert in_a_fork(scan.cancel) == "returned None"
    scan.wait(timeout=60)
    assert {job.state.value for job in scan.jobs} == {"cancelled"}
