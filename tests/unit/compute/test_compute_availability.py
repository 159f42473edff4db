"""What Compute Engine tells of places before anything is made there."""

import pytest

from gputrain import Trainer
from gputrain.planning import candidates
from gputrain.quota import Verdict
from gputrain.spec import TrainingSpec
from tests.support.clouds import reserve

ZONE = "us-central1-a"
H100 = {"gpu": "H100:8", "machine_type": "a3-highgpu-8g"}
L4 = {"gpu": "L4:1", "machine_type": "g2-standard-4"}
MACHINES = "compute.machineTypes.aggregatedList"
ADVICE = "compute.advice.capacity"


def spec(code, **more):
    return TrainingSpec(script=code, **{"gpu": "H100:8", "provisioning_model": "standard", **more})


def facts(backend, code, **more):
    """Facts by place, of the first machine there."""
    wanted = candidates(spec(code, **more), [backend.supply]).candidates
    told = backend.availability(wanted)
    assert set(told) == set(wanted)
    return {one.place: told[one] for one in reversed(wanted)}


def methods(cloud):
    return sorted(one.method for one in cloud.requests)


def test_one_plan_asks_for_quotas_and_machines_and_no_more(cloud, backend, code):
    found = facts(backend, code)
    assert methods(cloud) == sorted(
        ["cloudquotas.quotaInfos.list", "compute.projects.get", "compute.regions.list", MACHINES, MACHINES]
    )  # the machine types take two pages
    assert found[ZONE].verdict is Verdict.FITS
    assert MACHINES.partition(".")[2] in found[ZONE].availability
    before = len(cloud.requests)
    facts(backend, code)
    assert len(cloud.requests) == before


def test_offline_there_is_a_plan_with_everything_unknown(make, code):
    class Nowhere:
        compute = cloudquotas = storage = logging = "http://127.0.0.1:9"  # nobody listens there

    plan = Trainer(make(endpoints=Nowhere())).plan(spec(code))
    assert {one.fact.verdict for one in plan.candidates} == {Verdict.UNKNOWN}
    assert "catalog" in plan.candidates[0].fact.availability
    assert "no answer from http://127.0.0.1:9" in plan.candidates[0].fact.note


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("standard", {"num_nodes": 2, **L4}),
        ("reservation-bound", {"gpu": "H200:8", "machine_type": "a3-ultragpu-8g"}),
    ],
)
def test_a_reservation_with_room_is_no_obstacle_and_counts_against_no_quota(
    cloud, backend, code, model, asked
):
    zone = "us-central1-b"
    reserve(cloud, "mine", machine=asked["machine_type"], zone=zone)
    cloud.quota("GPUS_ALL_REGIONS", 0)
    found = facts(backend, code, reservation="mine", provisioning_model=model, **asked)
    assert (found[zone].absent_why, found[zone].verdict) == ("", Verdict.FITS)
    assert all("is in us-central1-b" in one.absent_why for place, one in found.items() if place != zone)


@pytest.mark.parametrize(
    ("kept", "asked", "why"),
    [
        ({"count": 1}, {"num_nodes": 2}, "1 of the 2 machines needed are free"),
        ({"machine": "a2-highgpu-1g"}, {}, "it holds a2-highgpu-1g"),
        ({}, {"reservation": "yours"}, "reservation yours does not exist"),
    ],
)
def test_a_reservation_that_does_not_carry_the_job_rules_the_place_out(
    cloud, backend, code, kept, asked, why
):
    reserve(cloud, "mine", **kept)
    found = facts(backend, code, **{"reservation": "mine", **L4, **asked})
    assert why in found[ZONE].absent_why


def test_advice_sends_spot_machines_where_there_is_room(cloud, backend, code):
    asked = {"provisioning_model": "spot", "num_nodes": 2, **L4}
    cloud.stock(ZONE, "g2-standard-4", 1)
    found = facts(backend, code, **asked)
    assert found[ZONE].obtainability < found["us-central1-b"].obtainability
    assert Trainer(backend).plan(spec(code, **asked)).candidates[0].place != ZONE


def test_advice_is_asked_for_a_few_places_only_and_never_where_it_is_switched_off(cloud, make, code):
    many = {"gpu": ["H100:8", "L4:1", "A100-80GB:1"], "provisioning_model": ["spot", "flex-start"]}
    facts(make(capacity_advice=False), code, **many)
    assert ADVICE not in methods(cloud)
    facts(make(), code, **many)
    assert methods(cloud).count(ADVICE) == 6


@pytest.fixture
def in_us_east4(make):
    return make(regions=["us-east4"])


RTX = {"gpu": "RTX-PRO-6000:2", "provisioning_model": "standard"}


def test_where_a_region_sells_it_and_no_table_has_a_zone_the_live_list_decides(cloud, in_us_east4, code):
    cloud.compute.offer("g4-standard-96", "us-east4-b")
    plan = Trainer(in_us_east4).plan(spec(code, **RTX))
    assert [one.place for one in plan.candidates] == ["us-east4-b"]
    assert any("us-east4-a has no g4-standard-96" in one.why for one in plan.refusals)


@pytest.mark.parametrize("zone", ["us-central1-ai1a", "us-central1-f"])
def test_the_zone_of_a_reservation_is_a_place_though_no_table_has_it(make, code, zone):
    name = f"projects/my-project/zones/{zone}/reservations/mine"
    wanted = candidates(spec(code, gpu="H200:8", provisioning_model="reservation-bound", reservation=name), [
        make(regions=["us-central1"]).supply
    ])  # fmt: skip
    assert zone in {one.place for one in wanted.candidates}
    assert {one.region for one in wanted.candidates} == {"us-central1"}
