"""Public calls read their arguments before anything is made; a wrong name is Python's TypeError."""

import threading

import pytest

import gputrain
from gputrain import Local, SpecError, State, Trainer
from tests.each import each

ODD = (3, "x", threading.Event, [print])


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("pass\n")
    return str(path)


@pytest.fixture
def local(tmp_path):
    return Local(gpus=0, root=tmp_path / "jobs")


@pytest.fixture
def trainer(local):
    return Trainer(local)


def refused(call, field, *words, **given):
    with pytest.raises(SpecError) as caught:
        call(*words, **given)
    assert field in [one.field for one in caught.value.faults]


@each(
    ("field", "value"),
    [
        *(("stop", value) for value in ODD),
        *(("on_change", value) for value in (3, "x", [print])),
        *(("idempotency_key", value) for value in (3, True, b"x", ["a"], "", " \n")),
    ],
)
def test_a_submit_refuses_what_it_cannot_use_and_makes_nothing(trainer, script, field, value):
    refused(trainer.submit, field, script, **{field: value})
    if field != "on_change":
        refused(trainer.plan(script).submit, field, **{field: value})
    assert trainer.jobs() == []


def test_calls_that_choose_jobs_refuse_what_chooses_none(trainer, local, script):
    job = trainer.submit(script)
    for value in (3, b"x", None, ["a"]):
        refused(trainer.jobs, "name", name=value)
    for value in ([], 0, {3: 3}, {"team": 3}):
        refused(trainer.jobs, "labels", labels=value)
    for value in (Local, "local", 3):
        refused(gputrain.attach, "backend", job.uri, backend=value)
    for value in (3, ["x"], "x"):
        refused(trainer.clean_up, "only", value)
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED


@each("value", [3, "loud", ["rich"]])
def test_a_run_that_cannot_be_shown_makes_no_job(trainer, script, value, monkeypatch):
    refused(trainer.run, "progress", script, progress=value)
    monkeypatch.setenv("GPUTRAIN_PROGRESS", "loud")
    refused(trainer.run, "progress", script)
    assert trainer.jobs() == []
