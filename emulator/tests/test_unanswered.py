"""Every method of the documents is known: what is not answered says 501, what does not exist 404."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import pytest
import requests

from gputrain_emulator import Cloud, services
from gputrain_emulator.errors import ApiError
from gputrain_emulator.routes import Routes


def methods(document: str) -> list[tuple[str, str, str]]:
    """(id, verb, path with x for every variable) of a discovery document of Google's package."""
    place = files("googleapiclient.discovery_cache") / "documents" / f"{document}.json"
    described = json.loads(place.read_text())
    found: list[tuple[str, str, str]] = []

    def walk(node: dict[str, Any]) -> None:
        for method in node.get("methods", {}).values():
            path = method.get("flatPath") or method["path"]
            path = path.replace("{v1Id}/{v1Id1}", "projects/x")
            filled = re.sub(r"\{[^}]*\}", "x", path)
            found.append((method["id"], method["httpMethod"], f"/{described['servicePath']}{filled}"))
        for child in node.get("resources", {}).values():
            walk(child)

    walk(described)
    return found


@pytest.mark.parametrize("document", ["storage.v1", "serviceusage.v1"])
def test_every_method_has_a_route(document: str) -> None:
    routes = services.all_routes()
    assert [row for row in methods(document) if not known(routes, row[1], row[2])] == []


def known(routes: Routes, verb: str, path: str) -> bool:
    try:
        routes.match(verb, path)
    except ApiError:
        return False
    return True


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/storage/v1/b/bucket/acl", 501),
        ("GET", "/storage/v1/b/bucket/notificationConfigs", 501),
        ("POST", "/storage/v1/b/bucket/o/bulkRestore", 501),
        ("GET", "/v2/projects/my-project/sinks", 501),
        ("DELETE", "/v1/operations/x", 501),
        ("GET", "/storage/v1/b/bucket/nothing", 404),
        ("GET", "/storage/v3/b", 404),
        ("GET", "/v2/entries:nothing", 404),
    ],
)
def test_known_methods_say_501_and_unknown_ones_404(cloud: Cloud, verb: str, path: str, status: int) -> None:
    reply = requests.request(verb, cloud.endpoints.url + path, timeout=10)
    assert reply.status_code == status
    assert reply.json()["error"]["code"] == status
