"""What a spec takes, refuses, shows and keeps."""

import enum
import json
import pickle
import re
import typing
from datetime import timedelta
from fractions import Fraction
from pathlib import Path, PureWindowsPath

import attrs
import pytest

from gputrain import Image, Local, ProvisioningModel, SpecError, Trainer, TrainingSpec
from gputrain.spec import EntryKind, GpuRequest, Launcher, types
from gputrain.spec.entry import make_job_id
from tests.each import each


def train():
    """A function entry."""


def faults_of(**fields):
    with pytest.raises(SpecError) as caught:
        TrainingSpec(**fields)
    return {fault.field: fault for fault in caught.value.faults}


@each(
    ("given", "gpu"),
    [
        *((name, [("H100", 2)]) for name in ("H100:2", "h100:2", "nvidia-h100-80gb:2", "NVIDIA_H100_80GB:2")),
        (["A100-80GB:8", "H100:8"], [("A100-80GB", 8), ("H100", 8)]),
        (2, [(None, 2)]),
        ("2", [(None, 2)]),
        ("L4", [("L4", 1)]),
        ("RTX-PRO-6000:1/2", [("RTX-PRO-6000", Fraction(1, 2))]),
        ("L4:.5", [("L4", Fraction(1, 2))]),
        ("L4:2.", [("L4", 2)]),
        ("RTX4090:8", [("RTX 4090", 8)]),  # whether anybody has it is for the backends
        ("Gaudi 3:8", [("Gaudi 3", 8)]),
    ],
)
def test_a_gpu_is_read_by_every_name_and_count(given, gpu):
    assert TrainingSpec(script="t.py", gpu=given).gpu == tuple(GpuRequest(*one) for one in gpu)


def test_all_faults_are_told_at_once_each_with_its_field_and_a_fix():
    faults = faults_of(
        script="a.py", module="b", gpu="H100:x", num_nodes=0, env={"N": 3}, max_run_duration="-1h"
    )
    assert set(faults) == {"entry", "gpu", "num_nodes", "env['N']", "max_run_duration"}
    assert all(fault.fix for fault in faults.values())
    assert str(faults["num_nodes"]) == (
        "num_nodes: 0 is not valid. Expected a whole number from 1 to 1000. Try: num_nodes=2"
    )


@each(
    ("name", "meant"),
    [
        ("num_node", "num_nodes"), ("num_gpus", "gpu="), ("preemptible", "provisioning_model='spot'"),
        ("accelerators", "gpu="), ("instance_type", "machine_type"), ("timeout", "max_run_duration"),
        ("zone", "region of a backend"), ("nothing_like_it", "script, module"),
    ],
)  # fmt: skip
def test_an_unknown_keyword_names_the_nearest_field(name, meant):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'; did you mean .*{meant}"):
        TrainingSpec(script="t.py", **{name: 2})
    with pytest.raises(SpecError, match=f"{name}: no such field. Try: .*{meant}"):
        TrainingSpec.from_dict({"script": "t.py", name: 2})


def test_every_synonym_stands_for_a_field_or_for_a_backends_argument():
    fields = {one.name for one in attrs.fields(TrainingSpec)}
    assert not fields & set(types.synonyms())
    of_backends = {"region", "project", "bucket"}
    assert {text.partition("=")[0].split()[0] for text in types.synonyms().values()} <= fields | of_backends


@each(
    ("field", "value"),
    [
        ("script", "a\0b"), ("command", "python train.py"), ("args", ["--lr", 3]), ("gpu", "H100:two"),
        ("gpu", "L4:1e99999999"), ("gpu", f"L4:1/{'3' * 4000}"), ("gpu", ["L4:1", "9" * 5000]),
        ("gpu", 10**5000), ("gpu", "٣"), ("num_nodes", 10**5000), ("provisioning_model", ["spot", "cheap"]),
        ("max_run_duration", "9999999999999d"), ("max_wait_duration", "999999999d999999999h"),
        ("hang_timeout", "9" * 5000 + "s"), ("image", 3), ("requirements", ["torch>=2 numpy"]),
        ("requirements", ["numpy=2"]), ("requirements", ["einops", "requirements.txt"]),
        ("args", ["x" * 131_072]), ("args", ["\N{SNOWMAN}" * 43_691]), ("args", ["x" * 100] * 12_000),
        ("env", {"LONG": "x" * 131_072}), ("output_dir", Path("gs://my-bucket/out")),
    ],
)  # fmt: skip
def test_a_malformed_field_is_refused_by_name(field, value):
    """Records in a bucket may come from anybody, and each watcher reads them all."""
    entry = {} if field in ("script", "command") else {"script": "t.py"}
    assert list(faults_of(**entry, **{field: value})) == [field]


@each(
    ("field", "pair"),
    [
        ("env", {"A": 3}), ("env", {"1A": "x"}), ("env", {"GPUTRAIN_TOKEN": "x"}), ("labels", {"": "x"}),
        ("labels", {"team": 3}), ("labels", {"gputrain-job": "x"}), ("secrets", {"HF_TOKEN": "hf_abc"}),
        *(("env", {"GPUTRAIN_GRACE": one}) for one in ("", "-1", "3601", "nan", "1e3", "9" * 50, "٣")),
    ],
)  # fmt: skip
def test_a_malformed_pair_is_refused_by_its_key(field, pair):
    assert f"{field}[{next(iter(pair))!r}]" in faults_of(script="t.py", **{field: pair})


@each(
    ("fields", "at"),
    [
        ({"provisioning_model": "reservation-bound"}, "reservation"),
        ({"env": {"A": "1"}, "secrets": {"A": "secret://projects/p/secrets/s/versions/1"}}, "secrets"),
        ({"script": None, "command": ["python3", "t.py"], "args": ["--lr", "1"]}, "args"),
        ({"env": {"WORLD_SIZE": "1"}}, "env['WORLD_SIZE']"),
        ({"env": {"TF_CONFIG": "{}"}, "launcher": "tensorflow"}, "env['TF_CONFIG']"),
        ({"max_run_duration": "29d"}, "max_run_duration"),
        ({"min_nodes": 3, "num_nodes": 2, "max_restarts": 1}, "min_nodes"),
        ({"min_nodes": 1, "num_nodes": 2}, "max_restarts"),
        ({"args": ["x"] * 500_000, "env": {"A": "x" * 100_000}}, "args"),
    ],
)
def test_what_only_several_fields_show_is_refused(fields, at):
    assert list(faults_of(**{"script": "t.py", **fields})) == [at]


@each("field", ["output_dir", "checkpoint_dir"])
@each(
    "below",
    ["../up", "a/../../b", "./a", "/double", "a//b", "new\nline", "c\rd", "\x85"],
)
def test_a_place_whose_files_could_not_be_objects_is_refused(field, below):
    assert (
        "gs://BUCKET/NAMES" in faults_of(script="t.py", **{field: f"gs://my-bucket/{below}"})[field].problem
    )


def test_a_secret_given_in_the_place_of_a_reference_is_not_shown():
    assert "hunter2" not in str(faults_of(script="t.py", secrets={"TOKEN": "hunter2"}))


@each(
    ("fields", "at"),
    [
        ({"env": {"WANDB_API_KEY": "hunter2"}}, "env['WANDB_API_KEY']"),
        ({"args": ["--token", "hunter2"]}, "args[1]"),
        ({"args": ["--lr", "1", "--wandb-api-key=hunter2"]}, "args[2]"),
        ({"script": None, "command": ["train", "--password", "hunter2"]}, "command[2]"),
        ({"requirements": ["git+https://u:hunter2@h/x"]}, "requirements[0]"),
        ({"output_dir": "https://u:hunter2@h/x"}, "output_dir"),
    ],
)
def test_a_secret_is_warned_of_and_not_shown(fields, at):
    with pytest.warns(UserWarning, match=f"^{re.escape(at)} looks like a secret") as told:
        spec = TrainingSpec(**{"script": "t.py", **fields})
    assert told[0].filename == __file__
    assert "hunter2" not in repr(spec) + str(spec) + str(spec._repr_mimebundle_())
    assert "hunter2" in str(spec.to_dict()), "the ranks get it all the same"


def test_a_spec_shows_what_was_given_in_the_words_of_its_fields():
    spec = TrainingSpec(script="t.py", gpu="H100:2", args=["--lr", "3"], max_run_duration="90m")
    assert str(spec).splitlines() == [
        "Spec of t.py",
        "field             value",
        "----------------  ------------",
        "script            t.py",
        "args              --lr, 3",
        "gpu               H100:2",
        "num_nodes         1",
        "max_run_duration  1h30m",
        "launcher          torchrun-env",
    ]


@each(
    ("entry", "kind", "title", "launcher"),
    [
        ({"script": "a/t.py"}, EntryKind.SCRIPT, "a/t.py", Launcher.TORCHRUN_ENV),
        ({"module": "a.b"}, EntryKind.MODULE, "-m a.b", Launcher.TORCHRUN_ENV),
        ({"command": ["./run", "x"]}, EntryKind.COMMAND, "./run", Launcher.NONE),
        ({"command": ["./run"], "launcher": "tensorflow"}, EntryKind.COMMAND, "./run", Launcher.TENSORFLOW),
        ({"function": train}, EntryKind.FUNCTION, "train", Launcher.TORCHRUN_ENV),
    ],
)
def test_the_entry_has_a_kind_a_title_and_a_launcher(entry, kind, title, launcher):
    spec = TrainingSpec(**entry)
    assert (spec.entry_kind, spec.title, spec.launcher) == (kind, title, launcher)


FULL = {
    "script": "t.py",
    "args": ["--name", "a b\n'\"$(x)"],
    "gpu": ["H100:8", "RTX-PRO-6000:1/4"],
    "num_nodes": 2,
    "provisioning_model": ["spot", "flex-start"],
    "env": {"A": "ü\n"},
    "secrets": {"T": "secret://projects/p/secrets/s/versions/latest"},
    "requirements": "requirements.txt",
    "max_run_duration": "36h",
    "max_cost": 400,
    "price_per_hour": 88.5,
    "labels": {"team": "nlp"},
    "name": "bert",
}


def test_a_spec_survives_json_and_pickle():
    spec = TrainingSpec(**FULL)
    assert TrainingSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_a_spec_is_frozen_to_the_bottom():
    spec = TrainingSpec(**FULL)
    with pytest.raises(AttributeError):
        spec.num_nodes = 3
    with pytest.raises(TypeError):
        spec.env["B"] = "1"


def test_replace_checks_the_whole_anew():
    spec = TrainingSpec(**FULL)
    assert spec.replace(max_run_duration=timedelta(hours=1)).max_run_duration == timedelta(hours=1)
    assert spec.replace(provisioning_model="standard").provisioning_model == (ProvisioningModel.STANDARD,)
    with pytest.raises(SpecError):
        spec.replace(num_nodes=0)


def test_a_function_has_no_json_form():
    with pytest.raises(SpecError, match="function"):
        TrainingSpec(function=train).to_dict()


def test_paths_of_a_client_on_windows_are_read_where_the_job_runs():
    spec = TrainingSpec(script="pkg\\train.py", checkpoint_dir=PureWindowsPath("/mnt/runs/a"))
    assert spec.checkpoint_dir == "/mnt/runs/a"
    assert make_job_id(spec, None).startswith("train-")
    with pytest.raises(SpecError, match="a place in a bucket as text"):
        TrainingSpec(script="t.py", output_dir=PureWindowsPath("gs://b/a"))


def test_a_path_object_stands_wherever_a_path_may(tmp_path):
    (tmp_path / "train.py").write_text("pass")
    (tmp_path / "requirements.txt").write_text("")
    fields = {"source_dir": tmp_path, "output_dir": tmp_path / "out", "checkpoint_dir": Path("ck")}
    spec = TrainingSpec(script=Path("train.py"), requirements=tmp_path / "requirements.txt", **fields)
    assert spec.script == "train.py"
    assert spec.requirements == ("-r", str(tmp_path / "requirements.txt"))
    assert {str(value) for value in fields.values()} == {
        spec.source_dir,
        spec.output_dir,
        spec.checkpoint_dir,
    }
    assert Trainer(Local(gpus=0)).plan(tmp_path / "train.py", nproc_per_node=1).spec.script


def test_a_file_of_requirements_that_is_the_only_one_is_a_file_in_a_list_too():
    """An index has packages of that name, and they run what they like."""
    spec = TrainingSpec(script="t.py", requirements=["requirements.txt"])
    assert spec.requirements == ("-r", "requirements.txt")
    asked = ["numpy", "torch[extra]>=2,<3; python_version > '3.7'", "git+https://x/y", "./a b", "a-1-py3.whl"]
    assert TrainingSpec(script="t.py", requirements=asked).requirements == tuple(asked)
    with pytest.raises(SpecError, match="is a file"):
        Image(base="pytorch/pytorch:2", requirements=["requirements.txt"])


def test_the_typed_fields_are_the_fields_of_a_spec():
    assert set(types.SpecFields.__annotations__) == {field.name for field in attrs.fields(TrainingSpec)}


@each(("words", "kind"), [(types.Model, ProvisioningModel), (types.LauncherWord, Launcher)])
def test_the_literal_words_are_those_of_the_enum(words: typing.Any, kind: type[enum.Enum]):
    member, literal = typing.get_args(words)
    assert member is kind
    assert set(typing.get_args(literal)) == {one.value for one in kind}
