"""Every other example runs, as it is."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import requests

import gputrain_emulator
from gputrain import Local, State, Trainer
from tests import present

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
RUN_ELSEWHERE = {
    "char_model.py": "a module of char_transformer.py",
    "char_transformer.py": "run by gputrain demo",
    "failing.py": "run by docs/reference/errors.md",
    "hydra_grid.py": "below",
    "failover_story.py": "run by `make test`",
    "log_to_mlflow.py": "below",
    "look_around.py": "run by first_real_run.py",
    "optuna_search.py": "below",
    "save_when_asked.py": "run by first_real_run.py",
    "tensorflow_style.py": "below",
    "train_plain_ddp.py": "below",
    "train_session.py": "below",
}
LONG = ("first_real_run.py", "vertex_spot.py")
"""Run by `make soak`; the first also in containers, by `make machines`."""
DRIVERS = [
    pytest.param(path, marks=pytest.mark.soak if path.name in LONG else (), id=path.name)
    for path in sorted(EXAMPLES.glob("*.py"))
    if path.name not in RUN_ELSEWHERE
]
SCRIPTS = {"train_plain_ddp.py": ["--epochs", "1"], "train_session.py": ["--steps", "5"]}
pytestmark = pytest.mark.timeout(900)  # ends what hangs; how long an example takes is the machine's affair


def python(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=800, check=False
    )


@pytest.mark.parametrize("path", DRIVERS)
def test_an_example_runs(path):
    done = python(path)
    assert done.returncode == 0, done.stderr


def test_the_demo_stops_and_resumes_with_the_same_losses():
    done = python("-m", "gputrain", "demo")
    assert done.returncode == 0, done.stderr
    assert "Largest difference between the two loss curves over 60 steps: 0" in done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs_on_two_nodes_of_two_ranks(name):
    trainer = Trainer(Local(gpus=0))
    job = trainer.submit(f"examples/{name}", args=SCRIPTS[name], num_nodes=2, nproc_per_node=2)
    assert job.wait() is State.SUCCEEDED


def test_optuna_asks_and_is_told():
    pytest.importorskip("optuna")
    done = python(EXAMPLES / "optuna_search.py")
    assert "best of 6" in done.stdout, done.stderr


def test_hydra_composes_what_is_mapped():
    pytest.importorskip("hydra")
    done = python(EXAMPLES / "hydra_grid.py", "lr=0.1,0.03", "steps=5")
    assert "2 points: 2 succeeded" in done.stdout, done.stderr


def test_each_job_is_logged_to_mlflow_once():
    pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    done = python(EXAMPLES / "log_to_mlflow.py")
    assert "4 runs; best: lr=" in done.stdout, done.stderr


def test_the_first_real_run_makes_nothing_where_the_preflight_finds_a_fault(monkeypatch, capsys):
    monkeypatch.setattr(
        requests.Session, "send", requests.Session.send
    )  # put back afterwards: the example records there
    run = runpy.run_path(str(EXAMPLES / "first_real_run.py"))["run"]
    with gputrain_emulator.start() as cloud:
        reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
        there = present.backend("compute")(
            "my-project", regions=["us-central1"], bucket="gs://not-there", **reach
        )
        assert not run(Trainer(there), None)
        assert not cloud.compute.vms
    assert "gcloud storage buckets create gs://not-there" in capsys.readouterr().out


def test_a_command_in_the_manner_of_tensorflow_reads_tf_config():
    job = Trainer(Local(gpus=0)).submit("examples/tensorflow_style.py", launcher="tensorflow", num_nodes=2)
    job.result()
    assert any("worker" in line.message for line in job.logs())
