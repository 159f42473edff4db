"""The server under bad input: a Google-shaped error or a closed connection, and it goes on."""

from __future__ import annotations

import socket
from typing import Any

import pytest
import requests

import gputrain_emulator
from gputrain_emulator import Cloud, faults

ZONES = "/compute/v1/projects/my-project/zones"


def port(cloud: Cloud) -> int:
    return int(cloud.server.server_address[1])


@pytest.mark.parametrize(("agent", "accepts"), [("mine", "gzip"), ("mine (gzip)", "identity")])
def test_a_document_travels_packed_only_for_who_says_gzip_twice(
    cloud: Cloud, agent: str, accepts: str
) -> None:
    url = f"{cloud.endpoints.url}{ZONES}/us-central1-a/machineTypes"
    plain = requests.get(url, headers={"User-Agent": agent, "Accept-Encoding": accepts}, timeout=10)
    both = requests.get(url, headers={"User-Agent": "x (gzip)", "Accept-Encoding": "gzip"}, timeout=10)
    assert "Content-Encoding" not in plain.headers
    assert both.headers["Content-Encoding"] == "gzip"
    assert int(both.headers["Content-Length"]) < int(plain.headers["Content-Length"]) / 3
    assert both.json() == plain.json()


def test_a_body_of_100_mb_is_refused_unread(cloud: Cloud) -> None:
    head = f"POST {ZONES}/us-central1-a/instances HTTP/1.1\r\nContent-Length: 104857600\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port(cloud)), timeout=10) as connection:
        connection.sendall(head.encode())
        assert b" 413 " in connection.makefile("rb").readline()
    assert requests.get(f"{cloud.endpoints.url}{ZONES}", timeout=10).ok


def test_an_unknown_host_is_not_served(cloud: Cloud) -> None:
    reply = requests.get(f"{cloud.endpoints.url}{ZONES}", headers={"Host": "evil.example.com"}, timeout=10)
    assert reply.status_code == 404
    for host in ("compute.googleapis.com", f"localhost:{port(cloud)}"):
        assert requests.get(f"{cloud.endpoints.url}{ZONES}", headers={"Host": host}, timeout=10).ok


def test_unknown_fields_and_parameters_are_refused_in_googles_words(cloud: Cloud) -> None:
    url = f"{cloud.endpoints.url}{ZONES}/us-central1-a/instances"
    reply = requests.post(url, json={"colour": "red", "scheduling": {"speed": 1}}, timeout=10).json()["error"]
    assert reply["message"].splitlines() == [
        "Invalid JSON payload received. Unknown name \"colour\" at 'resource': Cannot find field.",
        "Invalid JSON payload received. Unknown name \"speed\" at 'resource.scheduling': Cannot find field.",
    ]
    violations = reply["details"][0]["fieldViolations"]
    assert [violation["field"] for violation in violations] == ["resource", "resource.scheduling"]
    reply = requests.get(f"{url}?colour=red", timeout=10).json()["error"]
    assert reply["message"].startswith(
        'Invalid JSON payload received. Unknown name "colour": Cannot bind query parameter.'
    )


def test_requests_without_a_token_can_be_refused() -> None:
    with gputrain_emulator.start(anonymous=False) as cloud:
        url = f"{cloud.endpoints.url}{ZONES}"
        assert requests.get(url, timeout=10).status_code == 401
        assert requests.get(url, headers={"Authorization": "Bearer nonsense"}, timeout=10).status_code == 401
        token = cloud.world.callers.issue(cloud.owner)
        assert requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=10).ok


def test_the_admin_commands_do_what_the_object_does(cloud: Cloud) -> None:
    base = f"{cloud.endpoints.url}/_emulator"

    def order(command: str, **values: Any) -> requests.Response:
        return requests.post(f"{base}/{command}", json=values, timeout=10)

    before = cloud.clock.now()
    assert order("advance", seconds=5).json() == {"now": before + 5}
    order("stock", zone="us-central1-a", machine="g2-standard-24", count=3)
    assert cloud.compute.free("us-central1-a", "g2-standard-24") == 3
    assert "table" in order("ledger").json()
    assert order("fail", method="*", fault="C99").status_code == 404
    assert order("dance").status_code == 404
    assert order("advance", years=1).status_code == 400
    assert requests.get(f"{base}/ledger", timeout=10).status_code == 403


def test_a_fault_of_our_own_is_told(cloud: Cloud) -> None:
    told: list[Exception] = []
    cloud.dispatcher.failed = told.append
    fault = faults.Reshape(change=lambda document: document["no such key"])
    cloud.fail("compute.zones.list", fault)
    assert requests.get(f"{cloud.endpoints.url}{ZONES}", timeout=10).status_code == 500
    assert [type(error) for error in told] == [KeyError]
    cloud.dispatcher.failures.clear()


def test_a_port_that_is_taken_is_named(cloud: Cloud) -> None:
    with pytest.raises(OSError, match=f"Address already in use: port {port(cloud)} of 127.0.0.1"):
        gputrain_emulator.start(port=port(cloud))
