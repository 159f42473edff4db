"""What Google's documents say of one thing in two places is the same thing here."""

from __future__ import annotations

import ipaddress
from typing import Any

import requests
from google.cloud import compute_v1

import gputrain_emulator
from emulator.tests.compute import ZONE, Clients, P, cpu_vm
from gputrain_emulator import Cloud

OPEN = [compute_v1.NetworkInterface(access_configs=[compute_v1.AccessConfig()])]


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
