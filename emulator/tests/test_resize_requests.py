"""Managed instance groups and resize requests, through Google's own client."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from emulator.tests.compute import ZONE, Clients, P, boot_disk, flex
from gputrain_emulator import Cloud

MACHINE = "a3-highgpu-8g"
NAMES = ["train-0-0", "train-0-1"]


class Queue:
    """A group of one template, and what is asked of it."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud, self.clients = cloud, Clients(cloud)
        self.groups = self.clients.of("InstanceGroupManagers")
        self.templates = self.clients.of("InstanceTemplates")
        self.requests = self.clients.of("InstanceGroupManagerResizeRequests")
        network = compute_v1.NetworkInterface(network="global/networks/default")
        properties = compute_v1.InstanceProperties(
            machine_type=MACHINE, disks=[boot_disk()], network_interfaces=[network], **flex()
        )
        template = compute_v1.InstanceTemplate(name="t", properties=properties)
        self.templates.insert_unary(project=P, instance_template_resource=template)
        group = compute_v1.InstanceGroupManager(
            name="gang", base_instance_name="g", target_size=0,
            versions=[compute_v1.InstanceGroupManagerVersion(instance_template="global/instanceTemplates/t")],
            instance_lifecycle_policy=compute_v1.InstanceGroupManagerInstanceLifecyclePolicy(
                default_action_on_failure="DO_NOTHING"
            ),
        )  # fmt: skip
        self.groups.insert_unary(project=P, zone=ZONE, instance_group_manager_resource=group)

    def ask(self, **wanted: Any) -> None:
        resource = compute_v1.InstanceGroupManagerResizeRequest(
            name="r", requested_run_duration=compute_v1.Duration(seconds=3600), **wanted
        )
        self.requests.insert_unary(
            project=P, zone=ZONE, instance_group_manager="gang",
            instance_group_manager_resize_request_resource=resource,
        )  # fmt: skip

    def named(self) -> None:
        self.ask(instances=[compute_v1.PerInstanceConfig(name=name) for name in NAMES])

    def read(self) -> compute_v1.InstanceGroupManagerResizeRequest:
        return self.requests.get(project=P, zone=ZONE, instance_group_manager="gang", resize_request="r")

    def cancel(self) -> None:
        asked = {"instance_group_manager": "gang", "resize_request": "r"}
        self.requests.cancel_unary(project=P, zone=ZONE, **asked)

    def size(self) -> int:
        return int(self.groups.get(project=P, zone=ZONE, instance_group_manager="gang").target_size)

    def delete(self) -> compute_v1.Operation:
        return self.groups.delete_unary(project=P, zone=ZONE, instance_group_manager="gang")

    def stock(self, count: int) -> None:
        self.cloud.stock(ZONE, MACHINE, count)


@pytest.fixture
def gang(cloud: Cloud) -> Queue:
    """An empty group of flex-start VMs."""
    queue = Queue(cloud)
    cloud.clock.advance(5)
    return queue


def test_a_request_waits_until_there_is_room_for_all_and_numbers_its_vms(gang: Queue) -> None:
    gang.stock(1)
    gang.ask(resize_by=2)
    gang.cloud.clock.advance(60)
    waiting = gang.read()
    assert waiting.state == "ACCEPTED"
    assert waiting.status.last_attempt.error.errors[0].code == "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    assert (gang.clients.names(), gang.size()) == ([], 2)
    gang.stock(2)
    gang.cloud.clock.advance(60)
    assert gang.read().state == "SUCCEEDED"
    assert gang.clients.names(filter="status = RUNNING") == ["g-r-0", "g-r-1"]


def test_vms_bear_the_names_that_were_asked_for_and_who_made_them(gang: Queue) -> None:
    gang.named()
    gang.cloud.clock.advance(60)
    assert gang.clients.names(filter="status = RUNNING") == NAMES
    vm = gang.clients.instances.get(project=P, zone=ZONE, instance=NAMES[0])
    told = {item.key: item.value for item in vm.metadata.items}
    assert told["created-by"].endswith(f"/zones/{ZONE}/instanceGroupManagers/gang")
    assert vm.scheduling.provisioning_model == "FLEX_START"
    operations = gang.clients.zone_operations.list(project=P, zone=ZONE)
    (made,) = [
        one
        for one in operations
        if one.target_link.endswith(f"/instances/{NAMES[0]}") and one.operation_type == "insert"
    ]
    assert made.user.endswith("@cloudservices.gserviceaccount.com")


def test_a_cancelled_request_makes_nothing_when_room_comes(gang: Queue) -> None:
    gang.stock(0)
    gang.named()
    with pytest.raises(exceptions.BadRequest, match="not ready"):  # CREATING: neither cancelled nor deleted
        gang.cancel()
    gang.cloud.clock.advance(60)
    gang.cancel()
    assert (gang.read().state, gang.size()) == ("CANCELLED", 0)
    gang.stock(2)
    gang.cloud.clock.advance(600)
    assert (gang.read().state, gang.clients.names()) == ("CANCELLED", [])
    with pytest.raises(exceptions.PreconditionFailed, match="final state"):
        gang.cancel()


def test_a_vm_that_cannot_be_made_takes_the_others_with_it(gang: Queue) -> None:
    gang.cloud.compute.settings.provision_s = 60.0
    gang.named()
    gang.cloud.clock.advance(5)
    vm = gang.cloud.compute.find_vm(NAMES[1])
    gang.cloud.host_error(NAMES[1])
    assert vm.status != "RUNNING"
    gang.cloud.clock.advance(300)
    failed = gang.read()
    assert (failed.state, bool(failed.status.error.errors)) == ("FAILED", True)
    assert (gang.clients.names(filter="status = RUNNING"), gang.size()) == ([], 0)


def test_a_deleted_group_takes_its_requests_and_vms_with_it(gang: Queue) -> None:
    gang.named()
    gang.cloud.clock.advance(60)
    with pytest.raises(exceptions.BadRequest, match="already being used"):
        gang.templates.delete_unary(project=P, instance_template="t")
    operation = gang.delete()
    gang.cloud.clock.advance(5)
    assert gang.size() == 2, "it is there until its VMs are gone"
    gang.cloud.clock.advance(300)
    assert gang.clients.wait(operation).status == compute_v1.Operation.Status.DONE
    assert gang.clients.names() == []
    with pytest.raises(exceptions.NotFound):
        gang.size()
    gang.templates.delete_unary(project=P, instance_template="t")
