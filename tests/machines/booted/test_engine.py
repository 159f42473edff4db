"""A container on a VM whose boot image has no docker: it is installed by the machine's own apt-get.

The packages are a test's, and their docker runs a job's words on the machine itself, as nothing here runs
containers in a container; tests/machines/containers has real ones.
"""

import json

import pytest

from gputrain.lifecycle import State
from tests.contract.clouds import live_cloud
from tests.machines.booted import apt
from tests.machines.booted.conftest import Booted

DOCKER = """#!/usr/bin/python3
import json, os, sys
with open("/var/log/docker", "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "run":
    assert os.path.exists("/etc/gpus-are-known"), "docker was not started again"
    words = sys.argv[2:]
    place = words.index("--entrypoint")
    os.chdir(words[words.index("--workdir") + 1])
    os.execv("/opt/conda/bin/python3", ["python3", *words[place + 3 :]])
"""
TOOLKIT = '#!/bin/sh\necho "$@" >> /var/log/toolkit\ntouch /etc/gpus-are-known\n'
UNIT = "[Unit]\nDescription=docker\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"
PACKAGES = {
    "docker.io": {"usr/bin/docker": DOCKER, "lib/systemd/system/docker.service": UNIT},
    "nvidia-container-toolkit": {"usr/bin/nvidia-ctk": TOOLKIT},
}
SCRIPT = """
import os, time
print("trains", open("/var/log/toolkit").read().strip(), flush=True)
while not os.path.exists("/var/go"): time.sleep(0.05)
"""


@pytest.fixture(params=[PACKAGES])
def cloud(tmp_path, request):
    with apt.image(tmp_path, request.param) as image, live_cloud(image) as running:
        yield running


@pytest.fixture
def road(cloud):
    return Booted(cloud, check_network=False)


def test_docker_and_the_toolkit_are_installed_and_images_lie_on_the_local_ssd(road, spec, inside, gone):
    ref = road.submit(spec(SCRIPT, image="us-docker.pkg.dev/my-project/team/train:1", gpu="A100-80GB:1"))
    road.until_said(ref, "trains runtime configure --runtime=docker")
    said = [json.loads(line) for line in inside("cat", "/var/log/docker").splitlines()]
    assert [words[0] for words in said] == ["login", "pull", "run"]
    run = said[-1]
    for words in (["--gpus", "all"], ["--network", "host"], ["--ipc", "host"], ["--ulimit", "memlock=-1"]):
        assert any(run[at : at + 2] == words for at in range(len(run)))
    mounts = inside("cat", "/proc/mounts")
    assert "google-local-nvme-ssd-0 /var/lib/docker ext4" in mounts
    inside("touch", "/var/go")
    assert road.end(ref).state is State.SUCCEEDED, road.text(ref)
    gone()


@pytest.mark.parametrize("cloud", [{}], indirect=True, ids=["no packages"])
def test_a_vm_that_cannot_install_docker_says_what_to_do(road, spec, gone):
    ref = road.submit(spec("print('never')", image="us-docker.pkg.dev/my-project/team/train:1"))
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "boot")
    assert "docker.io cannot be installed" in str(seen.failure)
    assert "Cloud NAT" in str(seen.failure)
    gone()
