import pytest

from gputrain import SpecError, Trainer
from tests import present


class Nothing:
    """Is no backend."""


def refused(value):
    with pytest.raises(SpecError) as told:
        Trainer(value)
    return told.value.faults


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("local", "Trainer(Local())"),
        ("vertex", "Trainer(VertexAI(project=...))"),
        ("compute", "Trainer(ComputeEngine(project=..., regions=..., bucket=...))"),
    ],
)
def test_a_class_is_refused_with_how_one_is_made(name, fix):
    kind = present.backend(name)
    (fault,) = refused(kind)
    assert (fault.field, fault.value, fault.fix) == ("backends", kind.__name__, fix)
    assert "not its class" in fault.allowed


def test_a_name_is_refused():
    present.backend("local")
    (fault,) = refused("local")
    assert (fault.value, fault.fix) == ("'local'", "Trainer(Local())")


@pytest.mark.parametrize("value", [7, Nothing(), Nothing, object(), {"local"}, iter(())])
def test_what_is_no_backend_is_refused(value):
    (fault,) = refused(value)
    assert fault.allowed.startswith("a backend")
    assert "write-a-backend" in fault.fix


def test_every_fault_of_a_list_is_told_at_once():
    kind = present.backend("local")
    faults = refused([kind(), kind, 7])
    assert [fault.value for fault in faults] == ["Local", "7"]


def test_a_backend_that_lacks_something_is_told_what():
    class Half:
        name = "half"
        poll_s = 1.0
        supply = None

        def cancel(self, ref):
            """Stop."""

    (fault,) = refused(Half())
    assert "it has no availability, create, find, logs, observe, render, stage" in fault.allowed


def test_choosing_asks_a_backend_nothing():
    class Dear(present.backend("local")):
        @property
        def supply(self):
            raise AssertionError("nobody planned yet")

    Trainer(Dear())
