"""What type checkers see of a spec is what a spec has; what may stand for a path or a time is taken."""

import enum
import typing
from pathlib import Path

import attrs
import pytest

from gputrain import Local, ProvisioningModel, SpecError, Trainer, TrainingSpec
from gputrain.spec import typed
from gputrain.spec.durations import seconds_of
from gputrain.spec.read import _ROWS
from gputrain.spec.typed import Launcher


def test_the_typed_fields_are_the_fields_of_a_spec():
    names = [field.name for field in attrs.fields(TrainingSpec)]
    assert sorted(typed.NAMES) == sorted(names)
    assert {*_ROWS, "env", "secrets", "labels"} == set(names)


def test_the_defaults_are_those_that_a_bare_spec_has():
    bare, said = TrainingSpec(script="t.py"), TrainingSpec(script="t.py", **typed.DEFAULTS)
    assert bare == said
    unset = {name for name in typed.NAMES if getattr(bare, name) in (None, (), {})}
    assert not unset & set(typed.DEFAULTS) - {"args", "requirements"}


WORDS = [(typed.Model, ProvisioningModel), (typed.LauncherWord, Launcher)]


@pytest.mark.parametrize(("words", "kind"), WORDS)
def test_the_literal_words_are_those_of_the_enum(words: typing.Any, kind: type[enum.Enum]):
    member, literal = typing.get_args(words)
    assert member is kind
    assert set(typing.get_args(literal)) == {one.value for one in kind}


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


def test_a_bucket_in_a_path_object_is_refused_as_its_slashes_are_gone():
    with pytest.raises(SpecError, match="as text: 'gs://"):
        TrainingSpec(script="t.py", output_dir=Path("gs://my-bucket/out"))


@pytest.mark.parametrize(("value", "seconds"), [(2, 2.0), (0.5, 0.5), ("2m", 120.0), ("1h30m", 5400.0)])
def test_seconds_may_be_said_as_a_duration(value, seconds):
    assert seconds_of(value) == seconds


def test_a_timeout_that_is_no_duration_is_told_as_one():
    with pytest.raises(SpecError, match="timeout='soon'"):
        seconds_of("soon")
