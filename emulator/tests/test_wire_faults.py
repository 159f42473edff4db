"""Each way in which the wire itself goes wrong, and whether the work was done."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import requests
from google.api_core import exceptions

from emulator.tests.compute import ZONE, Clients, P, cpu_vm
from gputrain_emulator import Cloud, faults

INSERT = "compute.instances.insert"
GET = "compute.instances.get"
LIST = "compute.instances.list"


def made(cloud: Cloud) -> int:
    return len(cloud.ledger.events("create", "instances/"))


def test_a_drop_before_the_commit_leaves_nothing(cloud: Cloud, clients: Clients) -> None:
    cloud.fail(INSERT, faults.DropBeforeCommit())
    with pytest.raises(requests.exceptions.ConnectionError):
        clients.insert(cpu_vm())
    assert made(cloud) == 0
    clients.insert(cpu_vm())


def test_a_drop_after_the_commit_leaves_a_vm_that_the_request_id_finds_again(
    cloud: Cloud, clients: Clients
) -> None:
    key = str(uuid.uuid4())
    cloud.fail(INSERT, faults.DropAfterCommit())
    with pytest.raises(requests.exceptions.ConnectionError):
        clients.insert(cpu_vm(), request_id=key)
    assert made(cloud) == 1
    again = clients.insert(cpu_vm(), request_id=key)
    assert made(cloud) == 1
    assert again.client_operation_id == key


def test_a_5xx_in_json_is_a_503_and_nothing_was_done(cloud: Cloud, clients: Clients) -> None:
    cloud.fail(INSERT, faults.server_error(503, retry_after_s=7))
    with pytest.raises(exceptions.ServiceUnavailable) as caught:
        clients.insert(cpu_vm())
    assert caught.value.errors[0]["reason"] == "backendError"
    assert caught.value.response.headers["Retry-After"] == "7"
    assert made(cloud) == 0


def test_a_401_once_is_healed_by_refreshing_the_token(cloud: Cloud, clients: Clients) -> None:
    clients.insert(cpu_vm())
    cloud.fail(GET, faults.unauthorized())
    assert clients.status("vm-1") == "PROVISIONING"
    assert [seen.path for seen in cloud.requests][-3:] == [f"/compute/v1/projects/{P}/zones/{ZONE}/instances/vm-1", "/token", f"/compute/v1/projects/{P}/zones/{ZONE}/instances/vm-1"]  # fmt: skip  # noqa: E501


def test_the_rate_limit_refills_at_the_full_minute(cloud: Cloud, clients: Clients) -> None:
    clients.insert(cpu_vm())
    cloud.rate_limit("compute.reads", 3)
    cloud.clock.advance(60 - cloud.clock.ticking() % 60)
    for _ in range(3):
        clients.status("vm-1")
    with pytest.raises(
        exceptions.Forbidden, match="Quota exceeded for quota metric 'Queries' and limit 'Queries per minute'"
    ) as caught:
        clients.status("vm-1")
    assert caught.value.errors[0]["reason"] == "rateLimitExceeded"
    cloud.clock.advance(60)
    assert clients.status("vm-1")


def test_faults_strike_one_after_the_other_and_only_whom_they_are_meant_for(
    cloud: Cloud, clients: Clients
) -> None:
    clients.insert(cpu_vm())
    other = Clients(cloud, cloud.credentials_of(cloud.caller("bob@example.com")))
    cloud.fail("compute.instances.*", faults.server_error(500), caller="bob@example.com")
    cloud.fail("compute.instances.*", faults.server_error(503), caller="bob@example.com")
    assert clients.status("vm-1")
    for kind in (exceptions.InternalServerError, exceptions.ServiceUnavailable):
        with pytest.raises(kind):
            other.instances.get(project=P, zone=ZONE, instance="vm-1", retry=None)
    assert other.status("vm-1")


def order(cloud: Cloud, method: str, fault: str, **more: Any) -> requests.Response:
    """A fault ordered by its name, over the admin API."""
    body = {"method": method, "fault": fault, **more}
    return requests.post(f"{cloud.endpoints.url}/_emulator/fail", json=body, timeout=10)


def test_one_list_lags_and_the_others_do_not(cloud: Cloud, clients: Clients) -> None:
    clients.run(cpu_vm())
    assert order(cloud, LIST, "lag", seconds=3600, times=None).ok
    assert clients.names() == []
    scopes = dict(clients.instances.aggregated_list(project=P))
    assert [vm.name for vm in scopes[f"zones/{ZONE}"].instances] == ["vm-1"]
    assert clients.status("vm-1") == "RUNNING"
    cloud.clock.advance(3600)
    assert clients.names() == ["vm-1"]


def test_a_zone_is_missing_from_a_page_and_told_as_unreachable(cloud: Cloud, clients: Clients) -> None:
    clients.run(cpu_vm())
    assert order(cloud, "compute.instances.aggregatedList", "unreachable", zone=ZONE).ok
    scope = dict(clients.instances.aggregated_list(project=P))[f"zones/{ZONE}"]
    assert (scope.warning.code, list(scope.instances)) == ("UNREACHABLE", [])


def test_a_name_takes_its_own_details_only(cloud: Cloud) -> None:
    assert order(cloud, "*", "lag", zone="x").status_code == 400
    assert order(cloud, "*", "unreachable").status_code == 400
