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
    assert "not its class" in fault.expected


def test_a_name_is_refused():
    (fault,) = refused("local")
    assert (fault.value, fault.fix) == ("'local'", "Trainer(Local())")


@pytest.mark.parametrize(
    ("name", "meant"), [("vertx", "vertex"), ("vertex-ai", "vertex"), ("gce", "compute")]
)
def test_a_name_that_is_nearly_one_is_refused_with_the_backend_that_is_meant(name, meant):
    kind = present.backend(meant)
    (fault,) = refused(name)
    assert fault.fix.startswith(f"Trainer({kind.__name__}(")


@pytest.mark.parametrize("value", [7, Nothing(), Nothing, object(), {"local"}, iter(())])
def test_what_is_no_backend_is_refused(value):
    (fault,) = refused(value)
    assert fault.expected.startswith("a backend")
    assert "write-a-backend" in fault.fix


def test_every_fault_of_a_list_is_told_at_once():
    kind = present.backend("local")
    faults = refused([kind(), kind, 7])
    assert [fault.value for fault in faults] == ["Local", "7"]


def test_a_region_that_is_likely_misspelt_is_told_by_the_plan(cloud, backend, now, script):
    def notes(name, *regions):
        trainer = Trainer(backend(name, regions=regions), now=now)
        notes = trainer.plan(script, gpu="L4:2", max_run_duration="1h").notes
        return [one for one in notes if "spelt" in one]

    told = ["the catalog knows of nothing in us-centrl1; us-central1 is spelt most like it"]
    assert notes("compute", "us-centrl1", "us-central1") == notes("vertex", "us-centrl1") == told
    assert notes("compute", "us-central1", "europe-west4") == []
