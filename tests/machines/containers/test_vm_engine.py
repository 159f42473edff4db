"""The container engine of a live VM: what its `docker` refuses, and what is left of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulator.tests.live_guests import running
from emulator.tests.test_live_vms import boot, says, serial
from tests.machines.containers.conftest import IMAGE, NAME, control_groups

SLEEP = f"import time; time.sleep({{}}.{os.getpid()})"  # told from another run's on this computer


def printed(cloud, name="vm-1"):
    """What the startup script printed."""
    assert says(cloud, name, "Finished running startup scripts")
    lines = serial(cloud, name).splitlines()
    return [line.partition("startup-script: ")[2] for line in lines if "startup-script: " in line]


def container(image, seconds, *options):
    """A command line of the VM that runs a container for so long."""
    words = ["docker", "run", "--rm", "--init", "--network", "host", *options]
    return f"{' '.join(words)} {image} python3 -c '{SLEEP.format(seconds)}'"


@pytest.fixture
def local(images):
    """The image at the registry itself, which asks for no login."""
    return f"{images.removeprefix('http://')}/{NAME}:1"


def test_docker_of_a_vm_refuses_what_reaches_beyond_it(cloud):
    beyond = ["--privileged", "--pid=host", "--device=/dev/vda", "--cap-add=SYS_BOOT", "--userns=host"]
    calls = [f"docker run {option} {IMAGE} true; echo {option} $?" for option in beyond]
    boot(cloud, "vm-1", "\n".join([*calls, "docker plugin install x; echo plugin $?"]))
    lines = printed(cloud)
    for option in beyond:
        assert f"{option} 125" in lines
        assert any(f"does not allow docker run {option.partition('=')[0]}" in line for line in lines)
    assert "plugin 125" in lines


def test_a_vm_without_gpus_is_answered_in_dockers_words(cloud):
    machine = {"machine_type": "zones/us-central1-a/machineTypes/n1-standard-4"}
    boot(cloud, "vm-1", f"docker run --gpus all {IMAGE} true; echo status $?", **machine)
    lines = printed(cloud)
    assert 'could not select device driver "" with capabilities: [[gpu]]' in "".join(lines)
    assert "status 125" in lines


def test_containers_of_a_deleted_vm_end_with_it(cloud, local):
    first, second = container(local, 7301), container(local, 7302, "--detach", "--gpus", "all")
    boot(cloud, "vm-1", f"docker pull -q {local}\n{first} & {second}")
    until(lambda: sleeping(7301) and sleeping(7302))
    client = boot(cloud, "vm-2", "echo up")
    client.delete_unary(project=cloud.project, zone="us-central1-a", instance="vm-1", timeout=10, retry=None)
    until(lambda: not sleeping(7301) and not sleeping(7302))


EMULATOR = """
import sys
import gputrain_emulator
from gputrain_emulator.live import LiveMode
from emulator.tests.test_live_vms import boot
with gputrain_emulator.start(wall_clock=True) as cloud:
    cloud.attach(LiveMode(cloud.world))
    cloud.compute.settings.provision_s = cloud.compute.settings.staging_s = 0.05
    boot(cloud, "vm-1", sys.argv[1])
    sys.stdin.read()
"""


def test_containers_end_with_an_emulator_that_is_killed(local, tmp_path):
    script = f"docker pull -q {local}\n{container(local, 7303)}"
    command = [sys.executable, "-c", EMULATOR, script]
    options = {"cwd": Path(__file__).parents[3], "env": {**os.environ, "TMPDIR": str(tmp_path)}}
    with subprocess.Popen(command, stdin=subprocess.PIPE, **options) as emulator:
        until(lambda: sleeping(7303))
        emulator.send_signal(signal.SIGKILL)
    until(lambda: not sleeping(7303))
    until(lambda: not control_groups(f"gputrain-emulator-{emulator.pid}-"))


def sleeping(seconds):
    return running(f"python3 -c {SLEEP.format(seconds)}")


def until(claim):
    patience = time.monotonic() + 60
    while not claim():
        assert time.monotonic() < patience
        time.sleep(0.05)
