import pickle

import pytest

import gputrain
from gputrain import Local, NoFitError, RequestError, SpecError, State, Trainer, TrainingSpec
from gputrain.spec.entry import make_job_id
from tests.each import each

HELLO = """
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], *sys.argv[1:])
"""


@pytest.fixture
def hello(tmp_path):
    script = tmp_path / "hello.py"
    script.write_text(HELLO)
    return str(script)


@pytest.fixture
def trainer():
    return Trainer(Local(gpus=0))


def test_run_returns_the_result(trainer, hello):
    result = trainer.run(hello, nproc_per_node=2)
    assert result.state is State.SUCCEEDED
    assert result.cost_usd == 0


def test_a_gpu_this_machine_has_not_is_refused_and_nothing_is_made(trainer, hello):
    with pytest.raises(NoFitError, match="H100"):
        trainer.submit(hello, gpu="H100:2")
    assert trainer.jobs() == []


def test_two_entries_at_once_are_refused(trainer):
    with pytest.raises(SpecError, match="two entries"):
        trainer.submit("a.py", module="b")


@each(
    "uri",
    [
        "", "bert", "gputrain://local//x", "gputrain://azure/p/z/n", "http://a/b/c/d", "gputrain:///n",
        "gputrain://local/", "gputrain://local/p//n", "gputrain://local/p/z/", "gputrain:///p/z/n",
    ],
)  # fmt: skip
def test_a_name_that_is_none_is_refused(uri):
    with pytest.raises(SpecError):
        gputrain.attach(uri)


def test_a_trainer_takes_each_kind_of_backend_once():
    with pytest.raises(SpecError, match="each kind once"):
        Trainer([Local(), Local()])
    with pytest.raises(SpecError):
        Trainer([])


def test_a_plan_is_submitted_once_however_often_and_under_a_key_as_any_submit(trainer, hello):
    planned = trainer.plan(hello, nproc_per_node=1)
    assert planned.submit().uri == planned.submit().uri
    copy = pickle.loads(pickle.dumps(planned))
    assert str(copy) == str(planned)
    with pytest.raises(RequestError, match="plan again"):
        copy.submit()
    keyed = planned.submit(idempotency_key="monday")
    assert keyed.uri == trainer.submit(hello, nproc_per_node=1, idempotency_key="monday").uri
    for job in trainer.jobs():
        job.wait()
    assert len(trainer.jobs()) == 2


@pytest.mark.parametrize(
    ("fields", "stem"),
    [
        ({"script": "a/My Train.py"}, "my-train"),
        ({"module": "pkg.train"}, "m-pkg-train"),
        ({"command": ["./9"]}, "job-9"),
        ({"script": "t.py", "name": "bert"}, "bert"),
    ],
)
def test_a_job_id_is_fit_to_name_an_instance(fields, stem):
    job_id = make_job_id(TrainingSpec(**fields), None)
    assert job_id.rpartition("-")[0] == stem
    assert len(make_job_id(TrainingSpec(script="x" * 200 + ".py"), "key") + "-99") <= 63
