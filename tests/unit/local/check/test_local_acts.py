"""A Ctrl-C in a public call on this machine, told or not: it is raised, and says what goes on."""

import threading
import time

import pytest

from gputrain.backends.local import Local
from gputrain.errors import StoppedError
from gputrain.experiments import experiment
from gputrain.experiments.driver import Driver
from gputrain.experiments.experiment import Experiment
from gputrain.job import Job
from gputrain.lifecycle import State
from gputrain.threads import Aside, begin
from gputrain.trainer import Trainer
from gputrain.trainer.climb import Climb
from gputrain.trainer.jobs import Roll
from gputrain.trainer.road import Road
from tests.struck import press, press_untold
from tests.unit.local.check.test_local_faults import WAIT

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def trainer(tmp_path):
    made = Trainer(Local(gpus=0, root=tmp_path / "jobs"))
    yield made
    for job in made.jobs():
        job.cancel()
        job.wait(timeout=60, progress="none")


@pytest.fixture
def strike(monkeypatch):
    """Has a method be struck once, in the main thread, as it returns."""

    def have(kind, name, blow):
        act, struck = getattr(kind, name), []

        def acts(*words, **named):
            found = act(*words, **named)
            if not struck and threading.current_thread() is threading.main_thread():
                struck.append(True)
                blow()
            return found

        monkeypatch.setattr(kind, name, acts)

    return have


@pytest.mark.parametrize("blow", [press, press_untold], ids=["told", "untold"])
@pytest.mark.parametrize(
    ("kind", "name"), [(Roll, "add"), (Job, "watch"), (Road, "_job")], ids=["all jobs", "this one", "made"]
)
def test_a_submit_that_has_made_its_job_says_how_to_take_it_up(trainer, script, strike, kind, name, blow):
    roll = trainer.watch(lambda _: None)
    strike(kind, name, blow)
    with pytest.raises(KeyboardInterrupt, match=r"goes on: gputrain.attach\('gputrain://local/") as caught:
        trainer.submit(script(WAIT), on_change=lambda _: None)
    roll.close()
    assert not trainer.attach(str(caught.value).split("'")[1]).state.is_terminal


@pytest.mark.parametrize(
    ("kind", "name"), [(Climb, "_note"), (Road, "_job"), (Road, "submit"), (Trainer, "_asked")]
)
def test_a_run_waits_for_no_job_after_one_that_was_told_nobody(trainer, script, strike, kind, name):
    strike(kind, name, press_untold)
    with pytest.raises(KeyboardInterrupt, match="goes on"):
        trainer.run(script(WAIT), progress="none")
    (job,) = trainer.jobs()
    assert job.state is not State.CANCELLED


def test_the_cancel_of_an_experiment_waits_for_no_thread(trainer, script, monkeypatch):
    mapped = trainer.map(script("pass"), [{"a": 1}], name="mapped")
    mapped.wait(timeout=60)
    mark = experiment.cancel

    def marked(*words):
        press_untold()
        return mark(*words)

    monkeypatch.setattr(experiment, "cancel", marked)
    over = threading.Event()
    mapped._driver._thread = Aside(target=over.wait)
    begin(mapped._driver._thread)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        mapped.cancel()
    over.set()
    assert time.monotonic() - began < 30.0


@pytest.mark.parametrize(
    ("kind", "name"), [(Road, "plan"), (Road, "listed"), (Experiment, "__init__"), (Driver, "__init__")]
)
def test_a_map_that_was_told_nobody_of_one_asks_for_nothing(trainer, script, strike, kind, name):
    strike(kind, name, press_untold)
    with pytest.raises(KeyboardInterrupt):
        trainer.map(script(WAIT), [{"a": 1}], name="mapped")
    time.sleep(0.5)
    assert trainer.jobs() == []


@pytest.mark.parametrize("blow", [press, press_untold], ids=["told", "untold"])
@pytest.mark.parametrize("name", ["_start", "begin"])
def test_a_map_that_has_begun_to_submit_ends_with_it(trainer, script, strike, monkeypatch, name, blow):
    may_go_on, submit = threading.Event(), Experiment._submitted

    def submitted(*words):
        assert may_go_on.wait(60)
        return submit(*words)

    monkeypatch.setattr(Experiment, "_submitted", submitted)
    strike(Driver, name, blow)
    with pytest.raises(KeyboardInterrupt, match=r"go on.*trainer.experiment\('mapped'\)"):
        trainer.map(script("pass"), [{"a": number} for number in range(3)], name="mapped", max_parallel=1)
    may_go_on.set()
    time.sleep(0.5)
    assert len(trainer.jobs()) <= 1
    assert len(trainer.experiment("mapped").wait(timeout=60).jobs) == 3


def test_a_retry_that_a_ctrl_c_falls_into_submits_nothing_more_here(trainer, script, strike):
    mapped = trainer.map(script("raise SystemExit(3)"), [{"a": 1}], name="mapped").wait(timeout=60)
    strike(Driver, "_start", press)
    with pytest.raises(KeyboardInterrupt, match="go on"):
        mapped.retry_failed()
    with pytest.raises(StoppedError):
        mapped.wait(timeout=60)


def test_a_wait_for_an_experiment_whose_time_is_over_says_what_was_pressed(trainer, script, monkeypatch):
    mapped = trainer.map(script(WAIT), [{"a": 1}], name="mapped")
    monkeypatch.setattr(experiment, "sleep", lambda _seconds: press_untold())
    with pytest.raises(KeyboardInterrupt, match="stopped watching"):
        mapped.wait(timeout=0.0)
    mapped.cancel()  # whose job may be made just now, and unknown to who clears up


def test_a_withdrawal_in_which_it_is_pressed_again_says_where_the_job_may_be(trainer, script, strike):
    strike(Local, "create", press)
    strike(Climb, "_withdraw", press)
    with pytest.raises(
        KeyboardInterrupt, match=r"may be there: end it with gputrain.attach\('gputrain://local"
    ):
        trainer.submit(script(WAIT))
