import inspect
import pickle

import pytest

from gputrain import errors
from tests.each import each

ALL = [cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.GputrainError)]


@each("kind", ALL)
def test_every_error_says_what_why_and_fix_and_pickles(kind):
    error = pickle.loads(
        pickle.dumps(kind("it broke", why="the disk is full", fix="free some space", raw={"a": 1}))
    )
    assert type(error) is kind
    assert str(error) == "it broke\n  why: the disk is full\n  fix: free some space"
    assert error.raw == {"a": 1}


@each("kind", ALL)
def test_every_error_is_named_error_and_is_in_the_tree_at_the_head(kind):
    assert kind.__name__.endswith("Error")
    assert kind.__name__ in errors.__doc__


def test_facts_travel_with_a_pickled_error():
    error = errors.QuotaExceededError(
        "short", metric="NVIDIA_L4_GPUS", limit=4.0, need=8.0, where="us-central1"
    )
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.metric, copy.limit, copy.usage, copy.need) == ("NVIDIA_L4_GPUS", 4.0, None, 8.0)


def test_an_error_takes_no_fact_it_does_not_declare():
    with pytest.raises(TypeError, match="zone"):
        errors.CapacityError("full", zone="us-central1-a")


def test_a_failed_job_shows_the_traceback_of_its_rank():
    error = errors.JobFailedError("bert failed", rank=3, traceback="Traceback ...\nValueError: nan\n")
    assert str(error).endswith("ValueError: nan")


def test_a_failed_job_without_traceback_shows_its_last_lines():
    assert "segmentation fault" in str(
        errors.JobFailedError("bert failed", last_lines=("segmentation fault",))
    )


def test_a_spec_error_is_a_value_error():
    with pytest.raises(ValueError, match="bad"):
        raise errors.SpecError("bad")


@each("kind", ALL)
def test_every_error_tells_a_program_what_may_help(kind):
    error = kind("it broke")
    assert error.kind
    assert isinstance(error.scope, errors.Scope)
    assert error.retryable == issubclass(kind, errors.TransientError)
    assert not (error.retryable and error.try_elsewhere)


@each("kind", ALL)
def test_a_case_may_know_better_than_its_class_and_it_pickles(kind):
    told = {"kind": "a_case", "scope": errors.Scope.PROJECT, "retryable": False, "try_elsewhere": True}
    error = pickle.loads(pickle.dumps(kind("it broke", **told)))
    assert {name: getattr(error, name) for name in told} == told
    assert repr(error) == f"{kind.__name__}('it broke')"
    assert kind("another").kind == kind.kind
