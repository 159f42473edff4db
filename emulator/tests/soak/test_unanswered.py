"""Every method of the documents is known: what is not answered says 501, what does not exist 404."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import grpc
import pytest
import requests

from gputrain_emulator import Cloud, services
from gputrain_emulator.errors import ApiError
from gputrain_emulator.routes import Routes
from tests.each import each


def methods(described: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Verb, and path with x for every variable, of a discovery document."""
    left = [described]
    while left:
        node = left.pop()
        left += node.get("resources", {}).values()
        for method in node.get("methods", {}).values():
            path = re.sub(
                r"^(v\w+)/\{v\w+Id\}/\{v\w+Id1\}", r"\1/projects/x", method.get("flatPath") or method["path"]
            )
            filled = re.sub(r"\{[^}]*\}", "x", path)
            yield method["httpMethod"], f"/{described['servicePath']}{filled}"
            for protocol in method.get("mediaUpload", {}).get("protocols", {}).values():
                if "{+" not in protocol["path"]:
                    yield method["httpMethod"], re.sub(r"\{[^}]*\}", "x", protocol["path"])


def test_every_method_of_all_of_googles_documents_has_a_route() -> None:
    routes = services.all_routes()
    folder = files("googleapiclient.discovery_cache") / "documents"
    places = [place for place in folder.iterdir() if place.name != "index.json"]
    rows = {row for place in places for row in methods(json.loads(place.read_text()))}
    assert len(rows) > 20_000
    assert [row for row in sorted(rows) if not known(routes, *row)] == []


def known(routes: Routes, verb: str, path: str) -> bool:
    try:
        routes.match(verb, path)
    except ApiError:
        return False
    return True


@each(
    ("verb", "path", "status"),
    [
        ("GET", "/storage/v1/b/bucket/acl", 501),
        ("GET", "/storage/v1/b/bucket/notificationConfigs", 501),
        ("POST", "/storage/v1/b/bucket/o/bulkRestore", 501),
        ("GET", "/v2/projects/my-project/sinks", 501),
        ("DELETE", "/v1/operations/x", 501),
        ("PUT", "/v1/projects/p/topics/t", 501),
        ("POST", "/v1/projects/p/subscriptions/s:pull", 501),
        ("GET", "/v1/projects/p/locations/l/clusters/c", 501),
        ("GET", "/v2/operations/projects/p/instances/i/operations/1", 501),
        ("HEAD", "/bigquery/v2/projects/p/datasets", 501),
        ("POST", "/upload/drive/v3/files", 501),
        ("POST", "/batch/bigquery/v2", 501),
        ("GET", "/v1/projects/p/topic/t", 404),
        ("GET", "/v1/projects/../topics/t", 404),
        ("GET", "/v1/projects//topics", 404),
        ("POST", "/v1/projects/p/subscriptions/s:nothing", 404),
        ("GET", "/download/storage/v1/b/bucket/nothing", 404),
        ("GET", "/storage/v1/b/bucket/nothing", 404),
        ("GET", "/storage/v3/b", 404),
        ("GET", "/v2/entries:nothing", 404),
        ("GET", "/compute/beta/projects/p/nothing", 404),
        ("GET", "/v1beta1/nothing", 404),
        ("GET", "/compute/v9/projects/p", 404),
    ],
)
def test_known_methods_say_501_and_unknown_ones_404(cloud: Cloud, verb: str, path: str, status: int) -> None:
    reply = requests.request(verb, cloud.endpoints.url + path, timeout=10)
    assert reply.status_code == status
    assert verb == "HEAD" or reply.json()["error"]["code"] == status


@pytest.fixture
def my_bucket(cloud: Cloud) -> None:
    cloud.add_bucket("my-bucket")


@each("verb", ["GET", "PUT", "DELETE", "POST"])
@each("end", ["", "/", "/a", "/a/b.txt"])
def test_an_address_of_the_xml_api_is_a_501_where_its_bucket_is(
    cloud: Cloud, my_bucket: None, verb: str, end: str
) -> None:
    refused = requests.request(verb, f"{cloud.endpoints.url}/my-bucket{end}", timeout=60)
    assert refused.status_code == 501
    assert f"storage.xml.{verb.lower()}" in refused.text
    assert requests.request(verb, f"{cloud.endpoints.url}/no-bucket{end}", timeout=60).status_code == 404


@pytest.mark.parametrize(
    "rpc", ["google.pubsub.v1.Publisher/CreateTopic", "google.cloud.aiplatform.v1.JobService/CreateNasJob"]
)
def test_over_grpc_what_is_not_answered_is_refused_by_its_name(cloud: Cloud, rpc: str) -> None:
    with grpc.insecure_channel(cloud.endpoints.aiplatform_grpc) as channel:
        single, stream = channel.unary_unary(f"/{rpc}"), channel.stream_stream(f"/{rpc}")
        with pytest.raises(grpc.RpcError) as one:
            single(b"", timeout=10)
        with pytest.raises(grpc.RpcError) as many:
            list(stream(iter(()), timeout=10))
    for caught in (one, many):
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert f"Method {rpc.replace('/', '.')} is not implemented" in caught.value.details()
    assert [seen.status for seen in cloud.requests] == [501, 501]
