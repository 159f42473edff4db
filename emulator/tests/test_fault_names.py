"""Faults ordered by name, over the admin API as from Python."""

from __future__ import annotations

import email.utils
import http.client
import json
import time
from typing import Any

import pytest
import requests

from emulator.tests.compute import Clients, cpu_vm
from gputrain_emulator import Cloud, fault_names
from tests.each import each

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


def test_one_caller_is_refused_one_method(cloud: Cloud) -> None:
    poor = cloud.caller("poor@example.com")
    token = f"Bearer {cloud.world.callers.issue(poor)}"
    order(cloud, "compute.zones.list", "refused", caller="poor@example.com", times=None)
    assert get(cloud, ZONES, Authorization=token).status_code == 403
    assert get(cloud, ZONE, Authorization=token).ok
    assert get(cloud, ZONES).ok


@pytest.mark.parametrize(("fault", "body"), [("html", b"<!doctype html>"), ("json", b"[]")])
def test_a_reply_is_no_document(cloud: Cloud, fault: str, body: bytes) -> None:
    order(cloud, "compute.zones.get", fault)
    reply = get(cloud, ZONE)
    assert reply.status_code == 200
    assert reply.content.startswith(body)


def test_a_reply_comes_twice(cloud: Cloud) -> None:
    once = get(cloud, ZONE).content
    order(cloud, "compute.zones.get", "doubled")
    assert get(cloud, ZONE).content == once * 2


def test_a_reply_is_cut(cloud: Cloud) -> None:
    order(cloud, "compute.zones.get", "cut", share=0.5)
    wire = http.client.HTTPConnection("127.0.0.1", cloud.server.server_address[1], timeout=10)
    wire.request("GET", ZONE)
    with pytest.raises(http.client.IncompleteRead):
        wire.getresponse().read()
    wire.close()


def test_a_reply_comes_in_drops(cloud: Cloud) -> None:
    order(cloud, "compute.zones.get", "drip", seconds=0.3)
    before = time.monotonic()
    assert get(cloud, ZONE).ok
    assert time.monotonic() - before >= 0.25, "the last of twenty drops falls before the end"


def test_googles_clock_is_apart_from_ours(cloud: Cloud) -> None:
    Clients(cloud).insert(cpu_vm("vm-1"))
    before, due = cloud.clock.now(), cloud.clock.next_event()
    cloud.admin("set_apart", {"seconds": 600})
    date = email.utils.parsedate_to_datetime(get(cloud, ZONE).headers["Date"])
    assert date.timestamp() == pytest.approx(before + 600, abs=1)
    assert due is not None
    assert cloud.clock.next_event() == due + 600, "what is under way takes as long as before"


def test_a_roll_back_is_slow_and_all_lists_lag_by_settings(cloud: Cloud) -> None:
    cloud.admin("settings", {"rollback_s": 900, "list_lag_s": 30})
    assert cloud.compute.settings.rollback_s == 900
    with pytest.raises(LookupError, match="no such setting: speed"):
        cloud.admin("settings", {"speed": 1})


def test_a_name_takes_its_own_details_only(cloud: Cloud) -> None:
    for body in ({"fault": "lag", "zone": "x"}, {"fault": "unreachable"}):
        whole = json.dumps({"method": "*", **body})
        told = requests.post(f"{cloud.endpoints.url}/_emulator/fail", data=whole, timeout=10)
        assert told.status_code == 400


@each("name", fault_names.NAMED)
def test_every_name_is_in_the_reference(name: str) -> None:
    from emulator.tests.test_reference_page import PAGE

    assert f"| `{name}` |" in PAGE
