"""What is made of what backends in memory say beforehand: of a job, and of their quotas."""

import pytest

from gputrain import RequestError
from gputrain.catalog import ProvisioningModel, Service
from gputrain.doctor import Check, Checks, Finding
from gputrain.quota import Quotas
from gputrain.quota.model import QuotaStatus
from tests.unit.trainer.places import Place

L4 = {"gpu": "L4:1", "max_run_duration": "1h"}


class Looking(Place):
    """A place that looks at what a job needs, and has quotas."""

    has_quotas = True
    looked = None
    asked = None

    def preflight(self, spec, wanted):
        self.looked = spec, wanted
        return Checks(checks=[Check(backend=self.name, subject="bucket", finding=Finding.OK, why="there")])

    def quotas(self, gpus=(), *, num_nodes=1, models=(), regions=()):
        self.asked = gpus, num_nodes, models, regions
        model = ProvisioningModel.SPOT
        one = QuotaStatus(
            service=Service.COMPUTE, gpu="L4", gpus=1, provisioning_model=model, region=self.name
        )
        return Quotas(statuses=(one,), unread=(f"{self.name} is slow",))


def told(checks):
    return {(one.backend, one.subject, one.finding.value, one.why, one.fix) for one in checks}


def test_without_a_spec_each_backend_is_asked_what_every_job_needs(world):
    looks, silent = Looking("compute", world), Place("vertex", world)
    checks = world.trainer(looks, silent).doctor()
    assert looks.looked == (None, ())
    assert told(checks) == {
        ("compute", "bucket", "ok", "there", ""),
        ("vertex", "preflight", "unknown", "this backend checks nothing beforehand", ""),
    }


def test_a_backend_that_can_run_a_job_is_asked_of_its_places(world, script):
    two, one = Looking("compute", world), Looking("vertex", world, places=("north-a",))
    checks = world.trainer(two, one).doctor(script, **L4, idempotency_key="k")
    spec, wanted = two.looked
    assert ([each.place for each in wanted], spec.script) == (["east-a", "west-b"], script)
    assert [each.place for each in one.looked[1]] == ["north-a"]
    assert told(checks) == {
        ("compute", "bucket", "ok", "there", ""),
        ("vertex", "bucket", "ok", "there", ""),
        ("compute", f"{script} as asked", "ok", "2 ways to run it, by the catalog", ""),
        ("vertex", f"{script} as asked", "ok", "1 way to run it, by the catalog", ""),
    }


def test_a_plan_says_which_of_its_clouds_are_emulated(world, script):
    real, emulated, local = Place("compute", world), Place("vertex", world), Place("slurm", world)
    real.emulator, emulated.emulator = "", "http://127.0.0.1:1"
    assert world.trainer(real, local).plan(script, **L4).notes == ()
    (note,) = world.trainer(real, emulated, local).plan(script, **L4).notes
    assert note.startswith("Using the emulator at http://127.0.0.1:1")


def test_without_quotas_all_backends_are_named(world):
    with pytest.raises(RequestError, match="compute and vertex has no quotas"):
        world.trainer(Place("compute", world), Place("vertex", world)).quotas("L4:1")
