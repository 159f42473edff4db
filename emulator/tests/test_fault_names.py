"""Faults ordered by name, over the admin API as from Python."""

from __future__ import annotations

import json
from typing import Any

import requests

from emulator.tests.compute import Clients, cpu_vm
from gputrain_emulator import Cloud

ZONES = "/compute/v1/projects/my-project/zones"
ZONE = f"{ZONES}/us-central1-a"


def order(cloud: Cloud, method: str, fault: str, **more: Any) -> None:
    body = {"method": method, "fault": fault, **more}
    told = requests.post(f"{cloud.endpoints.url}/_emulator/fail", json=body, timeout=10)
    assert told.ok, told.text


def get(cloud: Cloud, path: str, **headers: str) -> requests.Response:
    return requests.get(cloud.endpoints.url + path, headers=headers, timeout=10)


def names(reply: requests.Response) -> list[str]:
    return [one["name"] for one in reply.json().get("items", [])]


def test_one_list_lags_and_the_others_do_not(cloud: Cloud) -> None:
    clients = Clients(cloud)
    clients.run(cpu_vm("vm-1"))
    order(cloud, "compute.instances.list", "lag", seconds=3600, times=None)
    assert names(get(cloud, f"{ZONE}/instances")) == []
    assert "vm-1" in get(cloud, "/compute/v1/projects/my-project/aggregated/instances").text
    assert get(cloud, f"{ZONE}/instances/vm-1").ok
    cloud.clock.advance(3600)
    assert names(get(cloud, f"{ZONE}/instances")) == ["vm-1"]


def test_a_zone_is_missing_from_a_page_and_told_as_unreachable(cloud: Cloud) -> None:
    Clients(cloud).run(cpu_vm("vm-1"))
    order(cloud, "compute.instances.aggregatedList", "unreachable", zone="us-central1-a")
    page = get(cloud, "/compute/v1/projects/my-project/aggregated/instances").json()["items"]
    assert page["zones/us-central1-a"]["warning"]["code"] == "UNREACHABLE"
    assert "instances" not in page["zones/us-central1-a"]


def test_a_name_takes_its_own_details_only(cloud: Cloud) -> None:
    for body in ({"fault": "lag", "zone": "x"}, {"fault": "unreachable"}):
        whole = json.dumps({"method": "*", **body})
        told = requests.post(f"{cloud.endpoints.url}/_emulator/fail", data=whole, timeout=10)
        assert told.status_code == 400
