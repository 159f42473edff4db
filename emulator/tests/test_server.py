"""The server under bad input: a Google-shaped error or a closed connection, and it goes on."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from typing import Any

import pytest
import requests

import gputrain_emulator
from gputrain_emulator import Cloud, faults
from tests.each import each

ZONES = "/compute/v1/projects/my-project/zones"
INSERT = f"POST {ZONES}/us-central1-a/instances HTTP/1.1\r\nHost: localhost\r\n".encode()


def port(cloud: Cloud) -> int:
    return int(cloud.server.server_address[1])


def exchange(cloud: Cloud, data: bytes, *, half_close: bool = False) -> bytes:
    with socket.create_connection(("127.0.0.1", port(cloud)), timeout=10) as connection:
        parts = []
        try:
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(65536):
                parts.append(chunk)
        except TimeoutError:
            raise
        except OSError:
            pass  # closed in our face, as it may be
        return b"".join(parts)


def goes_on(cloud: Cloud) -> bool:
    return requests.get(f"{cloud.endpoints.url}{ZONES}/us-central1-a", timeout=10).json()["status"] == "UP"


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


GARBAGE = {
    "random bytes": os.urandom(4096) + b"\r\n\r\n",
    "a TLS hello": bytes.fromhex("160301020001000001fc0303") + bytes(500),
    "no version": b"GET /\r\n\r\n",
    "an old version": b"GET / HTTP/0.3\r\n\r\n",
    "an endless line": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    "too many headers": b"GET / HTTP/1.1\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(500)) + b"\r\n",
    "a verb of its own": b"BREW /pot HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "a negative length": b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    "a length in words": b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n",
    "a broken chunk": b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a negative chunk": b"POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
}


@each("kind", GARBAGE)
def test_garbage_is_refused_and_the_server_goes_on(cloud: Cloud, kind: str) -> None:
    answer = exchange(cloud, GARBAGE[kind], half_close=True)
    if answer.startswith(b"HTTP/"):
        assert 400 <= int(answer.split(b" ")[1]) < 500
        body = answer.partition(b"\r\n\r\n")[2]
        assert "error" in json.loads(body)
    assert goes_on(cloud)


def test_a_body_that_breaks_off_is_refused(cloud: Cloud) -> None:
    head = INSERT + b"Content-Length: 50\r\n\r\n"
    assert b" 400 " in exchange(cloud, head + b"{", half_close=True).partition(b"\r\n")[0]
    assert goes_on(cloud)


def test_a_body_of_100_mb_is_refused_unread(cloud: Cloud) -> None:
    head = INSERT + b"Content-Length: 104857600\r\n\r\n"
    assert b" 413 " in exchange(cloud, head).partition(b"\r\n")[0]
    assert goes_on(cloud)


def test_half_open_connections_keep_nobody_waiting(cloud: Cloud) -> None:
    open_ones = [socket.create_connection(("127.0.0.1", port(cloud))) for _ in range(50)]
    for connection in open_ones[:25]:
        connection.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nab")
    assert goes_on(cloud)
    for connection in open_ones:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    assert goes_on(cloud)


def test_json_as_deep_as_a_well_is_refused(cloud: Cloud) -> None:
    url = f"{cloud.endpoints.url}{ZONES}/us-central1-a/instances"
    for body in (
        "[" * 100_000,
        '{"metadata":' * 5000 + "1" + "}" * 5000,
        "nonsense",
        '{"a":1',
        "\x00",
        "[]",
        '"x"',
    ):
        reply = requests.post(url, data=body, timeout=10)
        assert reply.status_code == 400, body[:20]
        assert reply.json()["error"]["code"] == 400
    assert goes_on(cloud)


@each(
    ("verb", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/compute/v1/projects/my-project/zones/us-central1-a/nothing", 404),
        ("GET", "/compute/v1/projects/my-project/zones/../../../etc/passwd", 404),
        ("GET", "/compute/v1/projects/my-project/zones/%2e%2e/instances", 404),
        ("GET", "/compute/v1/projects/my-project/zones//instances", 404),
        ("PUT", "/compute/v1/projects/my-project/zones/us-central1-a", 405),
        ("GET", "/compute/v1/projects/my-project/global/sslCertificates", 501),
        ("POST", "/v1/projects/my-project/locations/us-central1/endpoints", 501),
        ("GET", "/compute/v1/projects/nobodys/zones", 404),
        ("GET", "/compute/v1/projects/my-project/zones?maxResults=many", 400),
        ("GET", "/compute/v1/projects/my-project/zones?maxResults=501", 400),
        ("GET", "/compute/v1/projects/my-project/zones?pageToken=here", 400),
        ("GET", "/compute/v1/projects/my-project/zones?colour=red", 400),
        ("GET", "/compute/v1/projects/my-project/zones/us-central1-z", 404),
    ],
)
def test_wrong_addresses_are_refused_in_googles_shape(
    cloud: Cloud, verb: str, path: str, status: int
) -> None:
    request = requests.Request(verb, cloud.endpoints.url).prepare()
    request.url = cloud.endpoints.url + path
    reply = requests.Session().send(request, timeout=10)
    assert (reply.status_code, reply.json()["error"]["code"]) == (status, status)


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


def test_partial_responses_and_pretty_ones(cloud: Cloud) -> None:
    base = f"{cloud.endpoints.url}{ZONES}"
    picked = requests.get(f"{base}?fields=items(name,status),kind&maxResults=2", timeout=10).json()
    assert picked["kind"] == "compute#zoneList"
    assert picked["items"] == [
        {"name": "asia-east1-a", "status": "UP"},
        {"name": "asia-east1-b", "status": "UP"},
    ]
    assert requests.get(f"{base}?fields=items/name&maxResults=1", timeout=10).json() == {
        "items": [{"name": "asia-east1-a"}]
    }
    assert "\n" in requests.get(f"{base}?prettyPrint=true&$alt=json;enum-encoding=int", timeout=10).text


def test_a_batch_answers_each_part(cloud: Cloud) -> None:
    parts = [f"GET {ZONES}/us-central1-a HTTP/1.1", f"GET {ZONES}/nowhere-a HTTP/1.1", "nonsense"]
    body = "".join(
        f"--b\r\nContent-Type: application/http\r\nContent-ID: <part+{number}>\r\n\r\n{part}\r\n\r\n\r\n"
        for number, part in enumerate(parts)
    )
    headers = {"Content-Type": 'multipart/mixed; boundary="b"'}
    url = f"{cloud.endpoints.url}/batch/compute/v1"
    reply = requests.post(url, data=f"{body}--b--\r\n", headers=headers, timeout=10)
    assert reply.status_code == 200
    chunks = reply.text.split("--batch_emulator")[1:4]
    assert [chunk.split("HTTP/1.1 ")[1][:3] for chunk in chunks] == ["200", "404", "400"]
    assert ["<response-part+0>" in chunks[0], '"UP"' in chunks[0]] == [True, True]
    assert requests.post(url, data="x", headers=headers, timeout=10).status_code == 400


def test_it_binds_to_loopback_only_and_says_so() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "example.com"):
        with pytest.raises(ValueError, match="binds to loopback only"):
            gputrain_emulator.start(host=host)


def test_requests_without_a_token_can_be_refused() -> None:
    with gputrain_emulator.start(anonymous=False) as cloud:
        url = f"{cloud.endpoints.url}{ZONES}"
        assert requests.get(url, timeout=10).status_code == 401
        assert requests.get(url, headers={"Authorization": "Bearer nonsense"}, timeout=10).status_code == 401
        token = cloud.world.callers.issue(cloud.owner)
        assert requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=10).ok
        cloud.world.callers.revoke(token)
        assert requests.get(url, headers={"Authorization": f"Bearer {token}"}, timeout=10).status_code == 401


def test_the_admin_commands_do_what_the_object_does(cloud: Cloud) -> None:
    base = f"{cloud.endpoints.url}/_emulator"
    before = cloud.clock.now()
    assert requests.post(f"{base}/advance", json={"seconds": 5}, timeout=10).json() == {"now": before + 5}
    requests.post(
        f"{base}/stock", json={"zone": "us-central1-a", "machine": "g2-standard-24", "count": 3}, timeout=10
    )
    assert cloud.compute.free("us-central1-a", "g2-standard-24") == 3
    assert "table" in requests.post(f"{base}/ledger", timeout=10).json()
    assert requests.post(f"{base}/fail", json={"method": "*", "fault": "C99"}, timeout=10).status_code == 404
    assert requests.post(f"{base}/dance", timeout=10).status_code == 404
    assert requests.post(f"{base}/advance", json={"years": 1}, timeout=10).status_code == 400
    assert requests.get(f"{base}/ledger", timeout=10).status_code == 403
    assert (
        requests.post(f"{base}/ledger", headers={"Origin": "http://evil.example"}, timeout=10).status_code
        == 403
    )


def test_it_runs_as_a_command_and_ends_when_told() -> None:
    command = [sys.executable, "-m", "gputrain_emulator", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.split("served at ")[1].split(";")[0]
        assert requests.get(f"{url}{ZONES}/us-central1-a", timeout=10).ok
        process.terminate()
        assert process.wait(timeout=60) == 0


def test_the_command_refuses_to_be_seen_from_outside() -> None:
    command = [sys.executable, "-m", "gputrain_emulator", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "binds to loopback only" in done.stderr


@pytest.mark.parametrize("host", ["127.0.0.5", "::1", "localhost"])
def test_its_address_is_the_one_it_listens_on(host: str) -> None:
    with gputrain_emulator.start(host=host) as cloud:
        assert requests.get(f"{cloud.endpoints.url}{ZONES}/us-central1-a", timeout=10).ok
        assert {"127.0.0.5": "127.0.0.5", "::1": "[::1]", "localhost": "127.0.0.1"}[
            host
        ] in cloud.endpoints.url


@each(
    ("sent", "status"),
    [
        (b"POST /token HTTP/1.1\r\nHost: localhost\r\nContent-Length: \xb2\r\n\r\n", b"400"),
        (b"POST /token HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1_0\r\n", b"400"),
        (b"POST /token HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", b"400"),
        (b"POST /token HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", b"400"),
        (b"POST /token HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
        (b"POST /token HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", b"400"),
        (b"GET http://evil.example/compute/v1 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET http://[/ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
        (b"GET / HTTP/3.7\r\nHost: localhost\r\n\r\n", b"505"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"505"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
    ],
)  # fmt: skip
def test_what_is_no_request_gets_a_status_line_and_google_words(
    cloud: Cloud, sent: bytes, status: bytes
) -> None:
    reply = exchange(cloud, sent, half_close=True)
    assert reply.startswith(b"HTTP/1.1 " + status)
    assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["status"] != "UNKNOWN"


@pytest.mark.parametrize("kind", ["a/b\r\nX-Evil: 1", "é/😀", "\0", "a\nb", "\ud800"])
def test_what_is_stored_of_an_object_ends_no_line_of_the_answer(cloud: Cloud, kind: str) -> None:
    cloud.add_bucket("bucket-1")
    path = "/storage/v1/b/bucket-1/o"
    url = cloud.endpoints.url + path
    requests.post(f"{cloud.endpoints.url}/upload{path}?uploadType=media&name=a", b"x", timeout=10)
    body = {"contentType": kind, "contentDisposition": kind, "cacheControl": kind}
    assert requests.patch(f"{url}/a", json=body, timeout=10).status_code in (200, 400)
    reply = requests.get(f"{url}/a?alt=media", timeout=10)
    assert (reply.status_code, reply.content) == (200, b"x")
    assert "X-Evil" not in reply.headers


def test_the_clock_refuses_to_go_where_no_date_is(cloud: Cloud) -> None:
    for seconds in (1e300, -1, "NaN"):
        url = f"{cloud.endpoints.url}/_emulator/advance"
        assert requests.post(url, json={"seconds": seconds}, timeout=10).status_code == 400


def test_a_fault_of_our_own_is_told(cloud: Cloud) -> None:
    told: list[Exception] = []
    cloud.dispatcher.failed = told.append
    fault = faults.Reshape(change=lambda document: document["no such key"])
    cloud.fail("compute.zones.list", fault)
    assert requests.get(f"{cloud.endpoints.url}{ZONES}", timeout=10).status_code == 500
    assert [type(error) for error in told] == [KeyError]
    cloud.dispatcher.failures.clear()


def test_a_get_that_is_longer_than_a_line_may_be_comes_as_a_post(cloud: Cloud) -> None:
    query = f"filter=name = us-central1-a&key={'x' * 3000}"
    heads = {"X-HTTP-Method-Override": "GET", "Content-Type": "application/x-www-form-urlencoded"}
    url = f"{cloud.endpoints.url}{ZONES}"
    reply = requests.post(f"{url}?fields=items(name)", data=query, headers=heads, timeout=60)
    assert reply.json() == {"items": [{"name": "us-central1-a"}]}
    assert requests.post(url, headers={"X-HTTP-Method-Override": "BREW"}, timeout=60).status_code == 405


@pytest.mark.parametrize("place", ["fields", "X-Goog-FieldMask"])
def test_a_selection_counts_wherever_it_is_said(cloud: Cloud, place: str) -> None:
    url, said = f"{cloud.endpoints.url}{ZONES}/us-central1-a", {place: "name"}
    reply = requests.get(
        url, **({"headers": said} if place.startswith("X") else {"params": said}), timeout=60
    )
    assert reply.json() == {"name": "us-central1-a"}


def test_a_token_in_the_query_counts_as_one_in_a_header(cloud: Cloud) -> None:
    cloud.caller("nobody@example.com", set())
    token = cloud.world.callers.issue(cloud.world.callers.by_email["nobody@example.com"])
    url = f"{cloud.endpoints.url}{ZONES}/us-central1-a?access_token="
    assert requests.get(f"{url}{token}", timeout=60).status_code == 403
    assert requests.get(f"{url}nonsense", timeout=60).status_code == 401


@pytest.mark.parametrize("project", ["", "a/b", "My Project", 7])
def test_what_can_be_no_projects_id_is_refused(project: Any) -> None:
    with pytest.raises(ValueError, match="no project has such an id"):
        gputrain_emulator.start(project=project)


def test_a_port_that_is_taken_is_named(cloud: Cloud) -> None:
    with pytest.raises(OSError, match=f"Address already in use: port {port(cloud)} of 127.0.0.1"):
        gputrain_emulator.start(port=port(cloud))


def test_closing_twice_is_closing_once() -> None:
    cloud = gputrain_emulator.start()
    cloud.close()
    cloud.close()
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(cloud.endpoints.url, timeout=2)
