import json
import pickle
import subprocess
from datetime import timedelta
from fractions import Fraction
from pathlib import PureWindowsPath

import pytest

from gputrain import SpecError, TrainingSpec
from gputrain.catalog import ProvisioningModel
from gputrain.spec import EntryKind, GpuRequest, Launcher
from gputrain.spec.entry import make_job_id
from tests.each import each


def train():
    """A function entry."""


def faults_of(**fields):
    with pytest.raises(SpecError) as caught:
        TrainingSpec(**fields)
    return {fault.field: fault for fault in caught.value.faults}


def test_a_gpu_goes_by_every_name_google_gives_it():
    names = ["H100:2", "h100:2", "nvidia-h100-80gb:2", "NVIDIA_H100_80GB:2"]
    assert {TrainingSpec(script="t.py", gpu=name).gpu for name in names} == {(GpuRequest("H100", 2),)}


def test_a_list_of_gpus_keeps_its_order():
    spec = TrainingSpec(script="t.py", gpu=["A100-80GB:8", "H100:8"])
    assert [str(one) for one in spec.gpu] == ["A100-80GB:8", "H100:8"]


def test_a_count_alone_means_gpus_of_this_machine():
    assert (
        TrainingSpec(script="t.py", gpu=2).gpu
        == TrainingSpec(script="t.py", gpu="2").gpu
        == (GpuRequest(None, 2),)
    )


def test_a_name_alone_means_one_of_them():
    assert TrainingSpec(script="t.py", gpu="L4").gpu == (GpuRequest("L4", 1),)


def test_a_part_of_a_gpu_can_be_asked_for():
    assert TrainingSpec(script="t.py", gpu="RTX-PRO-6000:1/2").gpu[0].count == Fraction(1, 2)


def test_all_faults_are_told_at_once_each_with_its_field_and_a_fix():
    faults = faults_of(
        script="a.py", module="b", gpu="H100:x", num_nodes=0, env={"N": 3}, max_run_duration="-1h"
    )
    assert set(faults) == {"entry", "gpu", "num_nodes", "env['N']", "max_run_duration"}
    assert all(fault.fix and fault.allowed for fault in faults.values())


@pytest.mark.parametrize(
    ("name", "kind"), [("RTX4090", "RTX 4090"), ("MI300X", "MI300X"), ("Gaudi 3", "Gaudi 3")]
)
def test_a_gpu_that_google_does_not_sell_is_for_the_backends_to_judge(name, kind):
    assert TrainingSpec(script="t.py", gpu=f"{name}:8").gpu == (GpuRequest(kind, 8),)


def test_an_unknown_keyword_names_the_nearest_field():
    assert "num_nodes" in faults_of(script="t.py", num_node=2)["num_node"].fix


@each(
    ("field", "value"),
    [
        ("script", ""),
        ("script", "a\0b"),
        ("module", "not a module"),
        ("command", []),
        ("command", "python train.py"),
        ("function", "train"),
        ("args", "--lr 3"),
        ("args", ["--lr", 3]),
        ("gpu", "H100:0"),
        ("gpu", "H100:-1"),
        ("gpu", "H100:two"),
        ("gpu", True),
        ("num_nodes", 0),
        ("num_nodes", 1.5),
        ("num_nodes", True),
        ("nproc_per_node", 0),
        ("provisioning_model", "preemptible"),
        ("provisioning_model", ["spot", "cheap"]),
        ("machine_type", "two words"),
        ("image", "two words"),
        ("env", ["A"]),
        ("secrets", "TOKEN"),
        ("requirements", "torch"),
        ("requirements", ["--index-url=http://x"]),
        ("requirements", ["einops", "requirements.txt"]),
        ("requirements", ["torch>=2 numpy"]),
        ("requirements", ["numpy=2"]),
        ("max_run_duration", "-1h"),
        ("max_run_duration", 3600),
        ("max_run_duration", "29d"),
        ("max_wait_duration", "soon"),
        ("max_cost", -1),
        ("max_cost", float("nan")),
        ("max_restarts", -1),
        ("labels", ["a"]),
        ("name", "Bert"),
        ("name", "a" * 60),
        ("launcher", "mpirun"),
    ],
)
def test_a_malformed_field_is_refused_by_name(field, value):
    entry = {} if field in ("script", "module", "command", "function") else {"script": "t.py"}
    assert field in faults_of(**entry, **{field: value})


@each(
    ("field", "pair"),
    [
        ("env", {"A": 3}),
        ("env", {"1A": "x"}),
        ("env", {"GPUTRAIN_TOKEN": "x"}),
        ("labels", {"": "x"}),
        ("labels", {"team": 3}),
        ("labels", {"gputrain-job": "x"}),
        ("secrets", {"HF_TOKEN": "hf_abc"}),
    ],
)
def test_a_malformed_pair_is_refused_by_its_key(field, pair):
    assert f"{field}[{next(iter(pair))!r}]" in faults_of(script="t.py", **{field: pair})


def test_a_secret_given_in_the_place_of_a_reference_is_not_shown():
    with pytest.raises(SpecError) as caught:
        TrainingSpec(script="t.py", secrets={"TOKEN": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_secret_in_env_is_warned_of_and_not_shown():
    with pytest.warns(UserWarning, match=r"env\['WANDB_API_KEY'\] looks like a secret"):
        spec = TrainingSpec(script="t.py", env={"WANDB_API_KEY": "hunter2", "LR": "1"})
    assert "hunter2" not in repr(spec)
    assert "'LR': '1'" in repr(spec)
    assert "WANDB_API_KEY=***, LR=1" in str(spec)
    assert "hunter2" not in str(spec) + str(spec._repr_mimebundle_())


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


def test_reservation_bound_needs_a_reservation():
    assert "reservation" in faults_of(script="t.py", provisioning_model="reservation-bound")


def test_a_variable_is_in_env_or_in_secrets():
    reference = "secret://projects/p/secrets/s/versions/1"
    assert "secrets" in faults_of(script="t.py", env={"A": "1"}, secrets={"A": reference})


def test_a_command_carries_its_own_arguments():
    assert "args" in faults_of(command=["python3", "t.py"], args=["--lr", "1"])


def test_the_launcher_follows_the_entry_unless_it_is_named():
    assert TrainingSpec(script="t.py").launcher is Launcher.TORCHRUN_ENV
    assert TrainingSpec(command=["./train"]).launcher is Launcher.NONE
    assert TrainingSpec(command=["./train"], launcher="tensorflow").launcher is Launcher.TENSORFLOW


@pytest.mark.parametrize(
    ("entry", "kind", "title"),
    [
        ({"script": "a/t.py"}, EntryKind.SCRIPT, "a/t.py"),
        ({"module": "a.b"}, EntryKind.MODULE, "-m a.b"),
        ({"command": ["./run", "x"]}, EntryKind.COMMAND, "./run"),
        ({"function": train}, EntryKind.FUNCTION, "train"),
    ],
)
def test_the_entry_has_a_kind_and_a_title(entry, kind, title):
    spec = TrainingSpec(**entry)
    assert (spec.entry_kind, spec.title) == (kind, title)


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


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"args": ["x" * 131_072]}, "args=131073: at most 131072 bytes in one"),
        ({"args": ["\N{SNOWMAN}" * 43_691]}, "args=131074: "),
        ({"args": ["x" * 100] * 12_000}, "args=1212000: at most 1048576 bytes of arguments and env"),
        ({"env": {"LONG": "x" * 131_072}}, "env=131078: "),
        ({"args": ["x"] * 500_000, "env": {"A": "x" * 100_000}}, "args=1100003: "),
    ],
)
def test_what_no_program_could_be_started_with_is_refused(fields, told):
    with pytest.raises(SpecError) as error:
        TrainingSpec(script="train.py", **fields)
    assert told in str(error.value)


def test_what_linux_takes_is_taken():
    words = ["x" * 131_071, *["y" * 1_000] * 600]
    assert list(TrainingSpec(script="train.py", args=words).args) == words
    assert subprocess.run(["true", *words], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "count"), [("L4:.5", "1/2"), ("L4:0.33333", "33333/100000"), ("L4:2.", "2")]
)
def test_a_part_of_a_gpu_is_read_as_numbers_are_written(text, count):
    assert str(TrainingSpec(script="train.py", gpu=text).gpu[0].count) == count


@each(
    ("field", "value"),
    [
        ("gpu", "L4:1e99999999"),
        ("gpu", "L4:."),
        ("gpu", f"L4:.{'3' * 4000}"),
        ("gpu", f"L4:1/{'3' * 4000}"),
        ("gpu", ["L4:1", "9" * 5000]),
        ("gpu", pytest.param(10**5000, id="an int of 5001 digits")),
        ("gpu", "٣"),
        ("max_run_duration", "9999999999999d"),
        ("max_wait_duration", "999999999d999999999h"),
        ("hang_timeout", "9" * 5000 + "s"),
        ("image", {1: 2}),
        ("num_nodes", pytest.param(10**5000, id="that many nodes")),
    ],
)
def test_what_a_record_of_somebody_may_say_is_refused_at_once(field, value):
    """Each watcher of a bucket reads all records in it."""
    with pytest.raises(SpecError) as caught:
        TrainingSpec(script="t.py", **{field: value})
    assert [one.field for one in caught.value.faults] == [field]


@each("field", ["output_dir", "checkpoint_dir"])
@each(
    "below",
    ["../up", "a/../../b", "./a", "/double", "a//b", "new\nline", "c\rd", "\x85", "d/" * 600, "é" * 400],
)
def test_a_place_whose_files_could_not_be_objects_is_refused(field, below):
    with pytest.raises(SpecError, match="gs://BUCKET/NAMES"):
        TrainingSpec(script="t.py", **{field: f"gs://my-bucket/{below}"})


@each("place", ["gs://b", "gs://b/", "gs://b/x/", "gs://b/a b/ü#?%2F&=+", "gs://b/..a/*[0]", "/a/../b"])
def test_a_place_that_can_be_kept_is_taken(place):
    assert TrainingSpec(script="t.py", output_dir=place).output_dir == place


@pytest.mark.parametrize("value", ["0", "60", "2.5", "3600"])
def test_the_time_to_save_is_the_users_to_set(value):
    assert TrainingSpec(script="t.py", env={"GPUTRAIN_GRACE": value}).env == {"GPUTRAIN_GRACE": value}


@each("value", ["", "-1", "3601", "nan", "1e3", "9" * 50, "a minute", "٣"])
def test_a_time_to_save_that_is_none_is_refused(value):
    with pytest.raises(SpecError, match="seconds from 0 to 3600"):
        TrainingSpec(script="t.py", env={"GPUTRAIN_GRACE": value})
