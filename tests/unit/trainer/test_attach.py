"""A job that goes on, on emulated clouds: who launches it again, where, with which code, and who may not."""

import pytest

import gputrain
from gputrain import Local, SpecError, State, Trainer
from tests.unit.trainer.conftest import L4, MACHINE, creates

SPOT = {**L4, "provisioning_model": "spot", "max_restarts": 1, "max_wait_duration": "6h"}


def late(cloud, trainer, script):
    """A job that Vertex AI took, and found no machines for."""
    cloud.vertex.set_stock(MACHINE, 0, region="us-central1")
    job = trainer("vertex", "compute").submit(script, **L4, idempotency_key="k")
    assert job.backend == "vertex"
    cloud.clock.advance(1000)
    job.refresh()
    return job


def interrupted(cloud, trainer, script, *names, **more):
    """A job of VMs that was preempted, and that nobody has launched again yet."""
    job = trainer(*(names or ("compute",))).submit(script, **{**SPOT, **more}, idempotency_key="k")
    assert job.backend == "compute"
    cloud.clock.advance(400)
    preempt_all(cloud)
    cloud.clock.advance(400)
    job.refresh()
    return job


def preempt_all(cloud):
    for vm in list(cloud.compute.vms.values()):
        cloud.preempt(vm.name)


def fill(cloud):
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)


def record_of(job):
    """The record of a job, as it lies in its store."""
    return job._context.jobs.read(job.id).record


def test_two_buckets_in_one_trainer_are_refused_with_the_fix(cloud, backend, now):
    cloud.add_bucket("other-bucket", location="us-central1")
    with pytest.raises(SpecError, match="keep records in one bucket"):
        Trainer([backend("vertex"), backend("compute", bucket="gs://other-bucket")], now=now)


def test_whoever_watches_a_job_that_others_took_elsewhere_follows_it_under_its_one_name(
    cloud, trainer, script
):
    job = late(cloud, trainer, script)
    other, uri = trainer("vertex", "compute").attach(job.uri), job.uri
    assert job.supervise()
    job.refresh()
    other.refresh()
    assert (other.uri, other.state, other.backend) == (uri, job.state, "compute")
    other.cancel()
    cloud.clock.advance(120)
    job.refresh()
    assert (not cloud.compute.vms, job.supervise()) == (True, False)


def test_a_trainer_without_the_jobs_backend_neither_ends_nor_launches_it(cloud, trainer, script):
    job = late(cloud, trainer, script)
    assert job.supervise()
    started = len(creates(cloud))
    with pytest.raises(SpecError, match="this trainer has no backend 'compute'"):
        trainer("vertex").attach(job.uri)
    assert trainer("vertex").supervise() == []
    assert len(creates(cloud)) == started


@pytest.mark.parametrize(("name", "own"), [("compute", "my-project"), ("vertex", "my-bucket")])
def test_a_name_of_anothers_project_or_bucket_is_none_of_ours(cloud, trainer, backend, script, name, own):
    job = trainer(name).submit(script, **L4, idempotency_key="k")
    uri = job.uri.replace(own, own.replace("my", "their"))
    assert uri != job.uri
    asked = len(cloud.requests)
    for attach in (trainer(name).attach, lambda uri: gputrain.attach(uri, backend=backend(name))):
        with pytest.raises(SpecError, match="this trainer keeps no such job") as caught:
            attach(uri).cancel()
        assert caught.value.faults[0].fix == "gputrain.attach(uri) finds it by itself"
    assert len(cloud.requests) == asked


def test_nobody_who_goes_on_with_a_job_asks_where_its_submitter_did_not(cloud, trainer, script):
    job = interrupted(cloud, trainer, script)
    fill(cloud)
    assert not trainer("compute", regions=("europe-west4",)).attach(job.uri).supervise()
    wide = trainer("compute", "vertex", regions=("us-central1", "europe-west4")).attach(job.uri)
    assert not wide.supervise()
    assert {(one.option.backend, one.option.region) for one in record_of(job).history} == {
        ("compute", "us-central1")
    }
    assert (cloud.compute.vms, cloud.vertex.jobs) == ({}, {})


def test_a_plan_shows_what_is_asked_first_once_a_place_had_no_room(cloud, trainer, script):
    both = trainer("compute", "vertex")
    first = both.plan(script, **L4).best
    cloud.stock(first.place, first.machine_type, 0)
    both.submit(script, **L4)
    plan = both.plan(script, **L4)
    assert plan.best != first
    assert f"asked last, as there was no room a short while ago: {first.place}" in plan.warnings
    assert plan.requests[0]["zone"] == plan.best.place
    assert f" at {plan.best.place}" in plan.explain().splitlines()[0]
    assert plan.submit().place == plan.best.place


ORDERS = pytest.mark.parametrize("order", [("local", "compute"), ("compute", "local")])


@pytest.fixture
def machine(backend, cloud, now, tmp_path):
    """Makes trainers of a machine, in some order of its backends; machines share the bucket alone."""

    def build(order=("local", "compute"), name="here"):
        made = {"local": Local(gpus=0, root=tmp_path / name), "compute": backend("compute")}
        return Trainer([made[one] for one in order], now=now, sleep=cloud.clock.advance)

    return build


@ORDERS
def test_a_key_is_one_job_on_two_machines_that_run_it_themselves(machine, script, order):
    job = machine(order).submit(script, idempotency_key="k")
    other = machine(order, "there").submit(script, idempotency_key="k")
    assert other == job
    assert machine(reversed(order)).submit(script, idempotency_key="k") == job
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED


@ORDERS
def test_a_job_without_a_key_that_runs_here_asks_nothing_of_the_cloud(cloud, machine, script, order):
    trainer = machine(order)
    before = len(cloud.requests)
    job = trainer.submit(script)
    assert job.wait(timeout=60, progress="none") is State.SUCCEEDED
    trainer.attach(job.uri).cancel()
    assert len(cloud.requests) == before


def test_an_experiment_is_kept_in_the_bucket_where_there_is_one(machine, script):
    machine().map(script, [{"x": 0}], name="scan").wait(timeout="5m")
    found = machine(("compute", "local"), "there").experiment("scan").wait(timeout="5m")
    more = machine().map(script, [{"x": 0}, {"x": 1}], name="scan").wait(timeout="5m")
    assert [len(one.jobs) for one in (found, more)] == [1, 2]


def test_a_job_of_this_machine_whose_record_is_in_the_bucket_is_nobodys_orphan(machine, tmp_path):
    script = tmp_path / "long.py"
    script.write_text("import time; time.sleep(600)\n")
    job = machine().submit(str(script), idempotency_key="k")
    assert job.uri.startswith("gputrain://my-project/")
    assert machine().orphans() == ()
    alone = Trainer(Local(gpus=0, root=tmp_path / "here"))
    assert [one.is_sure for one in alone.orphans()] == [False]  # nobody here knows whose it is
    assert alone.clean_up() == ()
    job.cancel()
    assert job.wait(timeout=60, progress="none") is State.CANCELLED
