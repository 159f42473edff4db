"""Whatever is sent, the answer is Google's shape of a refusal and the emulator itself does not fail."""

from __future__ import annotations

import inspect
import json
import random
from typing import Any
from urllib.parse import quote

import pytest
import requests

import gputrain_emulator
from gputrain_emulator import admin, arguments as taken
from gputrain_emulator.storage import Storage
from tests.each import each

ROUNDS = 60  # requests for each kind of target
SCALARS: tuple[Any, ...] = (
    None, "", 0, -1, 1.5, True, "x" * 300, "\0", "NaN", 10**30, "2026-01-01T00:00:00Z", "a=b", "labels.a:*",
    "(", "[", "{a,", "**", "!!", "YQ==", "W10=", "é" * 9,
)  # fmt: skip
_KEYS = """
    displayName jobSpec labels encryptionSpec workerPoolSpecs machineSpec replicaCount containerSpec
    scheduling timeout strategy filter resourceNames pageSize orderBy entries logName resource name metadata
    contentType sourceObjects destination quotaConfig preferredValue dimensions service quotaId
    permissions location env
"""
KEYS = _KEYS.split()
HEADERS = (
    {},
    {"Content-Type": "multipart/related; boundary=x", "Range": "bytes=9-"},
    {"Content-Type": "multipart/related; boundary=", "Range": "bytes=-0"},
    {"Content-Type": "text/x", "Content-Range": "bytes 0-1/2", "Range": "bytes=5-1"},
    {"Content-Range": "x", "Range": "x", "X-Goog-Hash": "crc32c,md5="},
)
TARGETS = (
    ("POST", "/v1/projects/p/locations/us-central1/customJobs"),
    ("GET", "/v1/projects/p/locations/us-central1/customJobs?filter=%s&pageSize=%s&pageToken=%s"),
    ("DELETE", "/v1/projects/p/locations/us-central1/customJobs/%s"),
    ("POST", "/v2/entries:list"),
    ("POST", "/v2/entries:write"),
    ("POST", "/upload/storage/v1/b/bucket/o?uploadType=%s&name=z"),
    ("POST", "/upload/storage/v1/b/bucket/o?uploadType=multipart&name=z"),
    ("POST", "/upload/storage/v1/b/bucket/o?uploadType=resumable&name=%s"),
    ("POST", "/storage/v1/b/bucket/o/c/compose"),
    ("PATCH", "/storage/v1/b/bucket/o/a"),
    ("POST", "/storage/v1/b/bucket/o/a/rewriteTo/b/bucket/o/q"),
    ("POST", "/storage/v1/b?project=p"),
    ("PATCH", "/storage/v1/b/bucket"),
    ("GET", "/storage/v1/b/bucket/o?matchGlob=%s&maxResults=%s&pageToken=%s"),
    ("GET", "/storage/v1/b/bucket/o/a?alt=media&generation=%s&ifGenerationMatch=%s"),
    ("POST", "/v1/projects/p/locations/global/quotaPreferences?quotaPreferenceId=q%s"),
    ("PATCH", "/v1/projects/p/locations/global/quotaPreferences/q?allowMissing=true"),
    ("GET", "/v1/projects/p/locations/global/quotaPreferences?filter=%s&pageToken=%s"),
    ("POST", "/v1/projects/p:testIamPermissions"),
    ("POST", "/token"),
    ("GET", "/v1/projects/p/services?filter=%s&pageSize=%s"),
)


def a_document(dice: random.Random, depth: int = 0) -> Any:
    if depth > 4 or dice.random() < 0.35:
        return dice.choice(SCALARS)
    if dice.random() < 0.3:
        return [a_document(dice, depth + 1) for _ in range(dice.randint(0, 3))]
    return {dice.choice(KEYS): a_document(dice, depth + 1) for _ in range(dice.randint(0, 4))}


@each(("verb", "path"), TARGETS)
def test_no_garbage_is_a_fault_of_the_emulators_own(verb: str, path: str) -> None:
    dice = random.Random(path)
    with gputrain_emulator.start(project="p", rate_limits=False) as cloud, requests.Session() as wire:
        storage = cloud.world.part(Storage)
        storage.add_bucket("bucket")
        storage.objects.put("bucket", "a", storage.objects.folder.keep(b"hello"), {})
        for _ in range(ROUNDS):
            asked = path
            while "%s" in asked:
                asked = asked.replace("%s", quote(str(dice.choice(SCALARS))), 1)
            bodies = (json.dumps(a_document(dice)).encode(), dice.randbytes(40), b'{"a":' * 3000)
            body = dice.choice(bodies) if verb in ("POST", "PATCH") else None
            headers = dice.choice(HEADERS)
            reply = wire.request(verb, cloud.endpoints.url + asked, data=body, headers=headers, timeout=20)
            assert reply.status_code < 500, (asked, body)
            if reply.status_code >= 400:
                assert "error" in reply.json()
        assert cloud.dispatcher.failures == []


@pytest.mark.parametrize(
    "text", [b'"\\ud800"', b'"a\\uDFFF"', b'"\xed\xa0\x80"'], ids=["high", "low", "bytes"]
)
def test_half_a_surrogate_pair_is_refused_and_spoils_nothing(text: bytes) -> None:
    objects = "/storage/v1/b/bucket/o"
    with gputrain_emulator.start(project="p", rate_limits=False) as cloud, requests.Session() as wire:
        cloud.world.part(Storage).add_bucket("bucket")
        for path, body in (
            (f"/upload{objects}?uploadType=resumable", b'{"name": %s}'),
            ("/v1/projects/p/locations/us-central1/customJobs", b'{"displayName": %s}'),
            ("/v2/entries:write", b'{"logName": "projects/p/logs/x", "entries": [{"textPayload": %s}]}'),
            ("/_emulator/add_project", b'{"name": %s}'),
        ):
            assert wire.post(cloud.endpoints.url + path, data=body % text, timeout=20).status_code == 400
        whole = wire.post(
            f"{cloud.endpoints.url}/upload{objects}?uploadType=resumable",
            data=b'{"name": "\\ud83d\\ude00"}',
            timeout=20,
        )
        assert wire.put(whole.headers["Location"], data=b"x", timeout=20).json()["name"] == "\U0001f600"
        assert len(wire.get(cloud.endpoints.url + objects, timeout=20).json()["items"]) == 1
        assert cloud.dispatcher.failures == []


@each(
    ("command", "arguments"),
    [
        ("set_apart", '{"seconds": 1e30}'),
        ("set_apart", '{"seconds": -1e30}'),
        ("price", '{"part": "nvidia-l4", "region": "us-central1", "model": "SPOT", "usd": "q"}'),
        ("ledger", "[" * 100_000),
        ("rate_limit", '{"pool": "compute.reads", "per_minute": "many"}'),
        ("rate_limit", '{"pool": "compute.reads", "per_minute": -1}'),
        ("quota", '{"metric": "CPUS", "limit": 1e999}'),
        ("stock", '{"zone": "us-central1-a", "machine": "g2-standard-4", "count": "3"}'),
        ("add_project", '{"name": 7}'),
        ("add_image", '{"name": "a/b/c", "platforms": "linux/amd64"}'),
        ("enable_api", '{"api": ["compute"]}'),
        ("settings", '{"stop_s": "soon"}'),
        ("fail", '{"method": "compute.zones.list", "fault": 7}'),
        ("fail", '{"method": "compute.zones.list", "fault": "late", "seconds": "1"}'),
        ("fail", '{"method": "compute.zones.list", "fault": "late", "seconds": 1e300}'),
        ("fail", '{"method": "compute.zones.list", "fault": "drip", "seconds": -1}'),
        ("fail", '{"method": "compute.zones.list", "fault": "error", "status": 7}'),
        ("fail", '{"method": "compute.zones.list", "fault": "html", "probability": "often"}'),
        ("fail", '{"method": "compute.zones.list", "fault": "html", "times": "twice"}'),
    ],
)
def test_a_command_that_cannot_be_is_refused_and_the_next_request_answered(
    command: str, arguments: str
) -> None:
    with gputrain_emulator.start() as cloud:
        url = cloud.endpoints.url
        assert requests.post(f"{url}/_emulator/{command}", data=arguments, timeout=20).status_code == 400
        assert requests.get(f"{url}/compute/v1/projects/my-project/zones", timeout=20).ok
        assert cloud.dispatcher.failures == []


@each("command", [*admin.METHODS, *admin.COMMANDS])
def test_every_argument_of_a_command_is_of_a_type_that_is_looked_at(command: str) -> None:
    taker = admin.COMMANDS.get(command) or getattr(gputrain_emulator.Cloud, command)
    for one in inspect.signature(taker).parameters.values():
        if one.name not in ("self", "cloud") and one.kind is not one.VAR_KEYWORD:
            assert str(one.annotation).partition(" | ")[0] in taken.KINDS, one
