"""A gang of VMs: all or, after a while, none."""

from __future__ import annotations

import uuid

import pytest
from google.api_core import exceptions
from google.cloud import compute_v1

from emulator.tests.compute import ZONE, Clients, P, gang, vm
from gputrain_emulator import Cloud


@pytest.fixture
def clients(cloud: Cloud) -> Clients:
    return Clients(cloud)


def children(clients: Clients, parent: compute_v1.Operation, zone: str = ZONE) -> list[compute_v1.Operation]:
    listed = clients.zone_operations.list(project=P, zone=zone)
    return [
        op
        for op in listed
        if op.operation_group_id == parent.operation_group_id and op.operation_type == "insert"
    ]


def test_a_gang_with_names_of_our_choice_runs(clients: Clients) -> None:
    parent = clients.wait(clients.bulk(gang(3)))
    assert clients.names(filter="status = RUNNING") == ["g-0", "g-1", "g-2"]
    assert parent.operation_type == "bulkInsert"
    assert not parent.error.errors
    progress = parent.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{ZONE}"]
    assert (progress.target_vm_count, progress.created_vm_count, progress.status) == (3, 3, "DONE")


def test_each_member_has_a_child_operation_of_the_parents_group(clients: Clients) -> None:
    parent = clients.wait(clients.bulk(gang(2)))
    assert {op.target_link.rpartition("/")[2] for op in children(clients, parent)} == {"g-0", "g-1"}


def test_half_a_gang_is_rolled_back_but_lives_and_bills_until_then(cloud: Cloud, clients: Clients) -> None:
    cloud.stock(ZONE, "a3-highgpu-8g", 1)
    parent = clients.wait(clients.bulk(gang(2)))
    codes = [error.code for error in parent.error.errors]
    assert codes == ["VM_MIN_COUNT_NOT_REACHED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"]
    progress = parent.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{ZONE}"]
    assert (progress.status, progress.created_vm_count, progress.failed_to_create_vm_count) == (
        "ROLLING_BACK",
        1,
        1,
    )
    assert len(clients.names()) == 1
    cloud.clock.advance(60)
    assert clients.names() == []
    assert cloud.cost_usd > 0
    parent = clients.zone_operations.get(project=P, zone=ZONE, operation=parent.name)
    progress = parent.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{ZONE}"]
    assert (progress.status, progress.deleted_vm_count) == ("DONE", 1)
    assert cloud.compute.free(ZONE, "a3-highgpu-8g") == 1


def test_a_gang_may_do_with_fewer(cloud: Cloud, clients: Clients) -> None:
    cloud.stock(ZONE, "a3-highgpu-8g", 1)
    parent = clients.wait(clients.bulk(gang(2, min_count=1)))
    assert not parent.error.errors
    assert len(clients.names(filter="status = RUNNING")) == 1


def test_a_repeated_bulk_insert_with_the_same_request_id_makes_one_gang(
    cloud: Cloud, clients: Clients
) -> None:
    key = str(uuid.uuid4())
    names = {clients.bulk(gang(2), request_id=key).name for _ in range(2)}
    assert len(names) == 1
    assert len(cloud.ledger.events("create", "instances/")) == 2


def test_a_taken_name_refuses_the_whole_gang_at_once(cloud: Cloud, clients: Clients) -> None:
    clients.insert(vm("g-1"))
    with pytest.raises(exceptions.Conflict):
        clients.bulk(gang(2))
    assert clients.names() == ["g-1"]


def test_an_eleventh_bulk_insert_at_a_time_is_too_many(cloud: Cloud, clients: Clients) -> None:
    for number in range(10):
        clients.bulk(gang(1, prefix=f"g{number}"))
    with pytest.raises(exceptions.Forbidden, match="Rate Limit Exceeded") as caught:
        clients.bulk(gang(1, prefix="late"))
    assert caught.value.errors[0]["reason"] == "rateLimitExceeded"
    assert (
        caught.value.response.json()["error"]["details"][0]["reason"]
        == "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED"
    )
    cloud.clock.advance(60)
    clients.bulk(gang(1, prefix="late"))


def test_a_name_pattern_goes_on_counting_after_the_biggest_there_is(clients: Clients) -> None:
    resource = gang(2)
    resource.per_instance_properties = {}
    resource.name_pattern = "node-##"
    clients.wait(clients.bulk(resource))
    clients.wait(clients.bulk(resource))
    assert clients.names() == ["node-01", "node-02", "node-03", "node-04"]


def test_a_resource_url_where_a_name_belongs_is_answered_with_503(clients: Clients) -> None:
    resource = gang(1)
    resource.instance_properties.machine_type = f"zones/{ZONE}/machineTypes/a3-highgpu-8g"
    with pytest.raises(exceptions.ServiceUnavailable):
        clients.bulk(resource)


def test_a_region_picks_the_zone_that_has_room_for_all(cloud: Cloud, clients: Clients) -> None:
    cloud.stock("us-central1-a", "a3-highgpu-8g", 1)
    operation = clients.of("RegionInstances").bulk_insert_unary(
        project=P, region="us-central1", bulk_insert_instance_resource_resource=gang(2)
    )
    done = clients.of("RegionOperations").wait(project=P, region="us-central1", operation=operation.name)
    assert not done.error.errors
    assert clients.names(zone="us-central1-b") == ["g-0", "g-1"]


def test_a_region_keeps_to_the_zones_it_is_allowed(cloud: Cloud, clients: Clients) -> None:
    deny = compute_v1.LocationPolicyLocation(preference="DENY")
    policy = compute_v1.LocationPolicy(locations={"zones/us-central1-a": deny, "zones/us-central1-b": deny})
    clients.of("RegionInstances").bulk_insert_unary(
        project=P,
        region="us-central1",
        bulk_insert_instance_resource_resource=gang(1, location_policy=policy),
    )
    assert clients.names(zone="us-central1-c") == ["g-0"]


def test_a_stockout_can_come_at_once_instead(cloud: Cloud, clients: Clients) -> None:
    cloud.compute.settings.bulk_stockout_at_once = True
    cloud.stock(ZONE, "a3-highgpu-8g", 0)
    with pytest.raises(exceptions.ServiceUnavailable, match="insufficient capacity") as caught:
        clients.bulk(gang(2))
    assert caught.value.errors[0]["reason"] == "insufficientCapacity"


def test_a_gang_that_breaks_the_quota_fails_as_a_whole(cloud: Cloud, clients: Clients) -> None:
    cloud.quota("PREEMPTIBLE_NVIDIA_H100_GPUS", 8, region="us-central1")
    parent = clients.wait(clients.bulk(gang(2)))
    error = parent.error.errors[1]
    assert error.code == "QUOTA_EXCEEDED"
    assert (
        error.message == "Quota 'PREEMPTIBLE_NVIDIA_H100_GPUS' exceeded.  Limit: 8.0 in region us-central1."
    )
    cloud.clock.advance(60)
    assert clients.names() == []
