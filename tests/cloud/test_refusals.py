"""What a cloud refuses: the error that a submit raises says what to do, and nothing is left behind."""

import pytest
import requests

from gputrain import AuthError, NoPlacementError, PermissionDeniedError, QuotaExceededError, RequestError
from gputrain.errors import ApiDisabledError, OrgPolicyError
from tests.cloud.test_what_bills import CREATES, JOB
from tests.each import each

REFUSALS = {
    ("compute", "C06"): QuotaExceededError,
    ("compute", "C17"): RequestError,
    ("compute", "C24"): OrgPolicyError,
    ("compute", "C26"): PermissionDeniedError,
    ("compute", "C27"): ApiDisabledError,
    ("compute", "C33"): AuthError,
    ("vertex", "V01"): QuotaExceededError,
    ("vertex", "V06"): RequestError,
    ("vertex", "V08"): PermissionDeniedError,
    ("vertex", "V09"): ApiDisabledError,
}
"""A row of Google's refusals, by the emulator's name for it."""


@each(("kind", "row"), REFUSALS)
def test_a_refusal_is_an_error_of_its_kind_with_a_fix(cloud, trainer, script, kind, row):
    order = cloud.fail(CREATES[kind], row, times=None)
    with pytest.raises(REFUSALS[kind, row]) as caught:
        trainer(kind).submit(script, **JOB)
    order.cancel()
    assert caught.value.fix
    assert not cloud.compute.vms
    assert not trainer(kind).jobs()


def test_nodes_start_together_or_not_at_all(cloud, trainer, script):
    for zone in "abc":
        cloud.stock(f"us-central1-{zone}", "g2-standard-4", 1)
    with pytest.raises(NoPlacementError, match="no room") as caught:
        trainer("compute").submit(script, **JOB, machine_type="g2-standard-4")
    assert len(caught.value.attempts) == 3
    assert not cloud.compute.vms


def test_who_deleted_a_machine_is_named(cloud, trainer, script):
    job = trainer("compute").submit(script, **{**JOB, "num_nodes": 1})
    (vm,) = cloud.compute.vms.values()
    token = cloud.credentials_of(cloud.caller("ops@example.com")).token
    url = f"{cloud.endpoints.compute}/compute/v1/projects/{cloud.project}/zones/{vm.zone}/instances/{vm.name}"
    requests.delete(url, headers={"Authorization": f"Bearer {token}"}, timeout=10).raise_for_status()
    cloud.clock.advance(300)
    assert "ops@example.com" in job.refresh().detail
