"""Clouds whose VMs boot and run containers in a real engine: Podman and runc, with images of a real registry.

Without the engine everything here is skipped, with the reason; `make engine` installs it on Debian.
"""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import pytest

import gputrain_emulator
from gputrain import ComputeEngine
from gputrain_emulator.compute import networks
from gputrain_emulator.live import LiveMode, why_no_userland
from gputrain_emulator.storage import Storage
from tests.machines.containers import image, registry

HOST = "us-central1-docker.pkg.dev"
NAME = "my-project/team/train"
IMAGE, BARE = f"{HOST}/{NAME}:1", f"{HOST}/my-project/team/bare:1"
ALONE = f"{HOST}/my-project/team/alone:1"
ITSELF = """
import os, sys
print("itself:", sys.argv[1:], os.getcwd(), os.environ["OF_THE_IMAGE"], os.environ.get("PATH"), flush=True)
with open(os.path.join(os.environ["GPUTRAIN_OUTPUT_DIR"], "model"), "w") as file:
    file.write("weights")
if "fail" in sys.argv:
    raise ValueError("the loss is no number")
"""
ACCOUNT = "gputrain@my-project.iam.gserviceaccount.com"
USERLAND = "local/gce-vm-engine:1"
REASON = why_no_userland(USERLAND) or (
    None if registry.PROGRAM else "docker-registry is not installed (`make engine`)"
)


def pytest_collection_modifyitems(items):
    if REASON is not None:
        here = [item for item in items if Path(__file__).parent in item.path.parents]
        for item in here:
            item.add_marker(pytest.mark.skip(reason=f"no container engine: {REASON}"))


@pytest.fixture(scope="package", autouse=True)
def nothing_is_left():
    """After the last test here no mount is ours; those of other folders are others'."""
    before = mounts()
    yield
    assert mounts() == before


def mounts():
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if tempfile.gettempdir() in line}


def packages():
    """Where this Python finds what is installed, other environments that it is given with a .pth file too."""
    return [place for place in sys.path if place.endswith("-packages") and os.path.isdir(place)]


@pytest.fixture(scope="session")
def images(tmp_path_factory):
    """The address of a registry that holds one image with a Python, and one without."""
    root = tmp_path_factory.mktemp("root")
    torch = importlib.util.find_spec("torch")
    libraries = Path(torch.origin).parent.glob("lib/libtorch_*.so") if torch else ()
    image.root_file_system(root, for_packages=libraries)
    with registry.running(tmp_path_factory.mktemp("registry")) as address:
        found = os.pathsep.join(packages())
        env = {"PATH": "/usr/bin:/bin:/sbin", "PYTHONPATH": found, "OF_THE_IMAGE": "kept"}
        image.push(root, address, NAME, env=env)
        image.push(
            root, address, "my-project/team/alone", env=env,
            Entrypoint=["python3", "-c", ITSELF], Cmd=["--epochs", "5"], WorkingDir="/tmp",
        )  # fmt: skip
        image.push(root / "etc", address, "my-project/team/bare", env={"PATH": "/bin"})
        yield address


@pytest.fixture
def cloud(images):
    """An emulated cloud whose VMs find Artifact Registry; nothing of them is left when it is closed."""
    with gputrain_emulator.start(wall_clock=True) as running:
        door = registry.ArtifactRegistry(running, images)
        running.registry = door
        running.endpoints.registry = f"http://{door.address}"
        running.attach(LiveMode(running.world, userland=USERLAND, hosts={HOST: door.address}))
        running.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        networks.add_nat(running.compute, "my-project", "us-central1")  # docker comes from beyond Google
        quick = running.compute.settings
        quick.provision_s = quick.staging_s = quick.delete_s = quick.quick_s = quick.rollback_s = 0.1
        yield running
        assert not running.dispatcher.failures
        door.close()


@pytest.fixture
def backend(cloud):
    return ComputeEngine(
        "my-project", regions=["us-central1"], bucket="gs://my-bucket", poll_s=0.5, driver_wait_s=0,
        endpoints=cloud.endpoints, credentials=cloud.credentials,
    )  # fmt: skip
