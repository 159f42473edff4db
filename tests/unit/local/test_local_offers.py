"""What Local refuses by name, each with something to do about it; and what it would have to install."""

import os

import pytest

from gputrain import Local, Trainer
from gputrain.backends.local.offers import unmet
from gputrain.errors import PermissionDeniedError, SpecError
from gputrain.planning import candidates
from gputrain.spec import TrainingSpec
from tests.each import each

SECRET = "secret://projects/p/secrets/s/versions/1"
ASKED = [
    ("image", {"image": "python:3.12"}),
    ("reservation", {"reservation": "mine"}),
    ("machine_type", {"machine_type": "a3-highgpu-8g"}),
    ("provisioning_model", {"provisioning_model": "spot"}),
    ("secrets", {"secrets": {"WANDB": SECRET}}),
    ("min_nodes", {"num_nodes": 2, "min_nodes": 1, "max_restarts": 1}),
    ("env['CUDA_VISIBLE_DEVICES']", {"env": {"CUDA_VISIBLE_DEVICES": "0"}}),
    ("checkpoint_dir", {"checkpoint_dir": "gs://bucket/checkpoints"}),
    ("output_dir", {"output_dir": "gs://bucket/output"}),
    ("source_dir", {"source_dir": "gs://bucket/source"}),
]


def wanted(**fields):
    return candidates(TrainingSpec(script="train.py", **fields), [Local(gpus=0).supply])


@each(("field", "asked"), ASKED)
def test_what_it_cannot_honour_is_refused_by_name_with_a_fix(field, asked):
    found = wanted(**asked)
    assert found.candidates == ()
    (limit,) = [one for one in found.refusals if one.subject == field]
    assert limit.why
    assert limit.fix


@pytest.mark.parametrize(
    "asked",
    [
        {"requirements": ["attrs>=1", "nowhere-to-be-found==1.0"]},
        {"keep_outputs": True},
        {"num_nodes": 2, "min_nodes": 2, "max_restarts": 1},
        {"machine_type": "this-machine"},
    ],
)
def test_what_it_can_honour_is_taken(asked):
    assert wanted(**asked).candidates


def test_a_gpu_that_is_not_here_is_refused_with_what_to_do():
    refusals = wanted(gpu="H100:2").refusals
    assert any(one.subject == "H100:2" and "nproc_per_node=2 " in one.fix for one in refusals)


def test_jobs_are_kept_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("GPUTRAIN_HOME", str(tmp_path / "own"))
    assert Local()._root == tmp_path / "own" / "jobs"
    monkeypatch.delenv("GPUTRAIN_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert Local()._root == tmp_path / "state" / "gputrain" / "jobs"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Local()._root == tmp_path / "home" / ".local" / "state" / "gputrain" / "jobs"


@pytest.mark.parametrize(
    "text",
    [
        "attrs",
        "attrs>=1",
        "attrs >= 1, < 1000",
        "attrs; python_version < '3'",
        "nowhere; python_version < '3'",
    ],
)
def test_what_this_python_has_is_not_missing(text):
    assert unmet([text]) == ()


@each(
    "text",
    [
        "attrs>=1000",
        "attrs==0.0.1",
        "nowhere-to-be-found",
        "attrs @ https://example.com/a.whl",
        "-e .",
        "?",
        "./folder",
    ],
)
def test_what_it_lacks_or_only_pip_can_read_is_missing(text):
    assert unmet([text]) == (text,)


def test_a_file_of_requirements_is_read_line_by_line(tmp_path):
    (tmp_path / "requirements.txt").write_text("# tools\n\nattrs>=1  # values\nnowhere==1\n--hash=sha256:0\n")
    assert unmet(("-r", "requirements.txt"), str(tmp_path)) == ("nowhere==1", "--hash=sha256:0")


def uri(local):
    return local.documents.ref("bert-1").uri


def test_a_name_tells_of_the_folder_unless_it_is_the_usual_one(tmp_path, monkeypatch):
    local = Local(gpus=0, root=tmp_path / "jobs")
    ref = local.documents.ref("bert-1")
    assert ref.home == str(tmp_path / "jobs")
    assert repr(Local.for_job(ref, None, gpus=0)) == repr(local)
    assert repr(local) == f"Local(gpus=0, root='{tmp_path}/jobs')"
    monkeypatch.setenv("GPUTRAIN_HOME", str(tmp_path))
    assert uri(Local()) == uri(local) == "gputrain://local/bert-1"


@each("way", ["a file", "a file above", "a link to itself", "a name that is too long"])
def test_a_folder_that_cannot_be_read_is_refused_with_the_fix(tmp_path, way):
    (tmp_path / "a file").write_text("in the way")
    (tmp_path / "a link to itself").symlink_to(tmp_path / "a link to itself")
    names = {"a file above": "a file/jobs", "a name that is too long": "a" * 300}
    trainer = Trainer(Local(gpus=0, root=tmp_path / names.get(way, way)))
    with pytest.raises(PermissionDeniedError) as caught:
        trainer.submit(["true"], idempotency_key="k")
    assert "Local(root=...)" in caught.value.fix


def test_a_folder_that_is_not_there_yet_holds_no_jobs(tmp_path):
    local = Local(gpus=0, root=tmp_path / "none")
    assert (tuple(Trainer(local).jobs()), local.machines()) == ((), ())
    assert not (tmp_path / "none").exists()


def test_where_there_is_no_fork_it_is_refused_by_the_name_of_the_system(monkeypatch):
    monkeypatch.delattr(os, "fork")
    monkeypatch.setattr("platform.system", lambda: "Windows")
    with pytest.raises(SpecError, match="Local does not run on Windows"):
        Local()
