import pickle

import pytest

import gputrain
from gputrain import JobFailedError, Local, NoFitError, Plan, SpecError, State, Trainer, TrainingSpec
from gputrain.spec.entry import make_job_id, make_spec
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


def greet():
    """A function entry."""
    print("hello from a function")


def messages(job, **which):
    return [line.message for line in job.logs(**which) if not line.message.startswith("GPUTRAIN_")]


def test_a_script_runs_on_every_rank(trainer, hello):
    job = trainer.submit(hello, num_nodes=2, nproc_per_node=2, args=["a b", "$(x)"])
    assert job.wait(timeout=60) is State.SUCCEEDED
    assert sorted(messages(job)) == [f"rank {rank} of 4 a b $(x)" for rank in range(4)]
    assert messages(job, rank=3) == ["rank 3 of 4 a b $(x)"]


def test_run_returns_the_result(trainer, hello):
    result = trainer.run(hello, nproc_per_node=2)
    assert result.state is State.SUCCEEDED
    assert result.cost_usd == 0


def test_a_function_runs(trainer):
    job = trainer.submit(greet)
    job.wait(timeout=60)
    assert messages(job) == ["hello from a function"]


def test_a_command_runs_as_it_is(trainer):
    job = trainer.submit(["/bin/echo", "one arg", "$HOME"])
    job.wait(timeout=60)
    assert messages(job) == ["one arg $HOME"]


def test_a_job_is_taken_up_by_its_name(trainer, hello):
    uri = trainer.submit(hello).uri
    job = gputrain.attach(uri)
    assert job.wait(timeout=60) is State.SUCCEEDED
    assert trainer.attach(uri).state is State.SUCCEEDED


def test_the_same_key_gives_the_same_job(trainer, hello):
    first = trainer.submit(hello, idempotency_key="run 7")
    assert trainer.submit(hello, idempotency_key="run 7").uri == first.uri
    assert trainer.submit(hello, idempotency_key="run 8").uri != first.uri


def test_jobs_are_listed_newest_first_and_by_name(trainer, hello):
    one = trainer.submit(hello, name="alpha")
    two = trainer.submit(hello, name="beta")
    assert [job.uri for job in trainer.jobs()] == [two.uri, one.uri]
    assert [job.uri for job in trainer.jobs(name="alpha")] == [one.uri]
    assert "alpha" in str(trainer.jobs().table)


def test_a_rank_that_raises_gives_its_own_traceback(trainer, tmp_path):
    script = tmp_path / "bad.py"
    script.write_text("import os\nif os.environ['RANK'] == '1':\n    raise ValueError('shard 1')\n")
    with pytest.raises(JobFailedError, match="ValueError: shard 1") as caught:
        trainer.run(str(script), nproc_per_node=2)
    assert (caught.value.kind, caught.value.rank) == ("exception", 1)


def test_a_missing_script_is_refused_and_nothing_is_made(trainer, tmp_path):
    with pytest.raises(SpecError, match="script"):
        trainer.submit(str(tmp_path / "none.py"))
    assert trainer.jobs() == []


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


def test_a_job_that_is_not_there_is_lost(trainer, hello):
    uri = trainer.submit(hello).uri
    with pytest.raises(gputrain.JobLostError):
        gputrain.attach(uri + "x")


def test_a_trainer_takes_each_kind_of_backend_once():
    with pytest.raises(SpecError, match="each kind once"):
        Trainer([Local(), Local()])
    with pytest.raises(SpecError):
        Trainer([])


def test_a_plan_shows_the_request_without_sending_it(trainer, hello):
    plan = trainer.plan(hello, nproc_per_node=2)
    assert plan.requests
    assert trainer.jobs() == []


@each("name", ["spec", "candidates", "refusals", "best", "warnings", "table"])
def test_a_planned_job_shows_what_its_plan_does(trainer, hello, name):
    planned = trainer.plan(hello)
    assert getattr(planned, name) == getattr(planned.plan, name)


def test_a_planned_job_travels_as_its_plan(trainer, hello):
    planned = trainer.plan(hello, nproc_per_node=2)
    copy = pickle.loads(pickle.dumps(planned))
    assert (type(copy), copy) == (Plan, planned.plan)


def test_a_plan_is_submitted_once_however_often_and_under_a_key_as_any_submit(trainer, hello):
    planned = trainer.plan(hello, nproc_per_node=1)
    assert planned.submit().uri == planned.submit().uri
    keyed = planned.submit(idempotency_key="monday")
    assert keyed.uri == trainer.submit(hello, nproc_per_node=1, idempotency_key="monday").uri
    for job in trainer.jobs():
        job.wait(timeout=60)
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


def test_an_entry_is_read_by_its_kind():
    assert make_spec("t.py", {}).script == "t.py"
    assert make_spec(["a", "b"], {}).command == ("a", "b")
    assert make_spec(greet, {}).function is greet
    assert make_spec(TrainingSpec(script="t.py"), {"num_nodes": 2}).num_nodes == 2
