"""A gang that may go on with fewer nodes does, where there is no room for all, and its bill says so."""

import pytest

from gputrain.errors import SpecError
from gputrain.lifecycle import State
from gputrain.records import MADE
from gputrain.spec import TrainingSpec
from gputrain.trainer import Trainer
from gputrain.trainer.ways import ways_on
from tests.unit.records.values import record
from tests.unit.steps import Steps, supervised

MACHINE = "g2-standard-4"
ZONES = ("us-central1-a", "us-central1-b", "us-central1-c")


@pytest.fixture
def reclaimed(cloud, make, code):
    """A job of Spot nodes, three unless told, that lost one; its first zone has room for so many."""

    def lose(room, **fields):
        cloud.compute.settings.quotas = False
        spec = TrainingSpec(
            script=code, gpu="L4:1", machine_type=MACHINE, provisioning_model="spot",
            max_run_duration="10h", **{"num_nodes": 3, "max_restarts": 3, **fields},
        )  # fmt: skip
        ref = Steps(make()).submit(spec, job_id="bert-1")
        cloud.clock.advance(120)
        cloud.preempt("bert-1-0-1")
        for zone in ZONES:
            cloud.stock(zone, MACHINE, 0)
        cloud.clock.advance(300)
        for vm in list(cloud.compute.vms.values()):
            make()._gangs.delete(vm.zone, vm.name)
        cloud.clock.advance(300)
        cloud.stock(ZONES[0], MACHINE, room)
        return ref

    return lose


def test_ways_with_one_node_fewer_two_four_and_so_on_stand_below_those_for_the_whole_gang(make, code):
    spec = TrainingSpec(script=code, gpu="L4:1", num_nodes=16, min_nodes=3, max_restarts=1)
    ran = record().answered(MADE)
    ways = ways_on(ran, spec, [make().supply])
    assert list(dict.fromkeys(one.num_nodes for one in ways)) == [16, 15, 14, 12, 8, 3]
    assert {one.num_nodes + one.missing_nodes for one in ways} == {16}


def names(cloud):
    return sorted(vm.name for vm in cloud.compute.vms.values())


@pytest.mark.parametrize(("room", "wanted"), [(2, 3), (3, 4)])
def test_it_goes_on_with_as_many_as_there_is_room_for(cloud, make, reclaimed, room, wanted):
    ref = reclaimed(room, num_nodes=wanted, min_nodes=1)
    job = Trainer(make()).attach(ref.uri)
    whole = job.candidate
    job.refresh()
    assert job.supervise()
    assert names(cloud) == [f"bert-1-1-{rank}" for rank in range(room)]
    assert job.candidate.num_nodes == room
    assert job.candidate.price_usd_h == pytest.approx(whole.price_usd_h * room / wanted)
    assert any(f"with {room} of {wanted} nodes" in one.answer for one in job.attempts)
    other = Trainer(make()).attach(ref.uri)
    other.refresh()
    assert (other.candidate.num_nodes, other.attempt) == (room, 1)
    assert other.attempts[0].candidate.num_nodes == wanted


def test_a_handle_knows_the_nodes_and_the_cost_of_a_gang_that_another_process_made_smaller(
    cloud, make, code, reclaimed
):
    ref = reclaimed(2, min_nodes=1)
    handle = Trainer(make()).attach(ref.uri)
    whole = handle.candidate.price_usd_h
    handle._candidate, handle._attempts = handle.candidate, handle.attempts  # as of who submitted it
    handle.refresh()
    assert supervised(make(), ref)
    cloud.clock.advance(600)
    handle.refresh()
    assert handle.candidate.num_nodes == 2
    assert handle.candidate.price_usd_h == pytest.approx(whole * 2 / 3)
    other = Trainer(make()).attach(ref.uri)
    other.refresh()
    assert handle.cost_usd == pytest.approx(other.cost_usd)
    before = other._seen
    assert before.spent_before_usd == pytest.approx(before.ran_before_s / 3600 * whole)
    assert handle.attempts == other.attempts


def test_an_attempt_costs_as_much_before_it_is_written_down_as_afterwards(make, reclaimed):
    ref = reclaimed(3)
    handle = Trainer(make()).attach(ref.uri)
    handle.refresh()
    told = handle.cost_usd
    assert (handle.duration, told > 0) == (None, True)  # no rank ran, and the machines were paid for
    assert supervised(make(), ref)
    handle.refresh()
    assert told == pytest.approx(handle._seen.spent_before_usd)


def test_with_room_for_all_it_is_whole_again(cloud, make, reclaimed):
    ref = reclaimed(3, min_nodes=1)
    backend = make()
    assert backend.observe(ref).state is State.INTERRUPTED
    assert supervised(backend, ref)
    assert names(cloud) == ["bert-1-1-0", "bert-1-1-1", "bert-1-1-2"]


@pytest.mark.parametrize("fields", [{}, {"min_nodes": 2}])
def test_with_room_for_less_than_it_may_have_it_waits(cloud, make, reclaimed, fields):
    ref = reclaimed(1, **fields)
    backend = make()
    backend.observe(ref)
    assert not supervised(backend, ref)
    assert names(cloud) == []
    assert make().observe(ref).state is State.INTERRUPTED


def test_it_grows_again_with_its_next_start(cloud, make, reclaimed):
    ref = reclaimed(2, min_nodes=1)
    assert supervised(make(), ref)
    cloud.clock.advance(120)
    cloud.preempt("bert-1-1-0", to_stock=True)
    cloud.clock.advance(300)
    for vm in list(cloud.compute.vms.values()):
        make()._gangs.delete(vm.zone, vm.name)
    cloud.clock.advance(300)
    cloud.stock(ZONES[0], MACHINE, 3)
    assert supervised(make(), ref)
    assert names(cloud) == ["bert-1-2-0", "bert-1-2-1", "bert-1-2-2"]


def test_its_guests_are_told_so_that_sessions_reshard(make, code):
    spec = TrainingSpec(script=code, gpu="L4:1", num_nodes=2, min_nodes=1, max_restarts=1)
    request = Steps(make()).request(spec)
    assert request.body["job"]["env"]["GPUTRAIN_MIN_NODES"] == "1"


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"min_nodes": 3, "max_restarts": 1}, "min_nodes"), ({"min_nodes": 1}, "max_restarts")],
)
def test_what_cannot_be_is_refused(fields, field):
    with pytest.raises(SpecError) as caught:
        TrainingSpec(script="train.py", num_nodes=2, **fields)
    assert [fault.field for fault in caught.value.faults] == [field]
