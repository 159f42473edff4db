"""A cloud of one's own with both backends in it; whatever waits moves the emulator's clock."""

from datetime import datetime, timezone

import pytest

from gputrain import Trainer
from tests import present
from tests.support.clock import jumping
from tests.support.clouds import emulated
from tests.unit.trainer.places import World

L4 = {"gpu": "L4:2", "max_run_duration": "1h"}
MACHINE = "g2-standard-24"
VERTEX_L4 = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"


@pytest.fixture
def cloud():
    with emulated() as running:
        times = running.compute.settings
        times.provision_s = times.staging_s = times.rollback_s = times.delete_s = 1.0
        yield running


@pytest.fixture
def now(cloud):
    return lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc)


@pytest.fixture
def backend(cloud, now):
    """Makes backends by their names; they share nothing but the cloud."""

    def build(name, regions=("us-central1",), sleep=None, now=now, bucket="gs://my-bucket"):
        reach = {
            "bucket": bucket,
            "regions": list(regions),
            "endpoints": cloud.endpoints,
            "credentials": cloud.credentials,
            "sleep": sleep or jumping(cloud),
            "now": lambda: now().timestamp(),
        }
        return present.backend(name)("my-project", **reach)

    return build


@pytest.fixture
def trainer(backend, cloud, now):
    """Makes trainers: of both backends, or of one."""

    def build(*names, sleep=None, now=now, **settings):
        backends = [
            backend(name, sleep=sleep, now=now, **settings) for name in names or ("vertex", "compute")
        ]
        return Trainer(backends, now=now, sleep=sleep or jumping(cloud))

    return build


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text("print('hello')\n")
    return str(tmp_path / "train.py")


@pytest.fixture
def world(tmp_path):
    """Places in memory, and one clock for them."""
    return World(tmp_path / "jobs")


@pytest.fixture
def submit(world, script):
    """Submits under a key to some places."""

    def build(*backends, **fields):
        fields = {"gpu": "L4:1", "max_run_duration": "1h", "idempotency_key": "k", **fields}
        return world.trainer(*backends).submit(script, **fields)

    return build


def creates(cloud):
    """The calls that would make a job."""
    wanted = ("compute.instances.bulkInsert", "compute.instances.insert", "aiplatform.customJobs.create")
    return [seen for seen in cloud.requests if seen.method in wanted]
