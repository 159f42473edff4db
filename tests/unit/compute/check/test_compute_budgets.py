"""Time and money carry over restarts, whoever restarts, and however little is known of an attempt."""

import json

import attrs
import pytest

from gputrain.backends.compute.names import JobObjects
from gputrain.keeper.status import SCHEMA
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from gputrain_emulator.clock import zulu_time
from gputrain_emulator.compute import networks
from tests.unit.steps import Steps, supervised

LIMIT_S = 3600
NAME = "bert-1-{}-0"


@pytest.fixture
def job(cloud, make, code):
    """Submits a Spot job of one VM in a cloud with room; its reference and the record's reader."""
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)

    def submit(**fields):
        fields = {
            "provisioning_model": "spot",
            "max_restarts": 2,
            "max_run_duration": f"{LIMIT_S}s",
            **fields,
        }
        road = Steps(make())
        ref = road.submit(TrainingSpec(script=code, gpu="L4:1", **fields), job_id="bert-1")
        return ref, road.backend

    return submit


def say(cloud, backend, attempt, **document):
    """What a guest writes of itself."""
    name = JobObjects(bucket=backend._settings.bucket, job_id="bert-1").status(attempt, 0)
    backend._access.post(
        f"{cloud.endpoints.storage}/upload/storage/v1/b/my-bucket/o",
        action="say what a guest says",
        params={"uploadType": "media", "name": name},
        data=json.dumps({"schema": SCHEMA, **document}).encode(),
    )


def reclaim(cloud, attempt, after_s):
    cloud.clock.advance(after_s)
    cloud.preempt(NAME.format(attempt), to_stock=True)
    cloud.clock.advance(300)


def limit_s(cloud, attempt):
    (vm,) = [vm for vm in cloud.compute.vms.values() if vm.name == NAME.format(attempt)]
    return int(vm.resource["scheduling"]["maxRunDuration"]["seconds"])


def test_a_restart_gets_what_the_attempts_before_have_left_of_the_time(cloud, job):
    ref, backend = job()
    say(cloud, backend, 0, phase="running", waiting_at=zulu_time(cloud.clock.now()))
    reclaim(cloud, 0, 1000)
    assert backend.observe(ref).state is State.INTERRUPTED
    assert supervised(backend, ref)
    assert LIMIT_S - 1200 <= limit_s(cloud, 1) <= LIMIT_S - 1000


def test_an_attempt_of_which_no_guest_ever_wrote_counts_too(cloud, job):
    ref, backend = job()
    reclaim(cloud, 0, 2000)
    backend.observe(ref)
    assert supervised(backend, ref)
    assert LIMIT_S - 2250 <= limit_s(cloud, 1) <= LIMIT_S - 2000


def test_the_handle_shows_the_time_of_all_attempts(cloud, make, job):
    ref, backend = job()
    reclaim(cloud, 0, 1000)
    backend.observe(ref)
    assert supervised(backend, ref)
    say(cloud, backend, 1, phase="running", running_at=zulu_time(cloud.clock.now()))
    handle = Trainer(make()).attach(ref.uri)
    seen = handle.refresh()
    assert seen.ran_before_s >= 1000
    assert handle.duration.total_seconds() >= 1000


def test_hours_after_the_end_are_not_counted(cloud, job):
    ref, backend = job()
    reclaim(cloud, 0, 100)
    cloud.clock.advance(10 * LIMIT_S)
    backend.observe(ref)
    assert supervised(backend, ref)
    assert limit_s(cloud, 1) > LIMIT_S - 400


def test_a_job_whose_time_is_used_up_is_not_started_again(cloud, job):
    ref, backend = job()
    reclaim(cloud, 0, LIMIT_S - 120)
    seen = backend.observe(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "preempted")
    assert not supervised(backend, ref)
    assert not cloud.compute.vms


def test_max_restarts_is_for_all_supervisors_together(cloud, make, job):
    ref, _ = job(max_restarts=1)
    reclaim(cloud, 0, 10)
    one, two = make(), make()
    assert [supervised(one, ref), supervised(two, ref)] == [True, False]
    reclaim(cloud, 1, 10)
    assert make().observe(ref).state is State.FAILED
    assert not supervised(make(), ref)


def test_no_restarts_were_asked_for(cloud, job):
    ref, backend = job(max_restarts=0)
    reclaim(cloud, 0, 10)
    assert backend.observe(ref).state is State.FAILED


def test_money_that_was_spent_is_not_spent_again(cloud, job):
    ref, backend = job(max_cost=0.2, max_run_duration="10h")
    first = limit_s(cloud, 0)
    assert first < 36000
    reclaim(cloud, 0, 1000)
    backend.observe(ref)
    assert supervised(backend, ref)
    assert limit_s(cloud, 1) <= first - 1000


def test_a_dearer_zone_gets_less_time_for_the_same_money(cloud, job):
    ref, backend = job(max_cost=0.2, max_run_duration="10h")
    record = backend.recorder().board.read(ref.name)
    ask = attrs.evolve(record.last, price_usd_h=2 * record.last.price_usd_h)
    dear = attrs.evolve(record, asks=(ask,))
    assert dear.left_s == pytest.approx(record.left_s / 2, abs=2)
    spent = record.spent(record.left_s // 2)
    assert spent.left_s == pytest.approx(record.left_s / 2, abs=2)
    assert attrs.evolve(dear, used_s=spent.used_s, used_usd=spent.used_usd).left_s < spent.left_s


def test_a_restart_in_another_region_asks_for_that_regions_subnetwork_and_price(cloud, make, code):
    cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", 8)
    backend = make(regions=["us-central1", "us-east4"], subnetwork="default")
    spec = TrainingSpec(
        script=code, gpu="L4:1", machine_type="g2-standard-4", provisioning_model="spot", max_restarts=1,
        max_run_duration="1h",
    )  # fmt: skip
    ref = Steps(backend).submit(spec, job_id="bert-1", everywhere=True)
    reclaim(cloud, 0, 10)
    for letter in "abcf":
        cloud.stock(f"us-central1-{letter}", "g2-standard-4", 0)
    backend.observe(ref)
    before = backend.recorder().board.read(ref.name).last
    assert supervised(backend, ref)
    (vm,) = cloud.compute.vms.values()
    assert vm.zone.startswith("us-east4")
    assert "regions/us-east4/" in vm.resource["networkInterfaces"][0]["subnetwork"]
    after = backend.recorder().board.read(ref.name).last
    assert after.price_usd_h != before.price_usd_h


def test_a_restart_passes_by_a_region_without_quota_or_without_a_way_out(cloud, make, code):
    backend = make(regions=["us-central1", "us-east4", "us-west1"])
    for region, limit in (("us-central1", 1), ("us-east4", 0), ("us-west1", 1)):
        cloud.quota("PREEMPTIBLE_NVIDIA_L4_GPUS", limit, region=region)
    spec = TrainingSpec(
        script=code, gpu="L4:1", machine_type="g2-standard-4", provisioning_model="spot", max_restarts=1,
        max_run_duration="1h",
    )  # fmt: skip
    ref = Steps(backend).submit(spec, job_id="bert-1", everywhere=True)
    reclaim(cloud, 0, 10)
    for letter in "abcf":
        cloud.stock(f"us-central1-{letter}", "g2-standard-4", 0)
    networks.shut_in(cloud.compute, "my-project", "us-west1")
    backend.observe(ref)
    assert not supervised(backend, ref)
    networks.add_nat(cloud.compute, "my-project", "us-west1")
    cloud.clock.advance(60)
    assert supervised(backend, ref)
    (vm,) = cloud.compute.vms.values()
    assert vm.zone.startswith("us-west1")


def test_a_service_that_supervises_starts_what_was_interrupted_and_nothing_else(cloud, make, job, code):
    job()
    other = Steps(make()).submit(TrainingSpec(script=code, gpu="L4:1", max_run_duration="1h"), job_id="gpt-1")
    reclaim(cloud, 0, 10)
    service = Trainer(make())
    assert [one.ref.name for one in service.supervise()] == ["bert-1"]
    assert [one.ref.name for one in service.supervise()] == []
    assert make().observe(other).attempt == 0


def test_whoever_waits_starts_it_again(cloud, make, job):
    ref, _ = job()
    reclaim(cloud, 0, 10)
    waiting = Trainer(make()).attach(ref.uri)
    waiting.refresh()
    assert waiting.state is State.INTERRUPTED
    assert waiting.resume()
    assert waiting.refresh().attempt == 1


def test_a_log_that_is_not_whole_is_told_however_well_the_job_ended(cloud, job):
    ref, backend = job()
    result = {"state": "done", "exit_code": 0, "node_rank": 0, "lost_lines": 2}
    say(cloud, backend, 0, phase="ended", exit_code=0, result=result, lost_lines=3)
    seen = backend.observe(ref)
    assert (seen.state, seen.exit_code) == (State.SUCCEEDED, 0)
    assert seen.detail == "5 lines of the log were lost: they could not be written"
