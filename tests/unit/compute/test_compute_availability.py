"""What Compute Engine tells of places before anything is made there."""

import json
import threading

import pytest

from gputrain import Trainer
from gputrain.backends.compute import ComputeEngine
from gputrain.backends.compute.offers import questions
from gputrain.errors import QuotaExceededError
from gputrain.gcp import Access, Endpoints
from gputrain.planning import candidates
from gputrain.quota import Verdict
from gputrain.spec import TrainingSpec
from gputrain_emulator.faults import Delay, Reshape, server_error
from tests.unit.gcp.answering import Server, Token

ZONE = "us-central1-a"
H100 = {"gpu": "H100:8", "machine_type": "a3-highgpu-8g"}
L4 = {"gpu": "L4:1", "machine_type": "g2-standard-4"}
MACHINES = "compute.machineTypes.aggregatedList"
ACCELERATORS = "compute.acceleratorTypes.aggregatedList"
RESERVATIONS = "compute.reservations.aggregatedList"
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


def reserve(cloud, name, *, is_specific=True, count=2, machine="g2-standard-4", zone=ZONE, **more):
    """A reservation, made by Google's own client."""
    from google.cloud import compute_v1

    client = compute_v1.ReservationsClient(credentials=cloud.credentials, client_options=cloud.client_options)
    properties = {"machine_type": machine, **more}
    client.insert(
        project=cloud.project,
        zone=zone,
        reservation_resource={
            "name": name,
            "specific_reservation_required": is_specific,
            "specific_reservation": {"count": count, "instance_properties": properties},
        },
    )
    cloud.clock.advance(10)


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


def test_the_machine_type_decides_and_not_its_gpu(cloud, backend, code):
    cloud.compute.offer("a3-highgpu-8g", ZONE, offered=False)
    found = facts(backend, code, **H100)
    assert found[ZONE].absent_why.startswith(f"{ZONE} has no a3-highgpu-8g")
    assert found["us-central1-b"].absent_why == ""


def test_an_attached_gpu_is_looked_for_by_its_own_name(cloud, backend, code):
    cloud.compute.offer("nvidia-tesla-t4", ZONE, offered=False)
    found = facts(backend, code, gpu="T4:1")
    assert "nvidia-tesla-t4" in found[ZONE].absent_why
    assert found["us-central1-b"].absent_why == ""
    assert MACHINES not in methods(cloud)


def test_a_plan_leaves_out_a_place_without_the_machine_and_says_why(cloud, backend, code):
    cloud.compute.offer("a3-highgpu-8g", ZONE, offered=False)
    plan = Trainer(backend).plan(spec(code, **H100))
    assert ZONE not in {one.place for one in plan.candidates}
    assert any(f"{ZONE} has no a3-highgpu-8g" in one.why for one in plan.refusals)


@pytest.mark.parametrize(
    "fault", [server_error(), Reshape(change=lambda _: {"items": {}})], ids=["down", "odd"]
)
def test_without_an_answer_the_catalogs_table_stands_and_says_so(cloud, backend, code, fault):
    cloud.fail(MACHINES, fault, times=None)
    found = facts(backend, code)
    assert not any(one.absent_why for one in found.values())
    assert "catalog" in found[ZONE].availability
    assert MACHINES.partition(".")[2] in found[ZONE].note


def test_a_zone_that_is_down_is_unknown_and_the_others_are_not(cloud, backend, code):
    def without_a(document):
        document["items"][f"zones/{ZONE}"] = {"warning": {"code": "UNREACHABLE", "message": "zone is down"}}
        document["unreachables"] = [f"zones/{ZONE}"]
        return document

    cloud.fail(MACHINES, Reshape(change=without_a), times=2)
    cloud.compute.offer("a3-highgpu-8g", "us-central1-b", offered=False)
    found = facts(backend, code, **H100)
    assert found[ZONE].absent_why == ""
    assert "left out" in found[ZONE].note
    assert found["us-central1-b"].absent_why


def test_offline_there_is_a_plan_with_everything_unknown(make, code):
    class Nowhere:
        compute = cloudquotas = storage = logging = "http://127.0.0.1:9"  # nobody listens there

    plan = Trainer(make(endpoints=Nowhere())).plan(spec(code))
    assert {one.fact.verdict for one in plan.candidates} == {Verdict.UNKNOWN}
    assert "catalog" in plan.candidates[0].fact.availability
    assert "nobody answers at http://127.0.0.1:9" in plan.candidates[0].fact.note


def test_an_api_that_hangs_holds_up_no_plan(cloud, backend, code):
    facts(backend, code, gpu="T4:1")  # loads what the first call of a process loads
    backend._access.looks._wait_s = 0.8
    cloud.fail(MACHINES, Delay(seconds=2.0), times=None)
    found = facts(backend, code)
    assert found[ZONE].verdict is Verdict.FITS
    assert "catalog" in found[ZONE].availability
    for thread in threading.enumerate():
        if thread.name.startswith("gputrain asks"):
            thread.join(10)


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


def test_an_open_reservation_cannot_be_named_and_is_no_obstacle_to_any(cloud, backend, code):
    reserve(cloud, "open", is_specific=False)
    why = facts(backend, code, reservation="open", **L4)[ZONE].absent_why
    assert "reservation='any' takes it" in why
    assert facts(backend, code, reservation="any", **L4)[ZONE].absent_why == ""


@pytest.mark.parametrize(("limit", "verdict"), [(16, Verdict.FITS), (0, Verdict.UNKNOWN)])
def test_a_quota_counts_where_any_reservation_will_do_and_may_have_no_room(
    cloud, backend, code, limit, verdict
):
    cloud.quota("NVIDIA_L4_GPUS", limit)
    assert facts(backend, code, reservation="any", **L4)[ZONE].verdict is verdict


def test_an_attached_gpu_must_be_in_the_reservation(cloud, backend, code):
    reserve(cloud, "plain", machine="n1-standard-8")
    gpus = [{"accelerator_type": "nvidia-tesla-t4", "accelerator_count": 1}]
    reserve(cloud, "with-gpu", machine="n1-standard-8", guest_accelerators=gpus)
    asked = {"gpu": "T4:1", "machine_type": "n1-standard-8"}
    assert "no GPUs" in facts(backend, code, reservation="plain", **asked)[ZONE].absent_why
    assert facts(backend, code, reservation="with-gpu", **asked)[ZONE].absent_why == ""


def test_a_reservation_that_cannot_be_looked_at_is_unknown(cloud, make, code):
    allowed = ["compute.regions.list", "compute.projects.get", "compute.machineTypes.list"]
    caller = cloud.caller("me@example.com", [*allowed, "cloudquotas.quotas.get"])
    found = facts(make(credentials=cloud.credentials_of(caller)), code, reservation="mine")
    assert found[ZONE].absent_why == ""
    assert "compute.reservations.list" in found[ZONE].note


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


@pytest.mark.parametrize(
    ("told", "chance"),
    [
        ([0.25], 0.25),
        ([0, 0.5, 0.3], 0.5),
        ([1], 1.0),
        ([0], 0.0),
        ([1.01, -0.01], None),
        (["0.5", None], None),
        ([], None),
    ],
)
def test_a_chance_is_a_number_from_0_to_1_and_the_best_counts(code, told, chance):
    asked = []

    def answer(request):
        asked.append(json.loads(request.body))
        scores = [{"scores": {"obtainability": one}} for one in told]
        return 200, json.dumps({"recommendations": [*scores, 7, {"scores": 7}]}).encode(), {}

    server = Server(answer)
    access = Access(project="p", credentials=Token(), endpoints=Endpoints(compute=server.url))
    wanted = spec(code, gpu="T4:2", num_nodes=3, provisioning_model="spot")
    supply = ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket").supply
    one = candidates(wanted, [supply]).candidates[0]
    (ask,) = (ask for key, ask in questions(access, [one], has_advice=True).items() if "advice" in key)
    assert ask() == chance
    server.close()
    gpus = {"acceleratorType": f"zones/{one.place}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 2}
    selection = {"machineTypes": [one.machine_type], "guestAccelerators": [gpus]}
    assert asked[0]["size"] == 3
    assert asked[0]["instanceFlexibilityPolicy"]["instanceSelections"]["wanted"] == selection
    assert not [key for key in questions(access, [one], has_advice=False) if "advice" in key]


def test_advice_that_is_refused_is_unknown(cloud, backend, code):
    cloud.fail(ADVICE, server_error(500), times=None)
    found = facts(backend, code, provisioning_model="spot")
    assert found[ZONE].obtainability is None
    assert found[ZONE].verdict is Verdict.FITS


def test_on_demand_machines_are_not_asked_advice_for(cloud, backend, code):
    facts(backend, code)
    assert ADVICE not in methods(cloud)


def test_a_quota_cut_after_the_plan_is_met_explained_and_read_anew(cloud, backend, code):
    trainer = Trainer(backend)
    asked = {"num_nodes": 2, **L4}
    plan = trainer.plan(spec(code, **asked))
    assert plan.candidates[0].fact.verdict is Verdict.FITS
    cloud.quota("NVIDIA_L4_GPUS", 1)
    with pytest.raises(QuotaExceededError) as caught:
        plan.submit()
    assert (caught.value.metric, caught.value.limit, caught.value.need) == ("NVIDIA_L4_GPUS", 1, 2)
    assert (
        trainer.quotas("L4:1", num_nodes=2, provisioning_model="standard").standings[0].verdict
        is Verdict.SHORT
    )
