import attrs
import pytest

from gputrain import ProviderError, RequestError, SpecError, Trainer
from gputrain.cli import main
from gputrain.cli.screen import Exit
from gputrain.cli.settings import CliSettings
from gputrain.records import FolderBoard
from tests import present
from tests.unit.trainer.places import Place


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
        ("vertex", "Trainer(VertexAI(project=..., region=...))"),
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


ASKED = {"gpu": "L4:1", "max_run_duration": "1h"}


@pytest.mark.parametrize("call", ["plan", "doctor", "submit"])
def test_a_supply_that_bears_another_name_is_refused_before_anything_is_asked(world, script, call):
    place = Place("acme")
    place.supply = attrs.evolve(place.supply, backend="acme-cluster")
    with pytest.raises(SpecError, match="nothing can run on acme: supply") as told:
        getattr(world.trainer(place), call)(script, **ASKED)
    assert [fault.value for fault in told.value.faults] == ["'acme-cluster'"]
    assert place.asked == []


@pytest.mark.parametrize(
    ("place", "region"),
    [
        ("", "east"),
        ("a\nb", "east"),
        ("\x7f", "east"),
        ("\ud800", "east"),
        ("x" * 1025, "east"),
        ("east-a", ""),
    ],
)
def test_a_place_that_no_record_can_hold_is_refused_by_the_plan(world, script, place, region):
    acme = Place("acme")
    offer = attrs.evolve(acme.supply.offers[0], places=(place,), region_of=lambda _place: region)
    acme.supply = attrs.evolve(acme.supply, offers=(offer,))
    with pytest.raises(SpecError, match="a place of the backend 'acme' is none: ") as told:
        world.trainer(acme).plan(script, **ASKED)
    assert [fault.field for fault in told.value.faults] == ["place" if region else "region"]


@pytest.mark.parametrize(
    ("names", "sha256", "choices"),
    [
        (("a\nb",), "", {}),
        (("",), "", {}),
        (("a",), "of it", {}),
        (("a",), "", {"pool": 7}),
        (("a",), "", {"pool": object()}),
        (("a",), "", {1: "a", "b": "c"}),
    ],
)
def test_what_could_not_be_read_again_is_neither_written_nor_asked(
    world, script, tmp_path, names, sha256, choices
):
    class Acme(Place):
        def stage(self, spec, job_id):
            return attrs.evolve(super().stage(spec, job_id), sha256=sha256)

        def render(self, start):
            return attrs.evolve(super().render(start), names=names)

    acme = Acme("acme", FolderBoard(tmp_path / "records"), places=("east-a",))
    acme.choices = choices
    with pytest.raises(RequestError, match="could not be read again") as told:
        world.trainer(acme).submit(script, **ASKED)
    assert "tell whoever wrote the backend acme" in told.value.fix
    assert acme.asked == []
    assert list((tmp_path / "records").glob("*.json")) == []


@pytest.mark.parametrize("call", ["requests", "submit"])
@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("backend", "acme-cluster", "nothing can run on acme: request"),
        ("backend", "", "nothing can run on acme: request"),
        ("place", "", "gputrain://acme/.* is no name"),
        ("name", "", "gputrain://acme/p/east-a/' names no job"),
    ],
)
def test_a_request_for_a_job_that_its_name_does_not_lead_to_is_never_sent(
    world, script, call, part, value, said
):
    class Acme(Place):
        def render(self, start):
            draft = super().render(start)
            return attrs.evolve(draft, ref=attrs.evolve(draft.ref, **{part: value}))

    acme = Acme("acme", places=("east-a",))
    plan = world.trainer(acme).plan(script, **ASKED)
    with pytest.raises(SpecError, match=said):
        plan.submit() if call == "submit" else plan.requests
    assert acme.asked == []


def misread(answer, call):
    """A backend that answers one call with what nobody foresaw."""

    class Acme(Place):
        """Answers everything else as it should."""

    def answered(*_asked, **_named):
        if isinstance(answer, Exception):
            raise answer
        return answer

    acme = Acme("acme")
    setattr(Acme, call, property(answered, lambda *_: None) if call == "supply" else answered)
    return acme


DOWN = OSError("the cluster is down")


@pytest.mark.parametrize("call", ["supply", "availability"])
@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (DOWN, ProviderError, "of the backend 'acme'"),
        (None, SpecError, "nothing can run on acme: "),
        (3, SpecError, "nothing can run on acme: "),
    ],
)
def test_what_a_plan_cannot_read_of_a_backend_names_the_backend(world, script, call, answer, kind, said):
    with pytest.raises(kind, match=said) as told:
        world.trainer(misread(answer, call)).plan(script, **ASKED)
    assert told.value.fix or told.value.faults[0].fix
    assert answer is not DOWN or "OSError: the cluster is down" in told.value.why


@pytest.mark.parametrize("answer", [DOWN, None, (3,)])
def test_a_backend_whose_jobs_cannot_be_read_hides_no_others(world, script, answer):
    other = Place("other")
    made = world.trainer(other).submit(script, **ASKED)
    found = world.trainer(misread(answer, "find"), other).jobs()
    assert [one.id for one in found] == [made.id]
    assert "acme" in found.left_out[0]


def test_a_job_that_cannot_be_looked_at_hides_no_others(world, script):
    acme, other = misread(DOWN, "observe"), Place("other")
    jobs = [world.trainer(one).submit(script, **ASKED) for one in (Place("acme"), other)]
    acme.made = {"n": jobs[0].ref}
    assert [one.id for one in world.trainer(acme, other).jobs()] == [jobs[1].id]


@pytest.mark.parametrize("call", ["supply", "find"])
def test_a_command_tells_what_nobody_foresaw_without_a_traceback(monkeypatch, script, capsys, call):
    monkeypatch.setattr(CliSettings, "make", lambda _self: [misread(DOWN, call)])
    words = ["plan", str(script)] if call == "supply" else ["jobs"]
    assert main([*words, "--backend", "acme"]) == Exit.UNKNOWN
    assert "why: OSError: the cluster is down" in capsys.readouterr().err


def test_a_region_that_is_likely_misspelt_is_told_by_the_plan(cloud, backend, now, script):
    def notes(name, *regions):
        trainer = Trainer(backend(name, regions=regions), now=now)
        notes = trainer.plan(script, gpu="L4:2", max_run_duration="1h").plan.notes
        return [one for one in notes if "spelt" in one]

    told = ["the catalog knows of nothing in us-centrl1; us-central1 is spelt most like it"]
    assert notes("compute", "us-centrl1", "us-central1") == notes("vertex", "us-centrl1") == told
    assert notes("compute", "us-central1", "europe-west4") == []
