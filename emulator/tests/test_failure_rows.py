"""Every row of the Compute failure table is produced, and reads as the row says."""

from __future__ import annotations

import re

import pytest
import requests

from emulator.tests.compute import ZONE, P
from emulator.tests.test_strict_requests import vm
from gputrain_emulator import Cloud
from gputrain_emulator.failures import AT_ONCE, LATER, LIST, ROWS, WIRE
from tests.each import each

URL = f"/compute/v1/projects/{P}/zones/{ZONE}/instances"


def insert(cloud: Cloud, name: str = "instance-1") -> requests.Response:
    return requests.post(cloud.endpoints.url + URL, json=vm(name=name), timeout=10)


def filled(cloud: Cloud, text: str) -> str:
    number = cloud.world.projects[P].number
    return text.format(project=P, number=number, zone=ZONE, region="us-central1", name="instance-1")


@each("row", [row for row, failure in ROWS.items() if failure.where == AT_ONCE])
def test_it_is_refused_at_once(cloud: Cloud, row: str) -> None:
    failure = ROWS[row]
    cloud.fail("compute.instances.insert", row)
    reply = insert(cloud)
    assert reply.status_code == failure.http
    error = reply.json()["error"]
    sentence = filled(cloud, failure.message)
    assert error["message"] == sentence
    assert error["errors"] == [{"message": sentence, "domain": failure.domain, "reason": failure.code}]
    if failure.info:
        (detail,) = error["details"]
        assert detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
        assert detail["reason"] == failure.info
        assert detail["metadatas"] == {key: filled(cloud, text) for key, text in failure.facts.items()}
    else:
        assert "details" not in error
    assert len(cloud.ledger) == 0


def test_a_row_that_was_ordered_once_is_met_once(cloud: Cloud) -> None:
    cloud.fail("compute.instances.insert", "C04")
    assert [insert(cloud).status_code for _ in range(2)] == [503, 200]


@each("row", [row for row, failure in ROWS.items() if failure.where == LATER])
def test_it_fails_in_the_operation(cloud: Cloud, row: str) -> None:
    failure, name = ROWS[row], f"vm-{row.lower()}"
    cloud.fail("compute.instances.insert", row)
    reply = insert(cloud, name)
    assert (reply.status_code, reply.json()["status"]) == (200, "RUNNING")
    wait = reply.json()["selfLink"].replace("https://www.googleapis.com", cloud.endpoints.url) + "/wait"
    done = requests.post(wait, timeout=10).json()
    assert done["status"] == "DONE"
    assert done.get("httpErrorStatusCode") == failure.http
    (error,) = done["error"]["errors"]
    assert (error["code"], error["message"]) == (failure.code, filled(cloud, failure.message))
    assert requests.get(f"{cloud.endpoints.url}{URL}/{name}", timeout=10).status_code == 404


@pytest.mark.parametrize("row", [row for row, failure in ROWS.items() if failure.where == WIRE])
def test_it_comes_from_a_proxy(cloud: Cloud, row: str) -> None:
    cloud.fail("compute.instances.insert", row)
    reply = insert(cloud)
    assert (reply.status_code, reply.headers["Content-Type"]) == (502, "text/html; charset=UTF-8")
    assert reply.text.startswith("<html>")


@pytest.mark.parametrize("row", [row for row, failure in ROWS.items() if failure.where == LIST])
def test_it_shows_in_a_list(cloud: Cloud, row: str) -> None:
    insert(cloud)
    cloud.fail("compute.instances.list", row)
    listed = requests.get(cloud.endpoints.url + URL, timeout=10).json()
    assert listed["warning"]["code"] == ROWS[row].code
    assert listed["items"] == []


def test_the_rows_are_those_of_the_catalogue() -> None:
    assert {re.sub(r"[a-z]$", "", row) for row in ROWS} == {f"C{number:02d}" for number in range(1, 38)}


def test_a_row_that_is_not_there_is_named(cloud: Cloud) -> None:
    with pytest.raises(LookupError, match="no such row: 'C99'"):
        cloud.fail("*", "C99")
