# one document a line
"""The same job through gcloud, and specs read from files written for it."""

import os
import shutil
import subprocess

import pytest

from gputrain.backends.local import Local
from gputrain.errors import SpecError
from gputrain.google.storage import Objects
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from gputrain_emulator import gcloud

OF_AN_ATTEMPT = ("GPUTRAIN_RECORD", "GPUTRAIN_ATTEMPT_ID", "GPUTRAIN_CLAIM")


def plan_of(backend, code, **fields):
    spec = TrainingSpec(**{"script": "train.py", "source_dir": code, "gpu": "L4:2", **fields})
    return Trainer(backend).plan(spec)


def without_attempt(job_spec):
    """The containers, without what only an attempt of a record has."""
    return [
        {**container, "env": [one for one in container["env"] if one["name"] not in OF_AN_ATTEMPT]}
        for pool in job_spec["workerPoolSpecs"]
        for container in [pool["containerSpec"]]
    ]


def test_what_is_printed_of_it_is_what_a_shell_takes(make, cloud, code, tmp_path):
    made = plan_of(make(), code, args=["a: b", "two\nlines", "END", "$HOME `id`"]).to_gcloud()
    asked = tmp_path / "gcloud"
    asked.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > asked\n')
    asked.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", str(made)], cwd=tmp_path, env=env, check=True, timeout=60)
    assert (tmp_path / "config.yaml").read_text() == made.config
    assert (tmp_path / "asked").read_text().splitlines() == list(made.command[1:])
    assert made._repr_mimebundle_() == {"text/plain": str(made)}


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed here")
def test_gcloud_makes_the_job_that_we_make(make, cloud, vertex, code, tmp_path):
    plan = plan_of(make(), code, num_nodes=2, provisioning_model="spot", max_restarts=2)
    wanted = plan.to_gcloud()
    (sent,) = Objects(make()._access, "my-bucket").list("code/")
    assert sent.name in wanted.config, "the code that the file names is there"
    (tmp_path / "config.yaml").write_text(wanted.config)
    env = {**os.environ, **gcloud.environment(cloud.endpoints.url, tmp_path / "gcloud")}
    done = subprocess.run(wanted.command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (theirs,) = vertex.jobs.values()
    vertex.jobs.clear()
    plan.submit()
    (ours,) = vertex.jobs.values()
    specs = theirs.document["jobSpec"], ours.document["jobSpec"]
    assert "GPUTRAIN_RECORD" not in str(specs[0]), "gcloud writes no record"
    containers = [without_attempt(one) for one in specs]
    assert containers[0] == containers[1]
    for one in specs:
        for pool in one["workerPoolSpecs"]:
            del pool["containerSpec"]
    assert specs[0] == specs[1]
    attempt_id = ours.document["labels"].pop("gputrain-attempt")
    assert ours.document["labels"].pop("gputrain-home")
    assert theirs.document["labels"] == ours.document["labels"]
    stem = ours.document["displayName"].removesuffix(attempt_id)
    assert theirs.document["displayName"].startswith(stem)


def test_no_clean_up_ends_a_job_that_gcloud_made(make, cloud, vertex, code):
    plan = plan_of(make(), code)
    words = plan.to_gcloud().command
    labels = dict(one.split("=") for one in words[words.index("--labels") + 1].split(","))
    assert labels["gputrain-job"].startswith("train-")
    plan.submit()
    (job,) = vertex.jobs.values()
    job.document["labels"] = labels
    trainer = Trainer(make())
    assert (list(trainer.orphans()), list(trainer.clean_up())) == ([], [])


def test_a_backend_without_gcloud_jobs_says_so():
    plan = Trainer(Local(gpus=0)).plan("train_plain_ddp.py", source_dir="examples")
    with pytest.raises(SpecError, match="gcloud makes no jobs of local") as caught:
        plan.to_gcloud()
    assert "VertexAI" in caught.value.faults[0].fix
