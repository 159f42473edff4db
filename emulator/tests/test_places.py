"""Projects, regions, zones, machines, images, networks, policies, reservations, groups and advice."""

from __future__ import annotations

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from emulator.tests.compute import ZONE, Clients, P, gang, vm
from gputrain_emulator import Cloud

REGION = "us-central1"


def test_a_region_shows_its_zones_limits_and_usage(cloud: Cloud, clients: Clients) -> None:
    cloud.quota("NVIDIA_L4_GPUS", 5, region=REGION)
    clients.run(vm(machine="g2-standard-24"))
    region = clients.of("Regions").get(project=P, region=REGION)
    quotas = {quota.metric: (quota.limit, quota.usage) for quota in region.quotas}
    assert quotas["NVIDIA_L4_GPUS"] == (5.0, 2.0)
    assert not any("H100" in metric or "H200" in metric for metric in quotas)
    assert [zone.rpartition("/")[2] for zone in region.zones] == [f"{REGION}-{letter}" for letter in "abcf"]


def test_machine_types_tell_their_gpus_and_are_where_they_are_sold(clients: Clients) -> None:
    machines = clients.of("MachineTypes")
    found = machines.get(project=P, zone=ZONE, machine_type="a3-highgpu-2g")
    assert (found.guest_cpus, found.memory_mb, found.architecture) == (52, 479232, "X86_64")
    kind = found.accelerators[0]
    assert (kind.guest_accelerator_type, kind.guest_accelerator_count) == ("nvidia-h100-80gb", 2)
    with pytest.raises(exceptions.NotFound):
        machines.get(project=P, zone=ZONE, machine_type="a4-highgpu-8g")
    names = {machine.name for machine in machines.list(project=P, zone="us-central1-b")}
    assert {"a4-highgpu-8g", "g4-standard-48", "n1-standard-8"} <= names
    request = compute_v1.AggregatedListMachineTypesRequest(project=P, filter="name = a4x-highgpu-4g")
    zones = {scope for scope, part in machines.aggregated_list(request) if part.machine_types}
    assert zones == {"zones/us-central1-a", "zones/us-central1-b"}


def test_a_placement_policy_is_made_used_and_deleted(clients: Clients) -> None:
    policies = clients.of("ResourcePolicies")
    policy = compute_v1.ResourcePolicy(
        name="close", group_placement_policy={"collocation": "COLLOCATED", "vm_count": 2}
    )
    wanted = gang(1)
    wanted.instance_properties.resource_policies = ["close"]
    with pytest.raises(exceptions.NotFound, match="resourcePolicies/close"):
        clients.bulk(wanted)
    policies.insert_unary(project=P, region=REGION, resource_policy_resource=policy)
    with pytest.raises(exceptions.Conflict):
        policies.insert_unary(project=P, region=REGION, resource_policy_resource=policy)
    clients.wait(clients.bulk(wanted))
    (link,) = clients.instances.get(project=P, zone=ZONE, instance="g-0").resource_policies
    assert link.endswith(f"/regions/{REGION}/resourcePolicies/close")
    policies.delete_unary(project=P, region=REGION, resource_policy="close")
    assert list(policies.list(project=P, region=REGION)) == []


def test_a_reservation_holds_capacity_that_only_its_users_get(cloud: Cloud, clients: Clients) -> None:
    cloud.stock(ZONE, "a3-highgpu-8g", 1)
    properties = compute_v1.AllocationSpecificSKUAllocationReservedInstanceProperties(
        machine_type="a3-highgpu-8g"
    )
    specific = compute_v1.AllocationSpecificSKUReservation(count=1, instance_properties=properties)
    reservation = compute_v1.Reservation(
        name="ours", specific_reservation=specific, specific_reservation_required=True
    )
    clients.of("Reservations").insert_unary(project=P, zone=ZONE, reservation_resource=reservation)
    assert clients.run(vm("outside")).error.errors[0].code == "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"

    def affinity(name: str) -> compute_v1.ReservationAffinity:
        return compute_v1.ReservationAffinity(
            consume_reservation_type="SPECIFIC_RESERVATION",
            key="compute.googleapis.com/reservation-name",
            values=[name],
        )

    assert not clients.run(vm("inside", reservation_affinity=affinity("ours"))).error.errors
    used = clients.of("Reservations").get(project=P, zone=ZONE, reservation="ours").specific_reservation
    assert (used.count, used.in_use_count) == (1, 1)
    for name, words in {
        "ours": "does not have available resources for the request",
        "theirs": "does not exist",
    }.items():
        error = clients.run(vm(f"late-{name}", reservation_affinity=affinity(name))).error.errors[0]
        assert (error.code, error.message) == (
            "CONDITION_NOT_MET",
            f"Specified reservation '{name}' {words}.",
        )


def test_advice_tells_the_roomiest_zone(cloud: Cloud, clients: Clients) -> None:
    for letter in "abc":
        cloud.stock(f"{REGION}-{letter}", "a3-highgpu-8g", 0)
    cloud.stock(f"{REGION}-b", "a3-highgpu-8g", 1)
    request = compute_v1.CapacityAdviceRequest(
        size=2,
        instance_properties={"scheduling": {"provisioning_model": "SPOT"}},
        instance_flexibility_policy={"instance_selections": {"one": {"machine_types": ["a3-highgpu-8g"]}}},
    )
    advice = clients.of("Advice").capacity(project=P, region=REGION, capacity_advice_request_resource=request)
    (recommendation,) = advice.recommendations
    assert recommendation.scores.obtainability == pytest.approx(0.45)
    assert recommendation.shards[0].zone.endswith(f"{REGION}-b")


def test_an_order_to_the_catalog_shows_on_every_page_at_once(cloud: Cloud, clients: Clients) -> None:
    machines = clients.of("MachineTypes")

    def listed() -> list[bool]:
        here = {one.name for one in machines.list(project=P, zone=ZONE)}
        request = compute_v1.AggregatedListMachineTypesRequest(project=P, filter="name = a2-highgpu-1g")
        zones = {scope for scope, part in machines.aggregated_list(request) if part.machine_types}
        return ["a2-highgpu-1g" in here, f"zones/{ZONE}" in zones]

    assert listed() == listed() == [True, True]
    cloud.offer("a2-highgpu-1g", ZONE, offered=False)
    assert listed() == listed() == [False, False]
