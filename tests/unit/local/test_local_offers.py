"""What Local refuses by name, each with something to do about it; and what it would have to install."""

import pytest

from gputrain.backends.local import Local
from gputrain.backends.local.offers import unmet
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
    assert limit.asked_for
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
