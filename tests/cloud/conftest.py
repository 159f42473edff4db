"""Both clouds of the emulator through the public face: `Trainer`, `Job` and nothing below them."""

from datetime import datetime, timezone

import pytest
import requests

from gputrain import Trainer
from gputrain_emulator.compute.images import add_image
from tests import present
from tests.support.clouds import REGION, emulated


def reserve(cloud, name, machine="g2-standard-4"):
    """A reservation of two machines, that only who names it may use."""
    url = f"{cloud.endpoints.compute}/compute/v1/projects/{cloud.project}/zones/{REGION}-a/reservations"
    held = {"count": "2", "instanceProperties": {"machineType": machine}}
    body = {"name": name, "specificReservationRequired": True, "specificReservation": held}
    headers = {"Authorization": f"Bearer {cloud.credentials.token}"}
    requests.post(url, json=body, headers=headers, timeout=10).raise_for_status()
    cloud.clock.advance(10)


@pytest.fixture
def cloud():
    with emulated(is_judged=True) as running:
        add_image(running.compute, "my-project", "mine-1", "mine", 20)
        reserve(running, "big")
        yield running


@pytest.fixture
def trainer(cloud):
    """Makes a trainer with one cloud, whose waits move the emulator's clock."""

    def build(kind, **settings):
        given = {
            "regions": [REGION],
            "bucket": "gs://my-bucket",
            "endpoints": cloud.endpoints,
            "credentials": cloud.credentials,
            "sleep": cloud.clock.advance,
            "now": cloud.clock.now,
        }
        backend = present.backend(kind)("my-project", **{**given, **settings})
        now = lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc)  # noqa: E731
        return Trainer(backend, now=now, sleep=cloud.clock.advance)

    return build


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("print('hello')\n")
    return str(path)
