"""A job is the same wherever somebody takes it up: in its own process, by its name, from a list, as JSON."""

import copy
import json
import os
import pickle
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest

import gputrain
from gputrain import ConflictError, Local, SpecError, State, Trainer
from gputrain.cli import main

FAILS = "import os\nif os.environ['RANK'] == '1': raise ValueError('of rank one')\n"


@pytest.fixture
def failed(script):
    trainer = Trainer(Local(gpus=0))
    job = trainer.submit(script(FAILS), name="bert", nproc_per_node=2, labels={"team": "nlp"})
    job.wait()
    return job


def told(job):
    """What a job says of itself, without what is told in more words where it was submitted."""
    document = job.to_dict()
    for one in document["attempts"]:
        assert one.pop("answer")
        assert abs(datetime.fromisoformat(one.pop("at")) - datetime.now(timezone.utc)) < timedelta(minutes=5)
    return document


def test_it_is_the_same_by_its_name_in_a_list_and_in_json(failed, capsys):
    main(["jobs", "--json", "--name", "bert"])
    (printed,) = json.loads(capsys.readouterr().out)["jobs"]
    (listed,) = Trainer(Local(gpus=0)).jobs(name="bert")
    document = failed.to_dict()
    assert document["name"] == "bert"
    assert document["id"].startswith("bert-")
    assert document["labels"] == {"team": "nlp"}
    assert document["spec"]["nproc_per_node"] == 2
    assert document["candidate"]["nproc_per_node"] == 2
    assert document["failure"]["rank"] == 1
    assert "of rank one" in document["failure"]["traceback"]
    assert document["cost_usd"] == 0
    assert document["created_at"] <= document["started_at"] <= document["ended_at"]
    assert [one["outcome"] for one in document["attempts"]] == ["accepted"]
    for other in (gputrain.attach(failed.uri), listed):
        assert told(other) == told(failed)
    assert {**printed, "attempts": []} == {**json.loads(json.dumps(document)), "attempts": []}


def test_it_equals_itself_and_travels_by_its_name(failed):
    other = gputrain.attach(failed.uri)
    assert other == failed
    assert len({other, failed}) == 1
    assert failed != Trainer(Local(gpus=0)).submit(["/bin/true"])
    for again in (pickle.loads(pickle.dumps(failed)), copy.copy(failed)):
        assert again == failed
        assert again.state is State.FAILED
        assert again.failure.rank == 1


def test_another_process_takes_up_a_pickled_job(failed, tmp_path):
    (tmp_path / "job").write_bytes(pickle.dumps(failed))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).wait().value)"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "job"], capture_output=True, text=True)
    assert done.stdout.strip() == "failed", done.stderr


def test_a_state_is_its_text():
    assert State.SUCCEEDED == "succeeded"
    assert f"{State.FAILED}" == str(State.FAILED) == "failed"
    assert json.dumps(State.RUNNING) == '"running"'


def test_jobs_are_found_by_state_labels_and_time(failed):
    trainer = Trainer(Local(gpus=0))
    other = trainer.submit(["/bin/true"], labels={"team": "vision", "kind": "test"})
    other.wait()
    assert trainer.jobs(state="failed") == trainer.jobs(state=State.FAILED) == [failed]
    assert trainer.jobs(state=["failed", "succeeded"], labels={"team": "vision"}) == [other]
    assert trainer.jobs(state=(one for one in ["failed"])) == [failed]
    assert trainer.jobs(labels={"team": "vision", "kind": "other"}) == []
    assert trainer.jobs(since=timedelta(hours=1)) == [other, failed]
    assert trainer.jobs(since=other.created_at) == [other]
    assert trainer.jobs(since=datetime.now(timezone.utc)) == []
    for wrong in ("done", 5, ["failed", "done"]):
        with pytest.raises(SpecError, match="one of 'queued', "):
            trainer.jobs(state=wrong)
    text = str(trainer.jobs().table)
    assert "started" in text
    assert "0.00" in text


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"nproc_per_node": 1}, "nproc_per_node"),
        ({"args": ["--lr", "3"]}, "args"),
        ({"env": {"TOKEN": "s3cret"}}, "env"),
        ({"max_restarts": 2}, "max_restarts"),
    ],
)
def test_one_key_with_another_spec_is_a_conflict_and_no_job(script, changes, field):
    trainer, path = Trainer(Local(gpus=0)), script("print('hello')")
    first = trainer.submit(path, idempotency_key="k", nproc_per_node=2)
    with pytest.raises(ConflictError, match=field) as caught:
        trainer.submit(path, idempotency_key="k", **{"nproc_per_node": 2, **changes})
    assert caught.value.differs == (field,)
    assert "s3cret" not in str(caught.value)
    assert trainer.jobs() == [first]
    assert trainer.submit(path, idempotency_key="k", nproc_per_node=2) == first
    first.wait()


def test_a_checkout_elsewhere_is_no_other_spec(tmp_path):
    trainer, found = Trainer(Local(gpus=0)), []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text("print(1)")
        found.append(trainer.submit(os.path.join(tmp_path, name, "train.py"), idempotency_key="k"))
    assert found[0] == found[1]
