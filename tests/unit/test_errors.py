import inspect
import json
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


@each("kind", ALL)
def test_every_error_is_json_types_without_the_raw_payload(kind):
    error = kind("it broke", why="w", fix="f", raw={"secret": 1}, retryable=True)
    document = json.loads(json.dumps(error.to_dict()))
    assert document.items() >= {"type": kind.__name__, "kind": kind.kind, "what": "it broke", "why": "w",
                                "fix": "f", "retryable": True, "scope": kind.scope.value}.items()  # fmt: skip
    assert "raw" not in document


def test_facts_are_part_of_the_document():
    fault = errors.FieldError(field="gpu", value="'x'", fix="gpu='L4'")
    assert errors.SpecError("bad", faults=(fault,)).to_dict()["faults"][0]["fix"] == "gpu='L4'"
    assert errors.QuotaExceededError("short", limit=4.0).to_dict()["limit"] == 4.0


def test_an_error_takes_no_fact_it_does_not_declare():
    with pytest.raises(TypeError, match="zone"):
        errors.CapacityError("full", zone="us-central1-a")


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
