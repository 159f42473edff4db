"""Lists that may be partial, lists of all zones, and whether a job fits into a reservation."""

import json

import attrs
import pytest

from gputrain.google import Api, Endpoints, GoogleClient, Listing
from gputrain.google.compute_lists import Reservation, check_fit, find_reservations, list_all_zones
from gputrain.google.forms import missing_of
from tests.each import each
from tests.unit.google.answering import Token

A, B = {"instances": [{"name": "a"}]}, {"instances": [{"name": "b"}]}
EMPTY = {"warning": {"code": "NO_RESULTS_ON_PAGE"}}
ZONE, MACHINE = "us-central1-a", "a3-highgpu-8g"
HELD = Reservation(zone=ZONE, status="READY", machine_type=MACHINE, accelerator=None, free=2)
L4 = ("nvidia-l4", 2)


@pytest.fixture
def asking(serve):
    """A client of a Compute Engine whose answers come one after the other, and what it was asked."""

    def start(*pages):
        answers = iter(pages)
        server = serve(lambda _: (200, json.dumps(next(answers)).encode(), {}))
        endpoints = Endpoints(compute=server.url)
        access = GoogleClient(project="mine", credentials=Token(), endpoints=endpoints, sleep=lambda _: None)
        return access, server.requests

    return start


@pytest.fixture
def listed(asking):
    return lambda *pages: list_all_zones(asking(*pages)[0], "instances", fields="name")


def test_a_list_is_read_to_its_end_with_what_any_page_lacks(asking):
    east = {"unreachable": ["us-east1"]}
    pages = {"items": [{"a": 1}, {"a": 2}], **east, "nextPageToken": "b"}, {**east, "nextPageToken": "c"}
    access, asked = asking(*pages, {"items": [{"a": 3}]})
    listing = access.list_all(access.url(Api.COMPUTE), action="list", params={"size": 2, "filter": ""})
    assert listing == Listing(({"a": 1}, {"a": 2}, {"a": 3}), ("us-east1",))
    assert asked == ["/?size=2", "/?size=2&pageToken=b", "/?size=2&pageToken=c"]


@each(
    ("body", "missing"),
    [
        ({"warning": {"code": "UNREACHABLE"}, "unreachable": ["us-east1"]}, ("us-east1", "UNREACHABLE")),
        ({"unreachables": ["projects/p/zones/us-east1-b"]}, ("us-east1-b",)),
        ({"warnings": [{"code": "PARTIAL_SUCCESS"}]}, ("PARTIAL_SUCCESS",)),
        ({"warning": {"code": "DEPRECATED_RESOURCE_USED"}}, ()),
        ({}, ()),
    ],
)
def test_a_partial_list_says_so(body, missing):
    assert missing_of(body) == missing


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (A, {"a"}),
        (EMPTY, set()),
        ({"instances": []}, set()),
        ({**A, "warning": {"code": "UNREACHABLE"}}, None),
        ({"warning": {"code": "UNREACHABLE"}}, None),
        ({}, None),
    ],
)
def test_a_zone_is_known_where_its_part_was_read_or_says_that_it_is_empty(listed, part, names):
    found = listed({"items": {"zones/x-a": part, "zones/x-b": B}})
    assert (found.names("x-a"), found.names("x-b"), found.names("x-c")) == (names, {"b"}, None)
    assert found.missing == (("x-a",) if names is None else ())


@each(
    ("held", "why"),
    [
        ({}, ""),
        ({"status": ""}, ""),
        ({"free": None}, ""),
        ({"machine_type": None}, ""),
        ({"free": 3}, ""),
        ({"free": 1}, "reservation r: 1 of the 2 machines needed are free"),
        ({"status": "CREATING"}, "reservation r: it is CREATING"),
        ({"machine_type": "g2-standard-24"}, "reservation r: it holds g2-standard-24"),
        ({"accelerator": L4}, "reservation r: its machines have 2 x nvidia-l4 attached"),
        ({"machine_type": None, "accelerator": L4}, ""),
        ({"is_specific": False}, "reservation r is open to any VM: it cannot be named, reservation='any' takes it"),  # noqa: E501
        ({"zone": "us-east4-b"}, "reservation r is in us-east4-b"),
    ],
)  # fmt: skip
def test_what_is_held_says_why_a_job_cannot_run_in_it(held, why):
    assert check_fit([attrs.evolve(HELD, **held)], "r", ZONE, MACHINE, None, 2) == why


def body(**changed):
    attached = {
        "acceleratorType": "projects/p/zones/z/acceleratorTypes/nvidia-tesla-t4",
        "acceleratorCount": 4,
    }
    machine = {"machineType": "n1-standard-8", "guestAccelerators": [attached]}
    held = {"count": "8", "inUseCount": "3", "instanceProperties": machine}
    whole = {"name": "r", "status": "READY", "specificReservationRequired": True}
    return {**whole, "specificReservation": {**held, **changed}}


T4 = Reservation(
    zone=ZONE, status="READY", machine_type="n1-standard-8", accelerator=("nvidia-tesla-t4", 4), free=5
)


@pytest.mark.parametrize(
    ("name", "held", "found"),
    [
        ("r", body(), (T4,)),
        (f"projects/p/zones/{ZONE}/reservations/r", body(), (T4,)),
        ("projects/p/zones/us-east4-b/reservations/r", body(), ()),
        ("r", {**body(), "name": "other"}, ()),
        ("r", None, ()),
        ("r", {"name": "r"}, (Reservation(zone=ZONE, is_specific=False),)),
        ("r", body(count=None), (attrs.evolve(T4, free=None),)),
        ("r", body(inUseCount=None), (attrs.evolve(T4, free=None),)),
        ("r", body(inUseCount=8), (attrs.evolve(T4, free=0),)),
    ],
)
def test_a_reservation_is_looked_for_in_its_project(asking, name, held, found):
    access, asked = asking({"items": {f"zones/{ZONE}": {"reservations": [held]} if held else EMPTY}})
    assert find_reservations(access, name) == found
    assert f"/projects/{'p' if '/' in name else 'mine'}/aggregated/reservations?" in asked[0]
