"""Emulated clouds for tests whose point is not the socket."""

import contextlib

import requests

import gputrain_emulator
from emulator.tests import discovery
from gputrain.google import GoogleClient
from tests.support.in_process import in_process

REGION = "us-central1"


def reserve(cloud, name, *, count=2, machine="g2-standard-4", zone=f"{REGION}-a"):
    """A reservation that only who names it may use; its full name."""
    place = f"projects/{cloud.project}/zones/{zone}/reservations"
    held = {"count": str(count), "instanceProperties": {"machineType": machine}}
    body = {"name": name, "specificReservationRequired": True, "specificReservation": held}
    headers = {"Authorization": f"Bearer {cloud.credentials.token}"}
    url = f"{cloud.endpoints.compute}/compute/v1/{place}"
    requests.post(url, json=body, headers=headers, timeout=10).raise_for_status()
    cloud.clock.advance(10)
    return f"{place}/{name}"


def settings(cloud, **own):
    """Arguments of a backend in this cloud whose waits move the emulator's clock."""
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "bucket": "gs://my-bucket"}
    return {"project": "my-project", "sleep": cloud.clock.advance, "now": cloud.clock.now, **reach, **own}


def client(cloud, **own):
    """A client of this cloud, as its owner unless said otherwise."""
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    return GoogleClient(**{"project": cloud.project, **reach, **own})


@contextlib.contextmanager
def emulated(*, is_judged=False, **settings):
    """A cloud of this process with a bucket; the test fails at its end if the emulator did.

    If judged, it also fails if any exchange departs from Google's published documents.
    """
    with gputrain_emulator.start(**settings) as cloud, in_process(cloud):
        cloud.add_bucket("my-bucket", location=REGION)
        if is_judged:
            cloud.dispatcher.requests.keep_everything()
        yield cloud
        assert not cloud.dispatcher.failures
        assert not is_judged or discovery.judge(cloud) == []
