"""A Ctrl-C in a public call on this machine, told or not: it is raised, and says what goes on."""

import threading
import time

import pytest

from gputrain.backends.local import Local
from gputrain.experiments import experiment
from gputrain.job import Job
from gputrain.lifecycle import State
from gputrain.threads import Aside, begin
from gputrain.trainer import Trainer
from gputrain.trainer.climb import Climb
from gputrain.trainer.jobs import Roll
from gputrain.trainer.road import Road
from tests.struck import press, press_untold
from tests.unit.local.test_local_faults import WAIT

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


def test_a_map_that_was_told_nobody_of_one_asks_for_nothing(trainer, script, strike):
    strike(Road, "plan", press_untold)
    with pytest.raises(KeyboardInterrupt):
        trainer.map(script(WAIT), [{"a": 1}], name="mapped")
    assert trainer.jobs() == []
