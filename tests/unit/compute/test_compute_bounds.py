"""Up to where a backend of VMs goes: how long it waits, how seldom it looks, what suits a machine."""

import pytest

from tests.unit.compute.test_compute_render import rendered


@pytest.mark.parametrize(("fields", "queue_s", "limit_s"), [
    ({"provisioning_model": "flex-start", "max_wait_duration": "90m", "max_run_duration": "5m"}, 5400, 300),
    ({"provisioning_model": "flex-start", "max_wait_duration": "9h"}, 7200, None),
    ({"provisioning_model": "spot", "max_wait_duration": "9h"}, 0, None),
    ({"provisioning_model": "flex-start", "num_nodes": 2, "max_wait_duration": "9h",
     "max_run_duration": "5m"}, 7200, 600),
    ({"provisioning_model": "spot", "num_nodes": 2, "max_run_duration": "5m"}, 0, 300),
    ({"provisioning_model": "spot", "max_run_duration": "7s"}, 0, 30),
])  # fmt: skip
def test_one_vm_waits_in_googles_queue_as_long_as_its_job_may_and_google_lets_it(fields, queue_s, limit_s):
    body = rendered({}, {"gpu": "L4:1", **fields})
    assert body["queue_s"] == queue_s
    scheduling = body["properties"]["scheduling"]
    assert limit_s is None or scheduling["maxRunDuration"] == {"seconds": str(limit_s)}
    assert ("preemptionNoticeDuration" in scheduling) is (fields["provisioning_model"] == "spot")
