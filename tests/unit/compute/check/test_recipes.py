"""The recipe of every GPU family, run by the real gcloud; then a gang of two is planned and made in it."""

import os
import shutil
import subprocess
from collections import Counter

import pytest

import gputrain_emulator
from gputrain import ComputeEngine, Trainer, catalog
from gputrain.backends.compute import networking
from gputrain.catalog import ProvisioningModel, Service
from gputrain_emulator import gcloud
from gputrain_emulator.compute.state import Compute
from gputrain_emulator.storage import Storage
from tests.support.clouds import reserve

PROGRAM = shutil.which("gcloud")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="gcloud is not installed")

WITHOUT = {"A4X Max"}
"""The family of which several machines are refused."""
FAMILIES = {
    shape.machine.family.name: shape
    for shape in catalog.shapes(service=Service.COMPUTE)
    if shape.machine.family.name not in WITHOUT and shape.gpu.kind not in ("V100", "P4")
}
"""One machine of each; no boot image that is known drives the two GPUs left out."""
SPOT, RESERVED = ProvisioningModel.SPOT, ProvisioningModel.RESERVATION_BOUND
IMAGE = f"us-docker.pkg.dev/my-project/team/train@sha256:{0:064}"


COMMON = Counter(zone for shape in FAMILIES.values() for zone in catalog.zones(shape))


def zone_of(shape):
    """The zone that most families share: those of one recipe are tried in what one run of it makes."""
    return max(catalog.zones(shape), key=lambda zone: (COMMON[zone], zone))


def backend_of(shape, **more):
    fabric = catalog.fabrics(shape)[0]
    return ComputeEngine(
        "my-project", regions=[catalog.region_of(zone_of(shape))], bucket="gs://my-bucket",
        gpu_subnetworks=networking.names(fabric), gpu_networking=fabric.networking,
        placement_policy="together", check_network=False, **more,
    )  # fmt: skip


def recipe_of(shape):
    return networking.recipe(catalog.fabrics(shape)[0], backend_of(shape)._settings, zone_of(shape))


ALIKE = {}
for _shape in FAMILIES.values():
    ALIKE.setdefault(recipe_of(_shape), []).append(_shape)


@pytest.fixture(scope="module")
def configuration(tmp_path_factory):
    """An empty configuration folder, so that nobody's own account is used."""
    return tmp_path_factory.mktemp("gcloud")


def _each_recipe():
    """The shortest recipe in make check, the others in make soak."""
    ordered = sorted(ALIKE.items(), key=lambda one: (not one[0], len(one[0])))  # the empty one last
    for number, (recipe, shapes) in enumerate(ordered):
        name = "-".join(shape.machine_type for shape in shapes)
        yield pytest.param((recipe, shapes), id=name, marks=pytest.mark.soak if number else ())


@pytest.fixture(params=_each_recipe())
def group(request):
    return request.param


@pytest.fixture
def cloud(group):
    """A project that may have two of each of these machines, and a placement policy."""
    with gputrain_emulator.start() as running:
        zone = zone_of(group[1][0])
        region = catalog.region_of(zone)
        running.world.part(Storage).add_bucket("my-bucket", location=region)
        resources = running.world.part(Compute).resources
        policy = f"projects/my-project/regions/{region}/resourcePolicies/together"
        resources["resourcePolicies"][policy] = {"name": "together"}
        for shape in group[1]:
            quota = catalog.quota(shape.gpu, SPOT)
            if quota is not None:
                metric = quota.quota_id.removesuffix("-per-project-region").replace("-", "_")
                running.quota(metric, 1000)
        yield running
        assert not running.dispatcher.failures


@pytest.fixture
def run(cloud, configuration):
    """Runs a recipe as a person does: in a shell, with gcloud pointed at the emulator."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(configuration)}
    environment |= gcloud.environment(cloud.endpoints.url, configuration)

    def run(recipe):
        words = ["bash", "-ec", recipe]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stderr

    return run


def asked(shape, folder):
    (folder / "train.py").write_text("print(1)\n")
    model = SPOT if SPOT in shape.sold_as(Service.COMPUTE) else RESERVED
    return {
        "script": str(folder / "train.py"), "gpu": f"{shape.gpu.kind}:{shape.gpu_count}", "num_nodes": 2,
        "machine_type": shape.machine_type, "provisioning_model": model, "max_run_duration": "1h",
        "reservation": "mine" if model is RESERVED else None, "image": IMAGE,
    }  # fmt: skip


def test_a_gang_of_two_runs_in_what_the_recipe_makes(cloud, run, group, tmp_path):
    recipe, shapes = group
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    reach |= {"sleep": cloud.clock.advance, "now": cloud.clock.now}
    fabric = catalog.fabrics(shapes[0])[0]
    said = run(recipe)
    networks = fabric.data_gvnics + bool(fabric.rdma_nics)
    assert said.count("Created [") == networks + fabric.data_gvnics + len(fabric.nics)
    for shape in shapes:
        if SPOT not in shape.sold_as(Service.COMPUTE):
            reserve(cloud, "mine", machine=shape.machine_type, zone=zone_of(shape))
        trainer = Trainer(backend_of(shape, **reach))
        _is_planned_and_made(cloud, trainer, shape, tmp_path)


def _is_planned_and_made(cloud, trainer, shape, folder):
    fabric = catalog.fabrics(shape)[0]
    plan = trainer.plan(**asked(shape, folder))
    assert plan.best.network.name == fabric.networking.value
    assert plan.best.network.gbps_per_gpu == fabric.gbps_per_gpu(shape)
    before = set(cloud.compute.vms)
    job = plan.submit()
    made = [vm.resource["networkInterfaces"] for key, vm in cloud.compute.vms.items() if key not in before]
    assert len(made) == 2
    for nics in made:
        named = [nic["subnetwork"].rpartition("/")[2] for nic in nics]
        assert named == ["default", *networking.names(fabric)]
        assert [nic["nicType"] for nic in nics] == ["GVNIC", *fabric.nics]
    job.cancel()
