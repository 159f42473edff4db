"""What type checkers see of a spec is what a spec has; what may stand for a path or a time is taken."""

import enum
import math
import typing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import attrs
import pytest

from gputrain import Image, Local, ProvisioningModel, SpecError, Trainer, TrainingSpec
from gputrain.spec import typed
from gputrain.spec.durations import moment_asked, seconds_of
from gputrain.spec.read import _ROWS
from gputrain.spec.typed import Launcher
from tests.each import each


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


def test_a_file_of_requirements_that_is_the_only_one_is_a_file_in_a_list_too():
    """No index is ever asked for a package of that name: there are some, and they run what they like."""
    spec = TrainingSpec(script="t.py", requirements=["requirements.txt"])
    assert spec.requirements == ("-r", "requirements.txt")
    asked = ["numpy", "torch[extra]>=2,<3; python_version > '3.7'", "git+https://x/y", "./a b", "a-1-py3.whl"]
    assert TrainingSpec(script="t.py", requirements=asked).requirements == tuple(asked)
    with pytest.raises(SpecError, match="is a file"):
        Image(base="pytorch/pytorch:2", requirements=["requirements.txt"])


def test_a_bucket_in_a_path_object_is_refused_as_its_slashes_are_gone():
    with pytest.raises(SpecError, match="as text: 'gs://"):
        TrainingSpec(script="t.py", output_dir=Path("gs://my-bucket/out"))


@pytest.mark.parametrize(("value", "seconds"), [(2, 2.0), (0.5, 0.5), ("5", 5.0), ("1h30m", 5400.0)])
def test_seconds_may_be_said_as_a_duration(value, seconds):
    assert seconds_of(value) == seconds


@each("value", ["soon", math.nan, "nan", 10**400, [], {}])
def test_a_timeout_that_is_no_duration_is_told_as_one(value):
    with pytest.raises(SpecError, match="timeout="):
        seconds_of(value)


NOON = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize("value", ["2h", timedelta(hours=2), "2026-11-22T10:00Z", NOON.replace(hour=10)])
def test_a_moment_is_said_as_people_say_it(value):
    assert moment_asked(value, NOON) == NOON.replace(hour=10)


@pytest.mark.parametrize("value", ["2026-11-22", datetime(2026, 11, 22)])
def test_a_moment_without_a_zone_is_this_machines(value):
    assert moment_asked(value, NOON) == datetime(2026, 11, 22).astimezone()


@pytest.mark.parametrize("value", ["nope", "2026-13-40", 5, [], timedelta.max])
def test_what_is_no_moment_is_refused(value):
    with pytest.raises(SpecError, match="since="):
        moment_asked(value, NOON)
