"""Whether a job fits into a reservation: by what a list of them tells, one fact at a time."""

import json

import attrs
import pytest

from gputrain.gcp import Access, Endpoints
from gputrain.gcp.reservations import Reservation, judged, project_of, read
from tests.each import each
from tests.unit.gcp.answering import Token

ZONE, MACHINE = "us-central1-a", "a3-highgpu-8g"
HELD = Reservation(zone=ZONE, status="READY", machine_type=MACHINE, accelerator=None, free=2)
L4 = ("nvidia-l4", 2)


@each(
    ("held", "why"),
    [
        ({}, ""),
        ({"status": ""}, ""),
        ({"free": None}, ""),
        ({"machine_type": None}, ""),
        ({"free": 3}, ""),
        ({"free": 1}, "reservation r: 1 of the 2 machines needed are free"),
        ({"free": 0}, "reservation r: 0 of the 2 machines needed are free"),
        ({"status": "CREATING"}, "reservation r: it is CREATING"),
        ({"machine_type": "g2-standard-24"}, "reservation r: it holds g2-standard-24"),
        ({"accelerator": L4}, "reservation r: its machines have 2 x nvidia-l4 attached"),
        ({"machine_type": "", "accelerator": L4}, "reservation r: it holds "),
        ({"machine_type": None, "accelerator": L4}, ""),
        ({"is_specific": False}, "reservation r is open to any VM: it cannot be named, reservation='any' takes it"),  # noqa: E501
        ({"zone": "us-east4-b"}, "reservation r is in us-east4-b"),
    ],
)  # fmt: skip
def test_what_is_held_says_why_a_job_cannot_run_in_it(held, why):
    assert judged([attrs.evolve(HELD, **held)], "r", ZONE, MACHINE, None, 2) == (why, "")


def test_a_job_that_attaches_gpus_wants_them_attached():
    why, _ = judged([HELD], "r", ZONE, MACHINE, L4, 2)
    assert why == "reservation r: its machines have no GPUs attached"
    for held, fits in ((L4, True), (("nvidia-l4", 1), False), (("nvidia-l4", 4), False), (("a", 2), False)):
        why, _ = judged([attrs.evolve(HELD, accelerator=held)], "r", ZONE, MACHINE, L4, 2)
        assert (why == "") is fits


def test_one_that_is_nowhere_does_not_exist_and_one_elsewhere_is_told_by_its_zones():
    assert judged([], "r", ZONE, MACHINE, None, 2)[0] == "reservation r does not exist"
    others = [attrs.evolve(HELD, zone=zone) for zone in ("us-west1-b", "us-east4-b")]
    assert judged(others, "r", ZONE, MACHINE, None, 2)[0] == "reservation r is in us-east4-b, us-west1-b"
    assert judged([*others, HELD], "r", ZONE, MACHINE, None, 2)[0] == ""


@pytest.mark.parametrize("name", ["r", "zones/z/reservations/r"])
def test_a_short_name_is_of_the_project_of_the_job(name):
    assert project_of(name, "mine") == "mine"


BODY = {
    "name": "r",
    "status": "READY",
    "specificReservationRequired": True,
    "specificReservation": {
        "count": "8",
        "inUseCount": "3",
        "instanceProperties": {
            "machineType": "n1-standard-8",
            "guestAccelerators": [
                {
                    "acceleratorType": "projects/p/zones/z/acceleratorTypes/nvidia-tesla-t4",
                    "acceleratorCount": 4,
                }
            ],
        },
    },
}
READ = Reservation(
    zone=ZONE, status="READY", machine_type="n1-standard-8", accelerator=("nvidia-tesla-t4", 4), free=5
)


EMPTY = {"warning": {"code": "NO_RESULTS_ON_PAGE"}}


@pytest.fixture
def listed(serve):
    """What is read of a name where Google answers so of the project that is asked."""

    def ask(name, body, project="p"):
        def answer(request):
            is_asked = f"/projects/{project}/aggregated/reservations?" in request.path
            return (200, json.dumps(body).encode(), {}) if is_asked else (404, b"{}", {})

        endpoints = Endpoints(compute=serve(answer).url)
        return read(Access(project="mine", credentials=Token(), endpoints=endpoints), name)

    return ask


@each(
    ("name", "body", "found"),
    [
        ("r", BODY, (READ,)),
        (f"projects/p/zones/{ZONE}/reservations/r", BODY, (READ,)),
        ("projects/p/zones/us-east4-b/reservations/r", BODY, ()),
        ("r", {**BODY, "name": "other"}, ()),
        ("r", None, ()),
        ("r", {"name": "r"}, (Reservation(zone=ZONE, is_specific=False),)),
    ],
)
def test_what_a_list_tells_is_read(listed, name, body, found):
    held = {"reservations": [body]} if body else EMPTY
    project = "p" if "/" in name else "mine"
    assert listed(name, {"items": {f"zones/{ZONE}": held}}, project) == found


def test_a_list_that_is_not_whole_says_of_nothing_that_it_is_gone(listed):
    half = {"unreachables": ["zones/us-east4-b"]}
    assert listed("r", {**half, "items": {f"zones/{ZONE}": {"reservations": [BODY]}}}, "mine") == (READ,)
    assert listed("r", {**half, "items": {f"zones/{ZONE}": EMPTY}}, "mine") is None


@pytest.mark.parametrize(
    ("count", "used", "attached", "free", "accelerator"),
    [
        ("8", None, [], None, None),
        (None, "3", [], None, None),
        ("8", 0, [{}], 8, ("", 0)),
        (8, 8, [{"acceleratorType": "a/b/c", "acceleratorCount": 2}], 0, ("c", 2)),
    ],
)
def test_what_is_free_is_told_where_both_counts_are(listed, count, used, attached, free, accelerator):
    held = {"count": count, "inUseCount": used, "instanceProperties": {"guestAccelerators": attached}}
    body = {"name": "r", "specificReservation": held}
    (found,) = listed("r", {"items": {f"zones/{ZONE}": {"reservations": [body]}}}, "mine")
    assert (found.free, found.accelerator, found.machine_type) == (free, accelerator, None)
