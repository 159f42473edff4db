"""googleapiclient from Google's own discovery documents: Compute Engine and Vertex AI, judged by them."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from googleapiclient import discovery
from googleapiclient.errors import HttpError
from googleapiclient.http import build_http

from emulator.tests.test_strict_requests import vm
from gputrain_emulator import Cloud

PLACE = {"project": "my-project", "zone": "us-central1-a"}


def client(cloud: Cloud, name: str) -> Any:
    text = (files("googleapiclient.discovery_cache") / "documents" / f"{name}.json").read_text()
    document = json.loads(text)
    root = f"{cloud.endpoints.url}/"
    document.update(rootUrl=root, mtlsRootUrl=root, baseUrl=root + document["servicePath"])
    return discovery.build_from_document(document, http=build_http())


@pytest.fixture
def compute(cloud: Cloud) -> Any:
    return client(cloud, "compute.v1")


def test_an_instance_lives_and_dies(cloud: Cloud, compute: Any) -> None:
    begun = compute.instances().insert(**PLACE, body=vm()).execute()
    ended = compute.zoneOperations().wait(**PLACE, operation=begun["name"]).execute()
    assert (ended["status"], "error" in ended) == ("DONE", False)
    assert compute.instances().get(**PLACE, instance="vm-1", fields="name,status").execute() == {
        "name": "vm-1",
        "status": "RUNNING",
    }
    with pytest.raises(HttpError) as refused:
        compute.instances().insert(**PLACE, body=vm()).execute()
    assert (refused.value.status_code, refused.value.error_details[0]["reason"]) == (409, "alreadyExists")
    compute.instances().delete(**PLACE, instance="vm-1").execute()
    cloud.clock.advance(600)
    assert "items" not in compute.instances().list(**PLACE).execute()


def test_a_batch_answers_each_by_its_own(compute: Any) -> None:
    told: dict[str, Any] = {}
    batch = compute.new_batch_http_request(
        callback=lambda key, reply, error: told.update({key: error or reply})
    )
    batch.add(compute.zones().get(**PLACE), request_id="zone")
    batch.add(compute.instances().get(**PLACE, instance="none"), request_id="none")
    batch.execute()
    assert told["zone"]["name"] == "us-central1-a"
    assert told["none"].status_code == 404


def test_an_api_that_is_beta_says_so(cloud: Cloud) -> None:
    with pytest.raises(HttpError) as refused:
        client(cloud, "compute.beta").instances().list(**PLACE).execute()
    assert refused.value.status_code == 501
