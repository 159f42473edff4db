"""Projects, regions, zones, machines, images, networks, policies, reservations, groups and advice."""

from __future__ import annotations

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from emulator.tests.compute import ZONE, Clients, P, gang, vm
from gputrain_emulator import Cloud, facts

REGION = "us-central1"


@pytest.fixture
def clients(cloud: Cloud) -> Clients:
    return Clients(cloud)


def test_a_region_shows_its_zones_limits_and_usage(cloud: Cloud, clients: Clients) -> None:
    cloud.quota("NVIDIA_L4_GPUS", 5, region=REGION)
    clients.run(vm(machine="g2-standard-24"))
    region = clients.of("Regions").get(project=P, region=REGION)
    quotas = {quota.metric: (quota.limit, quota.usage) for quota in region.quotas}
    assert quotas["NVIDIA_L4_GPUS"] == (5.0, 2.0)
    assert not any("H100" in metric or "H200" in metric for metric in quotas)
    assert [zone.rpartition("/")[2] for zone in region.zones] == [f"{REGION}-{letter}" for letter in "abcf"]


def test_every_region_and_zone_is_listed(clients: Clients) -> None:
    assert [region.name for region in clients.of("Regions").list(project=P)] == list(facts.regions())
    assert [zone.name for zone in clients.of("Zones").list(project=P)] == list(facts.zones())
    with pytest.raises(exceptions.NotFound):
        clients.of("Regions").get(project=P, region="mars-north1")


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


def test_accelerator_types_are_listed_by_zone(clients: Clients) -> None:
    kinds = clients.of("AcceleratorTypes")
    assert kinds.get(project=P, zone=ZONE, accelerator_type="nvidia-l4").maximum_cards_per_instance == 8
    assert "nvidia-tesla-t4" in {kind.name for kind in kinds.list(project=P, zone=ZONE)}
    request = compute_v1.AggregatedListAcceleratorTypesRequest(project=P, filter="name = nvidia-h200-141gb")
    zones = {
        scope.removeprefix("zones/")
        for scope, part in kinds.aggregated_list(request)
        if part.accelerator_types
    }
    assert zones == set(facts.accelerator_zones()["nvidia-h200-141gb"])


def test_images_come_from_families_that_google_publishes(clients: Clients) -> None:
    images = clients.of("Images")
    newest = images.get_from_family(project="debian-cloud", family="debian-12")
    assert (newest.disk_size_gb, newest.architecture) == (10, "X86_64")
    assert images.get(project="debian-cloud", image=newest.name).family == "debian-12"
    assert (
        images.get_from_family(project="ubuntu-os-cloud", family="ubuntu-2404-lts-arm64").architecture
        == "ARM64"
    )
    with pytest.raises(exceptions.NotFound):
        images.get_from_family(project="debian-cloud", family="debian-99")


def test_every_project_has_a_default_network_in_each_region(clients: Clients) -> None:
    assert [network.name for network in clients.of("Networks").list(project=P)] == ["default"]
    subnetwork = clients.of("Subnetworks").get(project=P, region=REGION, subnetwork="default")
    assert subnetwork.private_ip_google_access is True
    with pytest.raises(exceptions.NotFound):
        clients.of("Networks").get(project=P, network="other")


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


def test_a_deleted_reservation_gives_its_capacity_back(cloud: Cloud, clients: Clients) -> None:
    cloud.stock(ZONE, "a3-highgpu-8g", 3)
    properties = compute_v1.AllocationSpecificSKUAllocationReservedInstanceProperties(
        machine_type="a3-highgpu-8g"
    )
    specific = compute_v1.AllocationSpecificSKUReservation(count=2, instance_properties=properties)
    reservations = clients.of("Reservations")
    wanted = compute_v1.Reservation(name="ours", specific_reservation=specific)
    reservations.insert_unary(project=P, zone=ZONE, reservation_resource=wanted)
    assert cloud.compute.free(ZONE, "a3-highgpu-8g") == 1
    reservations.delete_unary(project=P, zone=ZONE, reservation="ours")
    assert cloud.compute.free(ZONE, "a3-highgpu-8g") == 3


def test_nothing_is_made_in_a_place_that_is_not_there(clients: Clients) -> None:
    policy = compute_v1.ResourcePolicy(name="close", group_placement_policy={"collocation": "COLLOCATED"})
    with pytest.raises(exceptions.BadRequest, match="Invalid value for field 'region': 'mars-north1'"):
        clients.of("ResourcePolicies").insert_unary(
            project=P, region="mars-north1", resource_policy_resource=policy
        )
    with pytest.raises(exceptions.BadRequest, match="Invalid value for field 'zone': 'mars-north1-a'"):
        clients.of("Disks").insert_unary(
            project=P, zone="mars-north1-a", disk_resource=compute_v1.Disk(name="d")
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


def test_a_zone_may_begin_to_sell_a_machine_and_stop(cloud: Cloud, clients: Clients) -> None:
    machines, there = clients.of("MachineTypes"), {"project": P, "machine_type": "a2-highgpu-1g"}
    with pytest.raises(exceptions.NotFound):
        machines.get(zone="us-east4-a", **there)
    cloud.offer("a2-highgpu-1g", "us-east4-a")
    assert machines.get(zone="us-east4-a", **there).guest_cpus == 12
    cloud.offer("g2-standard-4", ZONE, offered=False)
    assert "g2-standard-4" not in {one.name for one in machines.list(project=P, zone=ZONE)}
    with pytest.raises(exceptions.BadRequest, match="does not exist in zone"):
        clients.insert(vm(machine="g2-standard-4"))


def test_a_zone_may_get_an_accelerator_and_lose_it(cloud: Cloud, clients: Clients) -> None:
    there = {"project": P, "accelerator_type": "nvidia-tesla-t4"}
    cloud.offer("nvidia-tesla-t4", ZONE, offered=False)
    with pytest.raises(exceptions.NotFound):
        clients.of("AcceleratorTypes").get(zone=ZONE, **there)
    cloud.offer("nvidia-tesla-t4", "us-east5-a")
    assert clients.of("AcceleratorTypes").get(zone="us-east5-a", **there).maximum_cards_per_instance == 4


def test_a_machine_that_nobody_knows_is_listed_and_cannot_be_made(cloud: Cloud, clients: Clients) -> None:
    new = facts.Machine(
        name="a9-highgpu-8g", accelerator="nvidia-r100", gpus=8, vcpus=256, memory_mib=4096 << 10,
        arch="X86_64", boot_disks=("hyperdisk-balanced",), standard=True, spot=True, flex_start=False,
        reservation=False,
    )  # fmt: skip
    cloud.offer(new, ZONE)
    cloud.offer("nvidia-r100", ZONE)
    found = clients.of("MachineTypes").get(project=P, zone=ZONE, machine_type="a9-highgpu-8g")
    assert found.accelerators[0].guest_accelerator_type == "nvidia-r100"
    assert clients.of("AcceleratorTypes").get(project=P, zone=ZONE, accelerator_type="nvidia-r100").name
    with pytest.raises(exceptions.BadRequest, match="does not exist in zone"):
        clients.insert(vm(machine="a9-highgpu-8g"))
    with pytest.raises(LookupError):
        cloud.offer("a8-highgpu-8g", ZONE)
    with pytest.raises(LookupError):
        cloud.offer(new, "mars-north1-a")
