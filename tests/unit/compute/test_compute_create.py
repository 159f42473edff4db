"""The one write: the VMs of an attempt are there whole, or nothing is left and the error says what to do."""

import pytest

from gputrain.errors import (
    CapacityError,
    QuotaExceededError,
    RequestError,
)
from gputrain.jobstore import Launch

BULK = "compute.instances.bulkInsert"


@pytest.mark.parametrize("count", [1, 16])
def test_a_group_of_any_size_costs_one_write_and_five_reads(cloud, jobs, count):
    jobs.submit(num_nodes=1)  # what every process asks once is asked
    before = len(cloud.requests)
    jobs.launch("other", num_nodes=count)
    seen = [one for one in cloud.requests[before:] if one.method.startswith("compute.")]
    assert [one.method for one in seen if one.verb != "GET"] == [BULK]
    reads = [one.method for one in seen if one.verb == "GET" and one.method != "compute.zoneOperations.get"]
    assert len(reads) <= 5, reads
    assert len(jobs.vms()) == 1 + count


@pytest.mark.parametrize("has_members", [True, False])
def test_a_full_zone_leaves_nothing_and_names_the_zones_that_have_room(cloud, jobs, has_members):
    cloud.stock("us-central1-a", "g2-standard-4", 1)
    if not has_members:  # who may not list operations is told all the same
        cloud.fail("compute.zoneOperations.list", "C26", times=None)
    request = jobs.request()
    with pytest.raises(CapacityError) as caught:
        jobs.backend.launch(request)
    assert request.candidate.place == "us-central1-a"
    assert caught.value.zones_available
    assert jobs.vms() == []


def test_half_a_group_lives_for_less_than_a_minute(cloud, jobs):
    cloud.stock("us-central1-a", "g2-standard-4", 1)
    cloud.compute.settings.rollback_s = 3600.0
    with pytest.raises(CapacityError):
        jobs.launch()
    times = {row.event: row.time for row in cloud.ledger if "/instances/" in row.resource}
    assert "start" in times
    assert times["delete"] - times["start"] < 60


def test_a_quota_is_told_with_its_metric_limit_and_region(cloud, jobs):
    request = jobs.request()
    cloud.quota("NVIDIA_L4_GPUS", 1)
    with pytest.raises(QuotaExceededError) as caught:
        jobs.backend.launch(request)
    assert (caught.value.metric, caught.value.limit) == ("NVIDIA_L4_GPUS", 1.0)
    assert caught.value.where == "us-central1"
    assert jobs.vms() == []


@pytest.mark.parametrize("row", ["C21", "C23"])
def test_a_name_that_is_taken_is_this_attempts_own(cloud, jobs, row):
    cloud.fail(BULK, row)
    assert jobs.submit().record.attempt.state is Launch.LAUNCHED


def test_an_image_that_is_not_there_is_told_by_name_before_anything_is_made(jobs_of):
    jobs = jobs_of(image_family="deeplearning-platform-release/of-yesterday")
    with pytest.raises(RequestError, match="image_family=") as caught:
        jobs.launch()
    assert "of-yesterday" in caught.value.why
    assert jobs.vms() == []
