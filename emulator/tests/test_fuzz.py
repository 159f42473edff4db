"""Whatever is sent, the emulator answers as Google would and never stumbles itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from google.cloud import compute_v1
from hypothesis import HealthCheck, given, settings, strategies as st

import gputrain_emulator
from emulator.tests.compute import ZONE, P
from gputrain_emulator import Cloud
from gputrain_emulator.exchanges import Request

FUZZ = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
URL = f"/compute/v1/projects/{P}/zones/{ZONE}/instances"
WORDS = st.sampled_from(
    ["", "vm-1", "SPOT", "FLEX_START", "TERMINATE", "DELETE", "nvidia-l4",
     "zones/us-central1-a/machineTypes/g2-standard-24",
     "zones/us-central1-a/machineTypes/n1-standard-8", "projects/debian-cloud/global/images/family/debian-12",
     "global/networks/default", "SPECIFIC_RESERVATION", "2026-11-20T12:00:00Z", "a" * 70, "é\u0000"]
)  # fmt: skip
LEAVES = st.one_of(
    WORDS,
    st.integers(-5, 10**7),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.just([]),
    st.just({}),
)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    """One cloud for all examples: what one leaves behind is weather for the next."""
    with gputrain_emulator.start(rate_limits=False) as running:
        yield running


def documents(descriptor: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Documents that keep to the message's shape here and there."""
    by_name = {name: field for field in descriptor.fields for name in (field.name, field.json_name)}
    if depth > 4 or not by_name:
        return LEAVES

    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        document: dict[str, Any] = {}
        for name in draw(st.lists(st.sampled_from(sorted(by_name)), max_size=6, unique=True)):
            field = by_name[name]
            value = documents(field.message_type, depth + 1) if field.message_type is not None else LEAVES
            if field.is_repeated and draw(st.integers(0, 5)):
                value = st.lists(value, max_size=3)
            document[name] = draw(value if draw(st.integers(0, 6)) else LEAVES)
        return document

    return build()


def ask(cloud: Cloud, verb: str, target: str, body: Any = None) -> int:
    data = b"" if body is None else json.dumps(body).encode()
    outcome = cloud.dispatcher.handle(
        Request(verb=verb, target=target, headers={"host": "localhost"}, body=data)
    )
    return outcome.reply.status


GOOD = {
    "name": "vm-1",
    "machineType": f"zones/{ZONE}/machineTypes/g2-standard-24",
    "scheduling": {"onHostMaintenance": "TERMINATE"},
    "disks": [
        {
            "boot": True,
            "initializeParams": {"sourceImage": "projects/debian-cloud/global/images/family/debian-12"},
        }
    ],
    "networkInterfaces": [{}],
}


@FUZZ
@given(document=documents(compute_v1.Instance.pb().DESCRIPTOR), keep=st.sets(st.sampled_from(sorted(GOOD))))
def test_no_instance_however_odd_makes_it_stumble(
    cloud: Cloud, document: dict[str, Any], keep: set[str]
) -> None:
    status = ask(cloud, "POST", URL, {**document, **{key: GOOD[key] for key in keep}})
    assert status in (200, 400, 404, 409, 501, 503)
    cloud.clock.advance(30)


@FUZZ
@given(document=documents(compute_v1.BulkInsertInstanceResource.pb().DESCRIPTOR))
def test_no_gang_however_odd_makes_it_stumble(cloud: Cloud, document: dict[str, Any]) -> None:
    properties = {**GOOD, "machineType": "g2-standard-24"}
    del properties["name"]
    body = {"count": 1, **document, "instanceProperties": properties}
    for target in (f"{URL}/bulkInsert", f"/compute/v1/projects/{P}/regions/us-central1/instances/bulkInsert"):
        assert ask(cloud, "POST", target, body) in (200, 400, 404, 409, 503)
    cloud.clock.advance(60)


COLLECTIONS = {
    "resourcePolicies": compute_v1.ResourcePolicy,
    "reservations": compute_v1.Reservation,
    "disks": compute_v1.Disk,
    "instanceTemplates": compute_v1.InstanceTemplate,
    "instanceGroupManagers": compute_v1.InstanceGroupManager,
}


@FUZZ
@given(collection=st.sampled_from(sorted(COLLECTIONS)), data=st.data())
def test_no_other_resource_makes_it_stumble(cloud: Cloud, collection: str, data: st.DataObject) -> None:
    places = {"resourcePolicies": "regions/us-central1", "instanceTemplates": "global"}
    target = f"/compute/v1/projects/{P}/{places.get(collection, f'zones/{ZONE}')}/{collection}"
    body = data.draw(documents(COLLECTIONS[collection].pb().DESCRIPTOR))
    assert ask(cloud, "POST", target, body) in (200, 400, 403, 404, 409, 501, 503)
    cloud.clock.advance(5)


@FUZZ
@given(text=st.text(alphabet="name=labels.ru()\"'\\ ANDORT:<>!-*eq1", max_size=30))
def test_no_filter_makes_it_stumble(cloud: Cloud, text: str) -> None:
    assert ask(cloud, "GET", f"{URL}?filter={quote(text)}") in (200, 400)


@FUZZ
@given(mask=st.text(alphabet="items(name,id)/*k", max_size=20), token=st.text(max_size=8))
def test_no_mask_and_no_token_makes_it_stumble(cloud: Cloud, mask: str, token: str) -> None:
    assert ask(cloud, "GET", f"{URL}?fields={quote(mask)}") in (200, 400)
    assert ask(cloud, "GET", f"{URL}?pageToken={quote(token)}") in (200, 400)
