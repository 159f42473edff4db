"""What a plan takes from the cloud's own lists and quotas, where the built-in tables know no better."""

import pytest

from gputrain import QuotaExceededError


def test_a_zone_that_only_the_live_list_has_is_planned(trainer, script):
    plan = trainer("compute", regions=["us-east4"]).plan(script, gpu="RTX-PRO-6000:8")
    assert {one.place for one in plan.candidates} == {"us-east4-a"}
    assert "us-east4-a" in str(plan)


def test_disks_beyond_the_quota_are_refused_by_the_plan_with_the_setting(cloud, trainer, script):
    cloud.quota("SSD_TOTAL_GB", 500)
    plan = trainer("compute").plan(script, gpu="L4:1", num_nodes=4, provisioning_model="standard")
    assert "SSD_TOTAL_GB in us-central1 is 500 with 0 in use, the job needs 800" in plan.explain()
    assert "What would work: a smaller disk_gib=" in plan.explain()
    with pytest.raises(QuotaExceededError, match="disk_gib="):
        plan.submit()
    assert not cloud.compute.vms
