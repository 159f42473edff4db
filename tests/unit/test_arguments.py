"""What public calls are given beside a spec is read before anything is made."""

import inspect
import itertools
import threading

import attrs
import pytest

import gputrain
from gputrain import (
    ComputeEngine,
    GputrainError,
    Image,
    Local,
    SpecError,
    State,
    Trainer,
    TrainingSpec,
    VertexAI,
)
from gputrain.fields import FaultCollector
from gputrain.trainer.choice import MADE_OF
from tests.each import each

ODD = (3, "x", threading.Event, [print])


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("pass\n")
    return str(path)


@pytest.fixture
def local(tmp_path):
    return Local(gpus=0, root=tmp_path / "jobs")


@pytest.fixture
def trainer(local):
    return Trainer(local)


def refused(call, field, *words, **given):
    with pytest.raises(SpecError) as told:
        call(*words, **given)
    assert field in [one.field for one in told.value.faults]


@each(
    ("field", "value"),
    [
        *(("stop", value) for value in ODD),
        *(("on_change", value) for value in (3, "x", [print])),
        *(("idempotency_key", value) for value in (3, True, b"x", ["a"], "", " \n")),
    ],
)
def test_a_submit_refuses_what_it_cannot_use_and_makes_nothing(trainer, script, field, value):
    refused(trainer.submit, field, script, **{field: value})
    assert trainer.jobs() == []
    if field != "on_change":
        refused(trainer.plan(script).submit, field, **{field: value})
        assert trainer.jobs() == []


def test_what_looks_and_waits_refuses_alike(trainer, local, script):
    job = trainer.submit(script)
    for value in (3, "x", [print]):
        refused(trainer.watch, "listener", value)
        refused(job.watch, "listener", value)
        refused(job.wait, "on_change", on_change=value)
    for value in ODD:
        refused(job.wait, "stop", stop=value)
        refused(job.result, "stop", stop=value)
        refused(job.logs, "stop", stop=value)
    for value in (3, b"x", None, ["a"]):
        refused(trainer.jobs, "name", name=value)
    for value in ([], 0, {3: 3}, {"team": 3}):
        refused(trainer.jobs, "labels", labels=value)
    for value in (Local, "local", 3):
        refused(gputrain.attach, "backend", job.uri, backend=value)
    for value in (3, ["x"], "x"):
        refused(trainer.clean_up, "only", value)
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED


@pytest.mark.parametrize("value", [3, "loud", ["rich"]])
def test_a_run_that_cannot_be_shown_makes_no_job(trainer, script, value, monkeypatch):
    refused(trainer.run, "progress", script, progress=value)
    monkeypatch.setenv("GPUTRAIN_PROGRESS", "loud")
    refused(trainer.run, "progress", script)
    assert trainer.jobs() == []


def test_an_experiment_refuses_alike(trainer, script):
    scan = trainer.map(script, [{"lr": 1}], name="scan", arguments=lambda _: [])
    for value in ODD:
        refused(scan.wait, "stop", stop=value)
        refused(scan.results, "stop", stop=value)
        refused(lambda value=value: list(scan.as_completed(stop=value)), "stop")
    scan.wait()


def test_a_build_refuses_alike(trainer):
    refused(trainer.build, "told", "Dockerfile", told=3)
    refused(trainer.build, "create_repository", "Dockerfile", create_repository="no")


@pytest.mark.parametrize("value", [3, "", b"x"])
def test_a_doctor_without_a_spec_reads_its_key_all_the_same(trainer, value):
    refused(trainer.doctor, "idempotency_key", idempotency_key=value)


@each("field", ["now", "sleep"])
@each("value", [3, None, "x"])
def test_a_trainer_has_clocks_that_can_be_asked(local, field, value):
    refused(Trainer, field, local, **{field: value})


@pytest.mark.parametrize(
    ("unnamed", "named", "fields"),
    [
        ([], {"now": 3, "backends": 7, "sleep": "x"}, ["backends", "now", "sleep"]),
        ([], {"backend": None}, ["backend"]),
        ([None, None], {"now": 3}, ["an argument", "now"]),
    ],
)
def test_a_trainer_tells_at_once_all_that_it_cannot_be_made_of(unnamed, named, fields):
    with pytest.raises(SpecError) as told:
        Trainer(*unnamed, **named)
    assert sorted(fault.field for fault in told.value.faults) == fields
    assert all(fault.fix for fault in told.value.faults)


HANDED_OUT = {
    "Attempt", "Candidate", "Check", "Checks", "Experiment", "Job", "JobEvent", "Ledger", "Plan",
    "PlannedJob", "ProvisioningModel", "Refusal", "Scope", "State",
}  # fmt: skip
"""What the library makes, or what is named and not made."""


@pytest.mark.parametrize(
    ("unnamed", "named", "fields"),
    [
        ([], {"imagee": 1, "backned": 1, "jbos": 1}, {"imagee", "backned", "jbos"}),
        ([*"abcdefghijklmn"], {}, {"an argument"}),
        ([*"abcdefghijklmn"], {"naem": 1}, {"an argument", "naem"}),
    ],
)
def test_every_public_name_that_is_called_tells_what_it_does_not_take(unnamed, named, fields):
    for name in set(gputrain.__all__) - HANDED_OUT - {"__version__"}:
        call = getattr(gputrain, name)
        if inspect.isclass(call) and issubclass(call, Exception):
            continue
        with pytest.raises(SpecError) as told:
            call(*unnamed, **named)
        assert fields <= {fault.field for fault in told.value.faults}, name
        assert all(fault.fix for fault in told.value.faults)


@each(
    ("name", "unnamed", "named", "fixes"),
    [
        ("Image", [], {"bse": "a:1"}, ["did you mean base?"]),
        ("Image", ["a:1"], {"builder": "make"}, ["one of base, ", "builder='cloud-build'"]),
        ("TrainingSpec", ["train.py"], {"num_nodes": 0}, ["write its name", "num_nodes=2", "script="]),
        ("attach", [], {"url": "gputrain://local/x"}, ["did you mean uri?", "trainer.jobs()"]),
        ("attach", ["gputrain://local/x"], {"backned": None}, ["did you mean backend?"]),
        ("compare", [], {"job": []}, ["did you mean jobs?", "gputrain.compare("]),
        ("compare", [3], {}, ["gputrain.compare("]),
        ("grid", [[0.1, 0.3]], {"seed": 3}, ["write its name", "seed=[...]"]),
    ],
)
def test_a_call_tells_at_once_all_that_it_cannot_take(name, unnamed, named, fixes):
    with pytest.raises(SpecError) as told:
        getattr(gputrain, name)(*unnamed, **named)
    found = told.value.faults
    assert len(found) == len(fixes)
    assert all(fault.fix.startswith(fix) for fault, fix in zip(found, fixes))


def test_every_argument_of_a_trainer_is_read():
    assert list(inspect.signature(Trainer).parameters) == list(MADE_OF)


@pytest.mark.parametrize("value", [Local, "local"])
def test_no_backend_is_refused_with_how_a_job_is_taken_up(value):
    with pytest.raises(SpecError) as told:
        gputrain.attach("gputrain://local/x", backend=value)
    assert told.value.faults[0].fix == "gputrain.attach(uri, backend=Local())"


def test_what_is_of_no_field_is_told_as_it_is():
    def read(_):
        raise SpecError("not on this machine")

    with pytest.raises(SpecError, match="not on this machine"):
        FaultCollector("a bed").parse("legs", 4, read, "3 to 8", "legs=4")


ASKED = ("__repr__", "__str__", "__eq__", "__hash__", "__bool__", "__len__", "__iter__")
BASES = {object: (), str: ("x",), list: (["x"],), dict: ({"x": "y"},), int: (3,)}


class TheirsError(Exception):
    """What a method of the user's raises, which tells nobody which argument it was."""


def odd_values():
    """Values of which some method raises: alone, in a list, and in a mapping."""

    def raising(*_):
        raise TheirsError

    for base, methods in itertools.product(BASES, [*((one,) for one in ASKED), ASKED]):
        value = type("Odd", (base,), dict.fromkeys(methods, raising))(*BASES[base])
        yield from (value, [value], {"a": value})


CLOUD = {"project": "my-project", "bucket": "gs://b-1"}
CONSTRUCTORS = [
    (Image, {"base": "a:1"}),
    (Local, {}),
    (Trainer, {}),
    (VertexAI, {**CLOUD, "region": "us-central1"}),
    (ComputeEngine, {**CLOUD, "regions": ["us-central1"]}),
    (TrainingSpec, {"script": "t.py"}),
]


def no_less_than_ours(call, *unnamed, **named):
    """Whatever it was given, it does, or says by an error of ours what to do."""
    told = None
    try:
        call(*unnamed, **named)
    except GputrainError as error:
        told = error
    assert told is None or told.fix or all(fault.field and fault.fix for fault in told.faults)


@each(("kind", "given"), CONSTRUCTORS)
def test_a_value_whose_own_methods_raise_is_a_fault_of_its_argument(kind, given):
    of_spec = [one.name for one in attrs.fields(TrainingSpec)]
    odd = tuple(odd_values())
    for at, name in enumerate(of_spec if kind is TrainingSpec else inspect.signature(kind).parameters):
        for value in odd[at % 5 :: 5]:  # each value for a fifth of the arguments
            no_less_than_ours(kind, **{**given, name: value})


def test_an_argument_whose_repr_raises_is_named_all_the_same():
    odd = type("Odd", (), {"__repr__": lambda _: 1 / 0, "__bool__": lambda _: 1 / 0})()
    with pytest.raises(SpecError) as told:
        TrainingSpec(script="t.py", num_nodes=odd, env={odd: odd})
    assert [fault.field for fault in told.value.faults] == ["num_nodes", "env[<Odd>]", "env[<Odd>]"]
    assert "num_nodes=<Odd>" in str(told.value)


CALLS = {
    "jobs": ["name", "state", "labels", "since"], "clean_up": ["only"], "quotas": ["gpu", "num_nodes"],
    "plan": ["entry"], "watch": ["listener"], "attach": ["uri"], "experiment": ["name"], "build": ["image"],
}  # fmt: skip
OF_A_JOB = {
    "wait": ["timeout", "progress", "stop", "on_change"], "metrics": ["of"], "stacks": ["timeout"],
    "logs": ["rank", "since", "tail", "grep", "stop"], "watch": ["listener"],
}  # fmt: skip


def test_what_calls_of_a_trainer_and_of_a_job_are_given_may_raise_as_well(trainer, script):
    job = trainer.submit(script)
    job.wait(progress="none")
    for of, calls in ((trainer, CALLS), (job, OF_A_JOB)):
        for (call, names), value in itertools.product(calls.items(), odd_values()):
            for name in names:
                no_less_than_ours(getattr(of, call), **{name: value})
    for value in odd_values():
        no_less_than_ours(gputrain.compare, value)
        no_less_than_ours(gputrain.grid, lr=value)
        no_less_than_ours(trainer.submit, script + "x", idempotency_key=value)
        no_less_than_ours(trainer.map, script + "x", value, name="scan")
    assert trainer.jobs() == [job]
