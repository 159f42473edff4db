"""The life of one VM, seen through Google's own client, and what two documents say of the same thing."""

from __future__ import annotations

import ipaddress
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from google.api_core import exceptions
from google.cloud import compute_v1

import gputrain_emulator
from emulator.tests.compute import OUTSIDE, ZONE, Clients, P, cpu_vm, vm
from gputrain_emulator import Cloud


def test_an_insert_goes_through_provisioning_and_staging_to_running(cloud: Cloud, clients: Clients) -> None:
    operation = clients.insert(vm())
    assert operation.status == compute_v1.Operation.Status.RUNNING
    seen = [clients.status("vm-1")]
    for _ in range(3):
        cloud.clock.advance(8)
        seen.append(clients.status("vm-1"))
    assert seen == ["PROVISIONING", "STAGING", "STAGING", "RUNNING"]
    assert clients.wait(operation).status == compute_v1.Operation.Status.DONE


def test_a_name_is_taken_once_in_a_zone_and_free_in_another(clients: Clients) -> None:
    clients.insert(vm())
    with pytest.raises(exceptions.Conflict) as caught:
        clients.insert(vm())
    assert caught.value.message.endswith(
        f"The resource 'projects/{P}/zones/{ZONE}/instances/vm-1' already exists"
    )
    assert caught.value.errors[0]["reason"] == "alreadyExists"
    clients.insert(vm(zone="us-central1-b"), zone="us-central1-b")


def test_the_same_request_id_makes_one_vm_and_echoes_itself(cloud: Cloud, clients: Clients) -> None:
    key = str(uuid.uuid4())
    first = clients.insert(vm(), request_id=key)
    second = clients.insert(vm(), request_id=key)
    assert (first.name, first.client_operation_id) == (second.name, key)
    assert len(cloud.ledger.events("create", "instances/vm-1")) == 1


def test_delete_takes_the_vm_its_disk_its_meter_and_its_quota(cloud: Cloud, clients: Clients) -> None:
    clients.run(vm())
    assert cloud.cost_usd == 0.0
    cloud.clock.advance(3600)
    assert cloud.cost_usd == pytest.approx(88.49)
    clients.wait(clients.instances.delete_unary(project=P, zone=ZONE, instance="vm-1"))
    with pytest.raises(exceptions.NotFound):
        clients.status("vm-1")
    assert list(clients.of("Disks").list(project=P, zone=ZONE)) == []
    cost = cloud.cost_usd
    cloud.clock.advance(3600)
    assert cloud.cost_usd == cost
    region = clients.of("Projects").get(project=P)
    assert {quota.metric: quota.usage for quota in region.quotas}["GPUS_ALL_REGIONS"] == 0


def test_a_stopped_vm_keeps_its_disk_and_starts_again(cloud: Cloud, clients: Clients) -> None:
    clients.run(vm())
    clients.wait(clients.instances.stop_unary(project=P, zone=ZONE, instance="vm-1"))
    assert clients.status("vm-1") == "TERMINATED"
    assert [disk.name for disk in clients.of("Disks").list(project=P, zone=ZONE)] == ["vm-1"]
    clients.wait(clients.instances.start_unary(project=P, zone=ZONE, instance="vm-1"))
    assert clients.status("vm-1") == "RUNNING"


def test_labels_change_only_for_whoever_read_the_present_ones(clients: Clients) -> None:
    clients.run(cpu_vm())

    def label(fingerprint: str) -> compute_v1.Operation:
        request = compute_v1.InstancesSetLabelsRequest(label_fingerprint=fingerprint, labels={"a": "1"})
        return clients.instances.set_labels_unary(
            project=P, zone=ZONE, instance="vm-1", instances_set_labels_request_resource=request
        )

    fingerprint = clients.get().label_fingerprint
    clients.wait(label(fingerprint))
    assert clients.get().labels == {"a": "1"}
    with pytest.raises(exceptions.PreconditionFailed, match="Labels fingerprint either invalid"):
        label(fingerprint)


def test_metadata_changes_only_for_whoever_read_the_present_one(clients: Clients) -> None:
    clients.run(cpu_vm())
    metadata = clients.get().metadata
    wanted = compute_v1.Metadata(
        fingerprint=metadata.fingerprint, items=[compute_v1.Items(key="k", value="v")]
    )
    change = {"project": P, "zone": ZONE, "instance": "vm-1", "metadata_resource": wanted}
    clients.wait(clients.instances.set_metadata_unary(**change))
    assert clients.get().metadata.items[0].value == "v"
    with pytest.raises(exceptions.PreconditionFailed, match="metadata fingerprint"):
        clients.instances.set_metadata_unary(**change)


def test_tags_change_only_for_whoever_read_the_present_ones(clients: Clients) -> None:
    clients.run(cpu_vm())
    wanted = compute_v1.Tags(fingerprint=clients.get().tags.fingerprint, items=["a"])
    change = {"project": P, "zone": ZONE, "instance": "vm-1", "tags_resource": wanted}
    clients.wait(clients.instances.set_tags_unary(**change))
    assert list(clients.get().tags.items) == ["a"]
    with pytest.raises(exceptions.PreconditionFailed, match="tags fingerprint"):
        clients.instances.set_tags_unary(**change)


def test_the_serial_port_is_a_ring_of_one_mib_with_a_cursor(cloud: Cloud, clients: Clients) -> None:
    clients.run(cpu_vm())
    cloud.serial("vm-1", "hello\n")

    def read(start: int = 0) -> compute_v1.SerialPortOutput:
        request = compute_v1.GetSerialPortOutputInstanceRequest(
            project=P, zone=ZONE, instance="vm-1", start=start
        )
        return clients.instances.get_serial_port_output(request)

    first = read()
    assert (first.contents, first.start, first.next_) == ("hello\n", 0, 6)
    assert read(first.next_).contents == ""
    cloud.serial("vm-1", "x" * (1 << 20))
    later = read(first.next_)
    assert (later.start, len(later.contents), later.next_) == (6, 1 << 20, 6 + (1 << 20))
    cloud.serial("vm-1", "yy")
    gap = read(first.next_)
    assert (gap.start, gap.contents[-2:]) == (8, "yy")


def test_lists_page_filter_and_order(clients: Clients) -> None:
    for number in range(5):
        clients.insert(cpu_vm(f"vm-{number}", labels={"run": "odd" if number % 2 else "even"}))
    assert clients.names() == [f"vm-{number}" for number in range(5)]
    assert clients.names(max_results=2) == [f"vm-{number}" for number in range(5)]
    assert clients.names(filter="labels.run = odd") == ["vm-1", "vm-3"]
    assert clients.names(filter='name eq ".*\\bvm\\-1\\b.*"') == ["vm-1"]
    assert clients.names(filter="(labels.run = even) AND NOT (name = vm-0)") == ["vm-2", "vm-4"]
    assert clients.names(filter="name = vm-1 OR name = vm-2") == ["vm-1", "vm-2"]
    assert clients.names(filter="status != PROVISIONING") == []
    assert clients.names(filter="labels.run:*") == [f"vm-{number}" for number in range(5)]
    with pytest.raises(exceptions.BadRequest, match="Invalid list filter expression"):
        clients.names(filter="name ==")


def test_lists_lag_behind_creation_and_deletion_when_told_to(cloud: Cloud, clients: Clients) -> None:
    cloud.compute.settings.list_lag_s = 5
    clients.insert(cpu_vm())
    assert clients.names() == []
    assert clients.status("vm-1") == "PROVISIONING"
    cloud.clock.advance(60)
    assert clients.names() == ["vm-1"]
    clients.wait(clients.instances.delete_unary(project=P, zone=ZONE, instance="vm-1"))
    assert clients.names() == ["vm-1"]
    cloud.clock.advance(5)
    assert clients.names() == []


def test_permissions_are_those_of_the_caller(cloud: Cloud) -> None:
    reader = cloud.caller("reader@example.com", ["compute.instances.get"])
    clients = Clients(cloud, cloud.credentials_of(reader))
    why = f"Required 'compute.instances.create' permission for '.*/zones/{ZONE}/instances/vm-1'"
    with pytest.raises(exceptions.Forbidden, match=why):
        clients.insert(vm())


def test_with_wall_time_an_operation_ends_by_itself_while_others_are_served() -> None:
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.compute.settings.provision_s = cloud.compute.settings.staging_s = 0.15
        clients = Clients(cloud)
        operation = clients.insert(cpu_vm())
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(clients.wait, operation)
            assert clients.status("vm-1") in ("PROVISIONING", "STAGING")
            assert waiting.result(10).status == compute_v1.Operation.Status.DONE
        assert clients.status("vm-1") == "RUNNING"
        assert cloud.dispatcher.failures == []


def test_an_interface_lies_in_its_subnetwork(clients: Clients) -> None:
    for number in range(3):
        clients.run(cpu_vm(f"vm-{number}"))
    below = clients.of("Subnetworks").get(project=P, region="us-central1", subnetwork="default")
    assert below.ip_cidr_range == "10.128.0.0/20"
    found = [clients.get(f"vm-{number}").network_interfaces[0] for number in range(3)]
    assert len({nic.network_i_p for nic in found}) == 3
    for nic in found:
        assert ipaddress.ip_address(nic.network_i_p) in ipaddress.ip_network(below.ip_cidr_range)
    assert len({nic.fingerprint for nic in found}) == 3


def test_a_vm_that_is_off_has_no_external_address_and_no_platform(cloud: Cloud, clients: Clients) -> None:
    clients.run(cpu_vm(network_interfaces=[OUTSIDE]))
    on = clients.get()
    assert on.network_interfaces[0].access_configs[0].nat_i_p
    assert on.cpu_platform == "Intel Broadwell"
    clients.wait(clients.instances.stop_unary(project=P, zone=ZONE, instance="vm-1"))
    off = clients.get()
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
        assert clients.get().status == "RUNNING"
        assert cloud.clock.now() - gputrain_emulator.clock.EPOCH < 60
