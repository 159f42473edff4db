"""Emulated clouds for tests whose point is not the socket."""

import contextlib

import gputrain_emulator
from emulator.tests import discovery
from tests.support.in_process import in_process

REGION = "us-central1"


def reserve(cloud, name, *, count=2, machine="g2-standard-4", zone=f"{REGION}-a"):
    """A specific reservation, made by Google's own client; its full name."""
    from google.cloud import compute_v1

    client = compute_v1.ReservationsClient(credentials=cloud.credentials, client_options=cloud.client_options)
    held = {"count": count, "instance_properties": {"machine_type": machine}}
    resource = {"name": name, "specific_reservation_required": True, "specific_reservation": held}
    client.insert(project=cloud.project, zone=zone, reservation_resource=resource)
    cloud.clock.advance(10)
    return f"projects/{cloud.project}/zones/{zone}/reservations/{name}"


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
