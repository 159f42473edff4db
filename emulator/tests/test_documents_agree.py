"""What Google's documents say of one thing in two places is the same thing here."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
import requests
from google.api_core.exceptions import BadRequest, Forbidden, NotFound
from google.cloud import compute_v1

import gputrain_emulator
from emulator.tests.compute import ZONE, Clients, P, boot_disk, cpu_vm
from gputrain_emulator import Cloud, facts
from gputrain_emulator.compute.addresses import AUTO_RANGES

OPEN = [compute_v1.NetworkInterface(access_configs=[compute_v1.AccessConfig()])]


@pytest.fixture
def clients(cloud: Cloud) -> Clients:
    return Clients(cloud)


def get(clients: Clients, name: str) -> Any:
    return clients.instances.get(project=P, zone=ZONE, instance=name)


def test_an_interface_lies_in_its_subnetwork(clients: Clients) -> None:
    for number in range(3):
        clients.run(cpu_vm(f"vm-{number}"))
    below = clients.of("Subnetworks").get(project=P, region="us-central1", subnetwork="default")
    assert below.ip_cidr_range == "10.128.0.0/20"
    found = [get(clients, f"vm-{number}").network_interfaces[0] for number in range(3)]
    assert len({nic.network_i_p for nic in found}) == 3
    for nic in found:
        assert ipaddress.ip_address(nic.network_i_p) in ipaddress.ip_network(below.ip_cidr_range)
    assert len({nic.fingerprint for nic in found}) == 3


def test_every_region_has_a_range_of_its_own() -> None:
    assert set(facts.regions()) <= AUTO_RANGES.keys()
    assert len(set(AUTO_RANGES.values())) == len(AUTO_RANGES)


@pytest.mark.parametrize(
    ("nic", "words"),
    [
        (compute_v1.NetworkInterface(network_i_p="10.0.0.5"), "must be in the range"),
        (compute_v1.NetworkInterface(access_configs=[{"nat_i_p": "1.2.3.4"}]), "was not found in region"),
    ],
    ids=["inside", "outside"],
)  # fmt: skip
def test_an_address_of_elsewhere_is_refused(clients: Clients, nic: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        clients.insert(cpu_vm("vm-1", network_interfaces=[nic]))


def test_an_address_is_given_once(clients: Clients) -> None:
    nic = compute_v1.NetworkInterface(network_i_p="10.128.0.9")
    clients.run(cpu_vm("vm-1", network_interfaces=[nic]))
    with pytest.raises(BadRequest, match="in use"):
        clients.insert(cpu_vm("vm-2", network_interfaces=[nic]))


def test_two_interfaces_need_two_networks(clients: Clients) -> None:
    two = [compute_v1.NetworkInterface(), compute_v1.NetworkInterface()]
    with pytest.raises(BadRequest, match="Networks must be distinct"):
        clients.insert(cpu_vm("vm-1", network_interfaces=two))


def test_a_vm_that_is_off_has_no_external_address_and_no_platform(cloud: Cloud, clients: Clients) -> None:
    clients.run(cpu_vm("vm-1", network_interfaces=OPEN))
    on = get(clients, "vm-1")
    assert on.network_interfaces[0].access_configs[0].nat_i_p
    assert on.cpu_platform == "Intel Broadwell"
    clients.wait(clients.instances.stop_unary(project=P, zone=ZONE, instance="vm-1"))
    off = get(clients, "vm-1")
    assert off.network_interfaces[0].access_configs[0].nat_i_p == ""
    assert off.network_interfaces[0].network_i_p == on.network_interfaces[0].network_i_p
    assert off.cpu_platform == "Unknown CPU Platform"


def usage(clients: Clients, metric: str) -> float:
    region = clients.of("Regions").get(project=P, region="us-central1")
    return next(quota.usage for quota in region.quotas if quota.metric == metric)


def test_disks_count_as_long_as_they_exist(cloud: Cloud, clients: Clients) -> None:
    clients.run(
        cpu_vm("vm-1", disks=[boot_disk(disk_size_gb=100, disk_type=f"zones/{ZONE}/diskTypes/pd-ssd")])
    )
    assert usage(clients, "SSD_TOTAL_GB") == 100
    assert usage(clients, "CPUS") > 0
    clients.wait(clients.instances.stop_unary(project=P, zone=ZONE, instance="vm-1"))
    assert usage(clients, "SSD_TOTAL_GB") == 100
    assert usage(clients, "CPUS") == 0
    clients.wait(clients.instances.delete_unary(project=P, zone=ZONE, instance="vm-1"))
    assert usage(clients, "SSD_TOTAL_GB") == 0


def test_a_vm_whose_disk_breaks_the_quota_is_not_made(cloud: Cloud, clients: Clients) -> None:
    cloud.quota("DISKS_TOTAL_GB", 50)
    disk = boot_disk(disk_size_gb=100, disk_type=f"zones/{ZONE}/diskTypes/pd-standard")
    done = clients.run(cpu_vm("vm-1", disks=[disk]))
    assert [error.code for error in done.error.errors] == ["QUOTA_EXCEEDED"]
    cloud.clock.advance(60)
    assert usage(clients, "DISKS_TOTAL_GB") == 0


def disk(**fields: Any) -> dict[str, Any]:
    return {"project": P, "zone": ZONE, "disk_resource": compute_v1.Disk(name="disk-1", **fields)}


def test_a_disk_knows_the_image_it_is_made_from(clients: Clients) -> None:
    disks = clients.of("Disks")
    disks.insert_unary(**disk(source_image="projects/debian-cloud/global/images/family/debian-12"))
    made = disks.get(project=P, zone=ZONE, disk="disk-1")
    assert made.source_image.endswith("/global/images/" + made.source_image.rpartition("/")[2])
    assert made.source_image_id
    assert "family" not in made.source_image


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"type_": f"zones/{ZONE}/diskTypes/pd-banana"}, NotFound),
        ({"source_image": "projects/nobody/global/images/none"}, NotFound),
        ({"size_gb": 999_999_999}, BadRequest),
    ],
    ids=["type", "image", "size"],
)
def test_a_disk_that_cannot_be_is_refused(clients: Clients, fields: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        clients.of("Disks").insert_unary(**disk(**fields), retry=None)


def test_a_disk_beyond_the_quota_is_refused(cloud: Cloud, clients: Clients) -> None:
    cloud.quota("DISKS_TOTAL_GB", 50)
    with pytest.raises(Forbidden, match="DISKS_TOTAL_GB"):
        clients.of("Disks").insert_unary(**disk(size_gb=51), retry=None)


def test_a_client_that_polls_a_standing_clock_sees_the_end() -> None:
    with gputrain_emulator.start(polls_move_clock=True) as cloud:
        clients = Clients(cloud)
        operation = clients.insert(cpu_vm("vm-1"))
        seen = []
        while not seen or seen[-1] != "DONE":
            assert len(seen) < 10
            path = f"/compute/v1/projects/{P}/zones/{ZONE}/operations/{operation.name}"
            seen.append(requests.get(cloud.endpoints.url + path, timeout=10).json()["status"])
        assert seen[0] == "RUNNING"
        assert get(clients, "vm-1").status == "RUNNING"
        assert cloud.clock.now() - gputrain_emulator.clock.EPOCH < 60


def test_a_clock_that_is_frozen_for_a_test_is_moved_by_no_look(cloud: Cloud, clients: Clients) -> None:
    clients.insert(cpu_vm("vm-1"))
    before = cloud.clock.now()
    for _ in range(3):
        get(clients, "vm-1")
    assert cloud.clock.now() == before


def test_the_catalog_is_written_anew_when_an_offer_changes(cloud: Cloud) -> None:
    url = f"{cloud.endpoints.url}/compute/v1/projects/{P}/aggregated/machineTypes"
    wanted = {"filter": "name = g2-standard-4", "maxResults": "500"}

    def zones() -> list[str]:
        items = requests.get(url, params=wanted, timeout=10).json()["items"]
        return [scope for scope, found in items.items() if "machineTypes" in found]

    before = zones()
    assert zones() == before
    cloud.offer("g2-standard-4", "us-central1-a", offered=False)
    assert set(before) - set(zones()) == {"zones/us-central1-a"}
