"""What is made of what backends in memory say beforehand: of a job, and of their quotas."""

import pytest

from gputrain import RequestError, SpecError, UnknownGpuError
from gputrain.catalog import ProvisioningModel, Service
from gputrain.planning import Limit
from gputrain.preflight import Check, Checks, Finding
from gputrain.quota import Quotas
from gputrain.quota.values import Standing
from gputrain.spec import GpuRequest
from tests.unit.trainer.places import Place, World

SMALL = Limit(field="num_nodes", asks=lambda spec: spec.num_nodes > 1, why="it is small", fix="num_nodes=1")
L4 = {"gpu": "L4:1", "max_run_duration": "1h"}


class Looking(Place):
    """A place that looks at what a job needs, and has quotas."""

    looked = None
    asked = None

    def preflight(self, spec, wanted, job_id):
        self.looked = spec, wanted, job_id
        return Checks(checks=[Check(backend=self.name, subject="bucket", finding=Finding.OK, why="there")])

    def quotas(self, gpus=(), *, num_nodes=1, models=(), regions=()):
        self.asked = gpus, num_nodes, models, regions
        model = ProvisioningModel.SPOT
        one = Standing(service=Service.COMPUTE, gpu="L4", gpus=1, provisioning_model=model, region=self.name)
        return Quotas(standings=(one,), unread=(f"{self.name} is slow",))


@pytest.fixture
def world():
    return World()


def told(checks):
    return {(one.backend, one.subject, one.finding.value, one.why, one.fix) for one in checks}


def test_without_a_spec_each_backend_is_asked_what_every_job_needs(world):
    looks, silent = Looking("compute"), Place("vertex")
    checks = world.trainer(looks, silent).doctor()
    assert looks.looked == (None, (), "")
    assert told(checks) == {
        ("compute", "bucket", "ok", "there", ""),
        ("vertex", "preflight", "unknown", "this backend looks at nothing beforehand", ""),
    }


def test_a_backend_that_can_run_a_job_is_asked_of_its_places_and_of_its_name(world, script):
    two, one = Looking("compute"), Looking("vertex", places=("north-a",))
    checks = world.trainer(two, one).doctor(script, **L4, idempotency_key="k")
    spec, wanted, job_id = two.looked
    assert ([each.place for each in wanted], spec.script) == (["east-a", "west-b"], script)
    assert [each.place for each in one.looked[1]] == ["north-a"]
    assert one.looked[2] == job_id == world.trainer(two, one).submit(script, **L4, idempotency_key="k").id
    assert told(checks) == {
        ("compute", "bucket", "ok", "there", ""),
        ("vertex", "bucket", "ok", "there", ""),
        ("compute", f"{script} as asked", "ok", "2 ways to run it, by the catalog", ""),
        ("vertex", f"{script} as asked", "ok", "1 way to run it, by the catalog", ""),
    }


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_backend_that_cannot_run_a_job_is_a_fault_where_no_other_can_and_is_asked_no_more(
    world, script, is_alone
):
    small, large = Looking("compute", limits=(SMALL,)), Looking("vertex")
    checks = world.trainer(*([small] if is_alone else [small, large])).doctor(script, **L4, num_nodes=2)
    assert small.looked is None
    (check,) = [one for one in told(checks) if one[0] == "compute"]
    if is_alone:
        assert check == ("compute", f"{script} as asked", "fault", "num_nodes: it is small", "num_nodes=1")
    else:
        assert check == ("compute", f"{script} as asked", "ok", "left out: num_nodes: it is small", "")
    assert checks.is_ok is not is_alone


def test_a_plan_says_which_of_its_clouds_are_emulated(world, script):
    real, emulated, local = Place("compute"), Place("vertex"), Place("slurm")
    real.trial, emulated.trial = "", "http://127.0.0.1:1"
    assert world.trainer(real, local).plan(script, **L4).plan.notes == ()
    (note,) = world.trainer(real, emulated, local).plan(script, **L4).plan.notes
    assert note.startswith("this is a trial: http://127.0.0.1:1 is an emulator on this machine")


def test_quotas_of_all_backends_that_have_some_are_one_table(world):
    first, second = Looking("compute"), Looking("vertex")
    found = world.trainer(first, Place("slurm"), second).quotas()
    assert ([one.region for one in found], found.unread) == (
        ["compute", "vertex"], ("compute is slow", "vertex is slow"),
    )  # fmt: skip
    assert first.asked == second.asked == ((), 1, (), ())
    world.trainer(first).quotas("L4:2", num_nodes=3, provisioning_model="spot", region="east")
    assert first.asked == (
        (GpuRequest(kind="L4", count=2),), 3, (ProvisioningModel.SPOT,), ("east",),
    )  # fmt: skip


def test_without_quotas_all_backends_are_named(world):
    with pytest.raises(RequestError, match="compute and vertex has no quotas"):
        world.trainer(Place("compute"), Place("vertex")).quotas("L4:1")


def test_a_kind_of_gpu_is_a_fault_only_where_no_backend_knows_it(world):
    def nowhere(name):
        def find(kind):
            raise UnknownGpuError(f"there is no {kind} on {name}", fix=f"take one of {name}")

        return Looking(name, find_gpu=find)

    knows, not_so = Looking("compute"), nowhere("vertex")
    assert len(world.trainer(knows, not_so).quotas("L4:1")) == 2
    for asked in ([not_so], [not_so, nowhere("slurm")]):  # the first says it
        with pytest.raises(SpecError) as caught:
            world.trainer(*asked).quotas("L4:1")
        (told,) = caught.value.faults
        assert (told.field, told.value, told.fix) == ("gpu", "'L4:1'", "take one of vertex")
        assert "there is no L4 on vertex" in str(caught.value)
    for nobodys in ("8", 4):
        with pytest.raises(SpecError, match="a kind of GPU"):
            world.trainer(knows).quotas(nobodys)


@pytest.mark.parametrize(("asked", "named"), [({"num_nodes": 0}, 1), ({"num_nodes": 1001}, 1), ({}, 0)])
def test_nodes_are_counted_from_one_to_a_thousand(world, asked, named):
    place = Looking("compute")
    if named:
        with pytest.raises(SpecError, match="num_nodes"):
            world.trainer(place).quotas(**asked)
    else:
        world.trainer(place).quotas(num_nodes=1000)
        assert place.asked[1] == 1000
