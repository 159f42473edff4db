"""A gang of VMs: all or, after a while, none."""

from __future__ import annotations

import uuid

from google.cloud import compute_v1

from emulator.tests.compute import ZONE, Clients, P, gang
from gputrain_emulator import Cloud


def progress(parent: compute_v1.Operation) -> compute_v1.BulkInsertOperationStatus:
    return parent.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{ZONE}"]


def test_a_gang_with_names_of_our_choice_runs(clients: Clients) -> None:
    parent = clients.wait(clients.bulk(gang(3)))
    assert clients.names(filter="status = RUNNING") == ["g-0", "g-1", "g-2"]
    assert parent.operation_type == "bulkInsert"
    assert not parent.error.errors
    told = progress(parent)
    assert (told.target_vm_count, told.created_vm_count, told.status) == (3, 3, "DONE")


def test_half_a_gang_is_rolled_back_but_lives_and_bills_until_then(cloud: Cloud, clients: Clients) -> None:
    cloud.stock(ZONE, "a3-highgpu-8g", 1)
    parent = clients.wait(clients.bulk(gang(2)))
    codes = [error.code for error in parent.error.errors]
    assert codes == ["VM_MIN_COUNT_NOT_REACHED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"]
    told = progress(parent)
    assert (told.status, told.created_vm_count, told.failed_to_create_vm_count) == ("ROLLING_BACK", 1, 1)
    assert len(clients.names()) == 1
    cloud.clock.advance(60)
    assert clients.names() == []
    assert cloud.cost_usd > 0
    parent = clients.zone_operations.get(project=P, zone=ZONE, operation=parent.name)
    assert (progress(parent).status, progress(parent).deleted_vm_count) == ("DONE", 1)
    assert cloud.compute.free(ZONE, "a3-highgpu-8g") == 1


def test_a_repeated_bulk_insert_with_the_same_request_id_makes_one_gang(
    cloud: Cloud, clients: Clients
) -> None:
    key = str(uuid.uuid4())
    names = {clients.bulk(gang(2), request_id=key).name for _ in range(2)}
    assert len(names) == 1
    assert len(cloud.ledger.events("create", "instances/")) == 2


def test_a_gang_that_breaks_the_quota_fails_as_a_whole(cloud: Cloud, clients: Clients) -> None:
    cloud.quota("PREEMPTIBLE_NVIDIA_H100_GPUS", 8, region="us-central1")
    parent = clients.wait(clients.bulk(gang(2)))
    assert parent.error.errors[1].code == "QUOTA_EXCEEDED"
    cloud.clock.advance(60)
    assert clients.names() == []
