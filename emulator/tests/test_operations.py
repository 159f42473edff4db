"""Operations: read, waited for, listed, kept and forgotten."""

from __future__ import annotations

import threading

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

import gputrain_emulator
from emulator.tests.compute import ZONE, Clients, P, boot_disk, cpu_vm
from gputrain_emulator import Cloud

DONE = compute_v1.Operation.Status.DONE


@pytest.fixture
def clients(cloud: Cloud) -> Clients:
    return Clients(cloud)


def test_reading_an_operation_does_not_move_a_standing_clock(cloud: Cloud, clients: Clients) -> None:
    operation = clients.insert(cpu_vm())
    for _ in range(3):
        read = clients.zone_operations.get(project=P, zone=ZONE, operation=operation.name)
        assert read.status != DONE
    cloud.clock.advance(20)
    done = clients.zone_operations.get(project=P, zone=ZONE, operation=operation.name)
    assert (done.status, done.progress) == (DONE, 100)
    assert done.target_link.endswith(f"/projects/{P}/zones/{ZONE}/instances/vm-1")


def test_a_wait_ends_after_two_minutes_done_or_not(cloud: Cloud, clients: Clients) -> None:
    cloud.compute.settings.staging_s = 300
    operation = clients.insert(cpu_vm())
    before = cloud.clock.now()
    assert clients.wait(operation).status != DONE
    assert cloud.clock.now() - before == 120
    clients.wait(operation)
    assert clients.wait(operation).status == DONE


def test_operations_are_listed_and_found_by_what_they_are(clients: Clients) -> None:
    clients.run(cpu_vm())
    clients.run(cpu_vm("vm-2"))
    clients.wait(clients.instances.delete_unary(project=P, zone=ZONE, instance="vm-2"))

    def found(text: str) -> list[str]:
        request = compute_v1.ListZoneOperationsRequest(project=P, zone=ZONE, filter=text)
        return [op.operation_type for op in clients.zone_operations.list(request)]

    assert sorted(found("")) == ["delete", "insert", "insert"]
    assert found("operationType = delete") == ["delete"]
    target = clients.instances.get(project=P, zone=ZONE, instance="vm-1").id
    assert found(f"targetId = {target}") == ["insert"]
    assert found("(status = DONE) AND (operationType = insert)") == ["insert", "insert"]


def test_each_scope_keeps_its_own_operations(clients: Clients) -> None:
    policy = compute_v1.ResourcePolicy(name="close", group_placement_policy={"collocation": "COLLOCATED"})
    regional = clients.of("ResourcePolicies").insert_unary(
        project=P, region="us-central1", resource_policy_resource=policy
    )
    template = compute_v1.InstanceTemplate(
        name="t",
        properties=compute_v1.InstanceProperties(
            machine_type="e2-standard-4", disks=[boot_disk()], network_interfaces=[{}]
        ),
    )
    in_all = clients.of("InstanceTemplates").insert_unary(project=P, instance_template_resource=template)
    regions, everywhere = clients.of("RegionOperations"), clients.of("GlobalOperations")
    assert regions.wait(project=P, region="us-central1", operation=regional.name).status == DONE
    assert everywhere.wait(project=P, operation=in_all.name).status == DONE
    assert [op.name for op in everywhere.list(project=P)] == [in_all.name]
    with pytest.raises(exceptions.NotFound):
        everywhere.get(project=P, operation=regional.name)
    with pytest.raises(exceptions.NotFound):
        clients.zone_operations.get(project=P, zone=ZONE, operation=regional.name)


def test_an_operation_is_forgotten_after_fourteen_days(cloud: Cloud, clients: Clients) -> None:
    operation = clients.insert(cpu_vm())
    cloud.clock.advance(14 * 86400)
    assert clients.zone_operations.get(project=P, zone=ZONE, operation=operation.name).status == DONE
    cloud.clock.advance(60)
    with pytest.raises(exceptions.NotFound):
        clients.zone_operations.get(project=P, zone=ZONE, operation=operation.name)


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
