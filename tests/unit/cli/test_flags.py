"""Every flag of a command does what it says: what it changes is read from what the command did."""

import json

import attrs
import pytest

from gputrain import Trainer, TrainingSpec
from gputrain_emulator.builds import Builds, Settings

BASE = "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest"
SPEAKS = """
import os
print('GPUTRAIN_METRIC {"step": 1, "loss": 0.5}')
print("first of", os.environ["RANK"])
print("last of", os.environ["RANK"], flush=True)
"""
TOMORROW = "2999-01-01"

SAID = {
    "gpu": ["L4:2", "L4:1"],
    "num_nodes": 2,
    "nproc_per_node": 2,
    "provisioning_model": ["spot", "standard"],
    "machine_type": "g2-standard-24",
    "image": "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310@sha256:" + "0" * 64,
    "env": {"COLOUR": "blue"},
    "secrets": {"KEY": "secret://projects/p/secrets/s/versions/1"},
    "labels": {"team": "nlp"},
    "source_dir": "code",
    "requirements": ["einops==0.8.0"],
    "checkpoint_dir": "gs://my-bucket/ckpt",
    "output_dir": "gs://my-bucket/out",
    "keep_outputs": True,
    "max_run_duration": "61m",
    "max_wait_duration": "62m",
    "hang_timeout": "63m",
    "max_cost": 99.0,
    "price_per_hour": 9.0,
    "max_restarts": 3,
    "min_nodes": 1,
    "name": "bert",
    "launcher": "tensorflow",
}


def typed(fields):
    for name, value in fields.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            yield flag
            continue
        pairs = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else None
        for one in pairs or (value if isinstance(value, list) else [value]):
            yield from (flag, str(one))


def test_every_flag_of_a_spec_is_in_the_spec_of_the_job(cloud, read, folder, settings):
    words = {"script", "module", "command", "entrypoint", "args", "function", "reservation"}
    assert {field.name for field in attrs.fields(TrainingSpec)} == {*SAID, *words}
    for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
        cloud.quota(metric, 100)
    (folder / "gputrain.toml").write_text("[compute]\nexternal_ip = true\n")
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text("print('hello')\n")
    status, document = read("submit", "train.py", "--detach", *typed(SAID), "--", "--lr", "3e-4")
    assert status == 0, document
    job = Trainer(settings().make()).attach(document["uri"])
    asked = TrainingSpec(script="train.py", args=["--lr", "3e-4"], **SAID)
    assert job.spec.replace(source_dir="code") == asked


def test_a_reservation_is_the_one_that_a_flag_names(cloud, read, script):
    document = read("plan", script(), "--gpu", "L4:1", "--reservation", "mine")[1]
    assert "reservation mine does not exist" in json.dumps(document)


@pytest.fixture
def ended(read, script):
    """The ids of two jobs of this machine: "one" of two ranks, "two" that failed."""
    script(SPEAKS)
    one = read("submit", "train.py", "--name", "one", "--nproc-per-node", "2")[1]["id"]
    return one, read("submit", "--name", "two", "--", "false")[1]["id"]


def test_the_flags_of_logs_jobs_and_metrics_choose_what_is_shown(ended, run, read):
    one, two = ended
    lines = {
        ("--rank", "1"): ["[1] first of 1", "[1] last of 1"],
        ("--rank", "0", "--tail", "1"): ["[0] last of 0"],
        ("--rank", "0", "--grep", "^first"): ["[0] first of 0"],
        ("--since", TOMORROW): [],
    }
    assert {words: run("logs", one, *words)[1].splitlines() for words in lines} == lines
    assert run("logs", one, "--rank", "0", "--tail", "1", "--timestamps")[1].startswith("20")
    jobs = {
        (): [two, one],
        ("--name", "on"): [one],
        ("--state", "failed"): [two],
        ("--state", "failed", "--state", "succeeded"): [two, one],
        ("--since", TOMORROW): [],
    }
    shown = {words: [job["id"] for job in read("jobs", *words)[1]["jobs"]] for words in jobs}
    assert shown == jobs
    assert read("metrics", one)[1]["last"] == {"step": 1, "loss": 0.5}
    assert "loss" not in read("metrics", one, "--gpu")[1]["last"]


def test_a_log_that_is_followed_ends_with_the_job(read, run, script):
    script("import time\ntime.sleep(1)\nprint('late')\n")
    job = read("submit", "train.py", "--nproc-per-node", "1", "--detach")[1]["id"]
    assert run("logs", job, "--follow")[1] == "[0] late\n"


def test_the_flags_of_build_say_what_is_built_and_by_what(cloud, run, folder, monkeypatch):
    for api in ("cloudbuild", "artifactregistry"):
        cloud.enable_api(api)
    cloud.world.part(Builds).settings = Settings(queue_s=0.0, work_s=0.0)
    (folder / "Dockerfile").write_text(f"FROM {BASE}\nCOPY mine.txt /\n")
    (folder / "files").mkdir()
    (folder / "files" / "mine.txt").write_text("mine\n")
    parts = ["build", "--base", BASE, "--requirements", "einops==0.8.0"]
    status, _, err = run(*parts)
    assert status != 0
    assert "--create-repository" in err
    status, out, err = run(*parts, "--create-repository")
    assert (status, "pip install" in err) == (0, True)
    assert run(*parts[:3])[1] not in ("", out)
    assert "mine.txt" in run("build", "Dockerfile")[2]
    status, other, _ = run("build", "Dockerfile", "--context", "files")
    assert (status, other == out) == (0, False)
    monkeypatch.setenv("PATH", "")
    (folder / "Dockerfile").write_text(f"FROM {BASE}\n")
    assert "podman" in run("build", "Dockerfile", "--builder", "podman")[2]
