"""Operations: read, waited for, listed, kept and forgotten."""

from __future__ import annotations

import threading

from google.cloud import compute_v1

import gputrain_emulator
from emulator.tests.compute import ZONE, Clients, P, cpu_vm
from gputrain_emulator import Cloud

DONE = compute_v1.Operation.Status.DONE


def test_reading_an_operation_does_not_move_a_standing_clock(cloud: Cloud, clients: Clients) -> None:
    operation = clients.insert(cpu_vm())
    for _ in range(3):
        read = clients.zone_operations.get(project=P, zone=ZONE, operation=operation.name)
        assert read.status != DONE
    cloud.clock.advance(20)
    done = clients.zone_operations.get(project=P, zone=ZONE, operation=operation.name)
    assert (done.status, done.progress) == (DONE, 100)
    assert done.target_link.endswith(f"/projects/{P}/zones/{ZONE}/instances/vm-1")


def test_with_wall_time_an_operation_ends_by_itself_while_others_are_served() -> None:
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.compute.settings.provision_s = cloud.compute.settings.staging_s = 0.15
        clients = Clients(cloud)
        operation = clients.insert(cpu_vm())
        waited: list[compute_v1.Operation] = []
        waiter = threading.Thread(target=lambda: waited.append(clients.wait(operation)))
        waiter.start()
        assert clients.status("vm-1") in ("PROVISIONING", "STAGING")
        waiter.join(10)
        assert waited[0].status == DONE
        assert clients.status("vm-1") == "RUNNING"
        assert cloud.dispatcher.failures == []
