"""A job that goes on: when it asks again, with which code, and what it may not do."""

import json
from pathlib import Path

import attrs
import pytest

import gputrain
from gputrain import NoPlacementError, RequestError, SpecError, State, Trainer
from gputrain.backends.compute.gang import Gangs
from gputrain.trainer.next import rest_s
from tests.unit.records.values import SPEC, record
from tests.unit.trainer.conftest import L4, MACHINE, creates, tried

SPOT = {**L4, "provisioning_model": "spot", "max_restarts": 1, "max_wait_duration": "6h"}


@pytest.mark.parametrize(
    ("waited_s", "rests_s"), [(0, 30), (20, 30), (60, 60), (240, 240), (900, 600), (50_000, 600)]
)
def test_rests_between_rounds_are_as_long_as_it_has_waited_within_bounds(waited_s, rests_s):
    waiting = record(waiting_since=1000.0 if waited_s else 0.0)
    assert rest_s(attrs.evolve(waiting, written_at=1000.0 + waited_s)) == rests_s


@pytest.mark.parametrize(("waited_s", "rests_s"), [(1100, 100), (1199.5, 1), (1300, 1)])
def test_the_last_rest_ends_with_max_wait_duration_and_is_never_none(waited_s, rests_s):
    spec = SPEC.replace(max_wait_duration="20m").to_dict()
    assert rest_s(record(spec=spec, waiting_since=1000.0, written_at=1000.0 + waited_s)) == rests_s


def test_however_many_watch_a_job_without_room_its_rounds_grow_rare(cloud, trainer, script):
    job = trainer("compute").submit(script, **SPOT)
    watchers = [trainer("compute").attach(job.uri) for _ in range(3)]
    cloud.clock.advance(120)
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    cloud.preempt(f"{job.ref.name}-0-0")
    start = len(creates(cloud))
    for _ in range(120):
        cloud.clock.advance(30)
        for one in watchers:
            one.refresh()
            one.supervise()
    rounds = (len(creates(cloud)) - start) / 3  # three zones have such machines
    assert 8 <= rounds <= 12  # 30, 30, 60, 120, 240, 480 s, then every 600 s, in an hour


def code_of(vm):
    """The hash of the code that a VM is to run."""
    items = {one["key"]: one["value"] for one in vm.resource["metadata"]["items"]}
    (job,) = [json.loads(text) for text in items.values() if '"order"' in text]
    return job["order"]["sha256"]


def late(cloud, trainer, script, *names, **settings):
    """A job that Vertex AI took, and found no machines for."""
    cloud.vertex.set_stock(MACHINE, 0, region="us-central1")
    job = trainer("vertex", "compute", **settings).submit(script, **L4, idempotency_key="k")
    assert job.ref.backend == "vertex"
    cloud.clock.advance(1000)
    job.refresh()
    return job


def test_a_job_that_goes_on_elsewhere_runs_the_code_that_was_submitted(cloud, trainer, script):
    job = late(cloud, trainer, script)
    record = next(iter(job._backend.recorder().board.entries())).job_id
    submitted = job._backend.recorder().board.read(record).code.sha256
    Path(script).write_text("print('edited since')\n")
    assert job.supervise()
    assert [code_of(vm) for vm in cloud.compute.vms.values()] == [submitted]


def test_a_key_whose_submit_made_nothing_is_about_what_is_submitted_now(cloud, trainer, script):
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    cloud.fail("storage.objects.delete", "C26", times=None)  # the record of the first submit stays
    with pytest.raises(NoPlacementError):
        trainer("compute").submit(script, **L4, idempotency_key="k")
    cloud.stock("us-central1-b", MACHINE, None)
    cloud.clock.advance(3600)
    Path(script).write_text("print('edited since')\n")
    job = trainer("compute").submit(script, **L4, idempotency_key="k")
    record = job._backend.recorder().board.read(job.ref.name)
    assert [code_of(vm) for vm in cloud.compute.vms.values()] == [record.code.sha256]


def test_a_hop_into_a_bucket_without_the_code_is_refused_with_its_reason_and_nothing_is_asked(
    cloud, backend, now, script
):
    cloud.add_bucket("other-bucket", location="us-central1")
    cloud.vertex.set_stock(MACHINE, 0, region="us-central1")
    both = [backend("vertex"), backend("compute", bucket="gs://other-bucket")]
    job = Trainer(both, now=now, sleep=cloud.clock.advance).submit(script, **L4, idempotency_key="k")
    cloud.clock.advance(1000)
    both = [backend("vertex"), backend("compute", bucket="gs://other-bucket")]
    stranger = Trainer(both, now=now, sleep=cloud.clock.advance).attach(job.uri)
    stranger.refresh()
    assert not stranger.supervise()
    assert creates(cloud)[1:] == []
    assert any("is not there" in f"{one.answer} {one.error}" for one in stranger.attempts)


class KilledError(BaseException):
    """Nobody catches it, as nobody catches a kill."""


def test_a_cancel_of_what_never_began_ends_its_key_also_where_its_record_is_at_home(
    cloud, backend, now, script, monkeypatch
):
    cloud.add_bucket("other-bucket", location="us-central1")

    def trainer():
        both = [backend("compute", bucket="gs://other-bucket"), backend("vertex")]
        return Trainer(both, now=now, sleep=cloud.clock.advance)

    def killed(*_):
        raise KilledError

    with monkeypatch.context() as context:
        context.setattr(Gangs, "make", killed)
        with pytest.raises(KilledError):
            trainer().submit(script, **L4, idempotency_key="k")
    cloud.clock.advance(1000)
    (job,) = trainer().jobs()
    assert (job.state, job.ref.backend) == (State.EXPIRED, "compute")
    job.cancel()
    assert trainer().submit(script, **L4, idempotency_key="k").refresh().state is State.CANCELLED
    assert creates(cloud) == []


def test_a_cancel_by_a_trainer_that_cannot_write_where_the_record_is_at_home_says_so(
    cloud, backend, now, script
):
    cloud.add_bucket("other-bucket", location="us-central1")
    compute = backend("compute", bucket="gs://other-bucket")
    both = Trainer([compute, backend("vertex")], now=now, sleep=cloud.clock.advance)
    job = both.submit(script, **L4, idempotency_key="k")
    alone = Trainer(compute, now=now, sleep=cloud.clock.advance).attach(job.uri)
    with pytest.raises(RequestError, match=r"a watcher may start it again: .* is kept in gs://my-bucket"):
        alone.cancel()
    cloud.clock.advance(120)
    assert not cloud.compute.vms


def test_each_life_of_a_job_has_a_number_of_its_own(cloud, trainer, script):
    job = trainer("compute").submit(script, **{**SPOT, "max_restarts": 2})
    for life in range(3):
        cloud.clock.advance(400)
        (vm,) = cloud.compute.vms.values()
        assert vm.name == f"{job.ref.name}-{life}-0"
        cloud.preempt(vm.name)
        cloud.clock.advance(400)
        job.refresh()
        assert job.supervise() is (life < 2)


def test_a_cancel_by_the_name_that_was_told_first_ends_what_has_gone_on_elsewhere(cloud, trainer, script):
    job = late(cloud, trainer, script)
    other = trainer("vertex", "compute").attach(job.uri)
    assert job.supervise()
    assert len(cloud.compute.vms) == 1
    other.cancel()
    cloud.clock.advance(120)
    assert not cloud.compute.vms
    assert not trainer("vertex", "compute").attach(job.uri).supervise()
    assert not cloud.compute.vms


def test_a_job_of_a_backend_that_a_trainer_lacks_is_refused_by_name(cloud, trainer, script):
    job = trainer("compute").submit(script, **L4)
    with pytest.raises(SpecError, match="this trainer has no backend 'compute'") as caught:
        trainer("vertex").attach(job.uri)
    (fault,) = caught.value.faults
    assert (fault.allowed, fault.fix) == ("a job of vertex", "gputrain.attach(uri) finds it by itself")


@pytest.mark.parametrize(
    ("name", "own"), [("compute", "my-project"), ("compute", "~my-bucket"), ("vertex", "my-project")]
)
def test_a_name_of_anothers_project_or_bucket_is_none_of_ours(cloud, trainer, backend, script, name, own):
    job = trainer(name).submit(script, **L4, idempotency_key="k")
    uri = job.uri.replace(own, own.replace("my", "their"))
    assert uri != job.uri
    asked = len(cloud.requests)
    for attach in (trainer(name).attach, lambda uri: gputrain.attach(uri, backend=backend(name))):
        with pytest.raises(SpecError, match="it is no job of this backend") as caught:
            attach(uri).cancel()
        assert caught.value.faults[0].fix == "gputrain.attach(uri) finds it by itself"
    assert len(cloud.requests) == asked


def test_nobody_who_goes_on_with_a_job_asks_where_its_submitter_did_not(cloud, trainer, script, caplog):
    job = interrupted(cloud, trainer, script)
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    assert not trainer("compute", regions=("europe-west4",)).attach(job.uri).supervise()
    assert "was asked for in us-central1 of compute alone, where no backend here asks" in caplog.text
    wide = trainer("compute", "vertex", regions=("us-central1", "europe-west4")).attach(job.uri)
    assert not wide.supervise()
    assert {one.place[:11] for one in of_board(job).ways} == {"us-central1"}
    assert {(one.way.backend, one.way.region) for one in of_board(job).asks} == {("compute", "us-central1")}
    assert not cloud.compute.vms
    assert not cloud.vertex.jobs


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
    assert plan.submit().candidate == plan.best


def interrupted(cloud, trainer, script, **more):
    """A job of VMs that was preempted, and that nobody has started again yet."""
    job = trainer("compute").submit(script, **{**SPOT, **more})
    cloud.clock.advance(400)
    cloud.preempt(f"{job.ref.name}-0-0")
    cloud.clock.advance(400)
    return job


def of_board(job):
    """The record of the only job there is."""
    board = job._backend.recorder().board
    return board.read(next(iter(board.entries())).job_id)


def nonces(cloud):
    return [vm.resource["labels"]["gputrain-gang"] for vm in cloud.compute.vms.values()]


def test_a_restart_whose_asker_died_is_asked_again_as_it_was(cloud, trainer, script, monkeypatch):
    job = interrupted(cloud, trainer, script)

    def die(*_):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(type(job._backend), "create", die)  # its ask is written, and was never sent
        with pytest.raises(SystemExit):
            trainer("compute").attach(job.uri).supervise()
    asked = of_board(job).last.nonce
    cloud.clock.advance(19)
    assert not trainer("compute").attach(job.uri).supervise()  # whoever asked may be at it still
    assert not nonces(cloud)
    cloud.clock.advance(3)
    assert trainer("compute").attach(job.uri).supervise()
    assert nonces(cloud) == [asked]


def test_a_restart_writes_down_nothing_else_than_its_ask(cloud, trainer, script):
    job = interrupted(cloud, trainer, script, max_restarts=2)
    before = of_board(job)
    assert trainer("compute").attach(job.uri).supervise()
    after = of_board(job)
    assert (after.spec, after.code, after.ways) == (before.spec, before.code, before.ways)
    assert len(after.asks) == len(before.asks) + 1


@pytest.mark.parametrize(("wait", "last_s"), [("30m", 1800), ("1h", 3600)])
def test_a_restart_without_room_waits_as_long_as_it_may_and_no_longer(cloud, trainer, script, wait, last_s):
    job = interrupted(cloud, trainer, script, max_wait_duration=wait)
    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", MACHINE, 0)
    began, mine = cloud.clock.now(), trainer("compute").attach(job.uri)
    while cloud.clock.now() - began < last_s - 60:
        mine.supervise()
        assert not mine.refresh().state.is_terminal
        cloud.clock.advance(300)
    for _ in range(5):
        cloud.clock.advance(300)
        mine.supervise()
    assert mine.refresh().state is State.EXPIRED
    assert not cloud.compute.vms


@pytest.mark.parametrize(("is_full", "where"), [(False, "there"), (True, "elsewhere")])
def test_the_ledger_says_whether_a_job_went_on_where_it_was(cloud, trainer, script, is_full, where):
    job = interrupted(cloud, trainer, script)
    if is_full:
        cloud.stock(tried(job)[-1][1], MACHINE, 0)
    job.refresh()
    assert job.supervise()
    assert f"interrupted there, and it starts again {where}" in [one.answer for one in job.attempts]


def test_a_job_that_cannot_be_looked_after_keeps_no_other_from_it(cloud, trainer, script):
    ours = [interrupted(cloud, trainer, script) for _ in range(2)]
    cloud.fail("compute.instances.bulkInsert", "C26")  # one may not be made, the next may
    (started,) = trainer("compute").supervise()
    assert started.ref.name in [job.ref.name for job in ours]
    assert len(cloud.compute.vms) == 1
