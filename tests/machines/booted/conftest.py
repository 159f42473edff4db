"""Jobs on VMs that boot for real: systemd, Google's guest agent and script runner, a network of their own.

Without Podman or the image everything here is skipped, with the reason; `make engine` makes both on Debian.
"""

import subprocess
from pathlib import Path

import pytest

from gputrain.backends.compute import ComputeEngine
from gputrain.spec import TrainingSpec
from gputrain_emulator.live import USERLAND, why_no_userland
from gputrain_emulator.storage import Storage
from tests.contract.clouds import live_cloud
from tests.patience import until
from tests.road import Road
from tests.support.clouds import client

REASON = why_no_userland(USERLAND)


def pytest_collection_modifyitems(items):
    if REASON is not None:
        here = [item for item in items if Path(__file__).parent in item.path.parents]
        for item in here:
            item.add_marker(pytest.mark.skip(reason=f"no machine to boot: {REASON}"))


@pytest.fixture
def cloud():
    with live_cloud(USERLAND) as running:
        yield running


class Booted(Road):
    """Compute Engine whose VMs boot."""

    def __init__(self, cloud, **settings):
        self.cloud, self.settings = cloud, settings
        super().__init__()

    def backend(self, tenant=""):  # noqa: ARG002  # there is one
        return ComputeEngine(
            "my-project", regions=["us-central1"], bucket="gs://my-bucket", endpoints=self.cloud.endpoints,
            credentials=self.cloud.credentials, poll_s=0.2, driver_wait_s=0, **self.settings,
        )  # fmt: skip

    def end(self, job):
        super().end(job)
        return job


@pytest.fixture
def road(cloud):
    return Booted(cloud)


@pytest.fixture
def spec(tmp_path):
    def build(text, **fields):
        path = tmp_path / "code" / "train.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return TrainingSpec(**{"script": str(path), "gpu": "L4:1", "max_run_duration": "10m", **fields})

    return build


@pytest.fixture
def inside(cloud):
    """Says a command to the only VM, as its root; what it printed."""

    def say(*words):
        (machine,) = cloud.world.runtime.vms.values()
        command = ["podman", "exec", machine.name, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    return say


@pytest.fixture
def gone(cloud):
    """Waits until no VM is left: each goes by itself, before systemd ends its unit after 110 s."""

    return lambda: until(lambda: not cloud.compute.vms)


@pytest.fixture
def stored(cloud):
    """The text of an object of the bucket; None where there is none."""

    def read(name):
        objects = cloud.world.part(Storage).objects
        found = [one for one in objects.walk("my-bucket") if one.name == name]
        return found[0].content.read().decode() if found else None

    return read


@pytest.fixture
def press(cloud):
    """Presses a button of a VM, as a person does: stop, reset."""

    access = client(cloud)

    def call(name, button):
        place = f"{cloud.endpoints.compute}/compute/v1/projects/my-project/zones/us-central1-a/instances"
        access.post(f"{place}/{name}/{button}", action=f"{button} a VM")

    return call
