"""Virtual machines that boot a userland, and how near to it those come that stand in for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gputrain_emulator
from emulator.tests.live_guests import PATIENCE_S, needs_walls, until
from emulator.tests.test_live_vms import ZONE, boot, says, serial, status
from gputrain_emulator import Cloud
from gputrain_emulator.live import USERLAND, LiveMode, why_no_userland

REASON = why_no_userland(USERLAND)
needs_userland = pytest.mark.skipif(REASON is not None, reason=f"no userland to boot: {REASON}")

# What a script of its own, and a unit that it starts, live to see from boot to power off; told at the next
# boot. It finds no HOME, is cut off from its output by a line of 64 KiB, and is told of the end last of all.
STORY = """#!/usr/bin/env python3
import os, signal, subprocess, sys, time
SEEN = "/var/seen"
def note(what):
    with open(SEEN, "a") as file:
        file.write(what + ";")
if os.path.exists(SEEN):
    print("seen", open(SEEN).read(), flush=True)
    sys.exit()
UNIT = '''
import os, signal, time
def button(*_):
    time.sleep(0.5)
    open("/var/seen", "a").write("the unit saved;")
    os._exit(0)  # what is raised as a file is let go of is told nobody
signal.signal(signal.SIGTERM, button)
open("/dev/console", "w").write("unit up")
time.sleep(600)
'''
note(f"HOME {os.environ.get('HOME')}")
def told(*_):
    note("the script heard")
    os._exit(0)
signal.signal(signal.SIGTERM, told)
words = ["systemd-run", "--unit=saver", "--collect", "-p", "KillMode=mixed", "-p", "TimeoutStopSec=20"]
for _ in range(2):
    note(f"systemd-run {subprocess.run([*words, sys.executable, '-c', UNIT]).returncode}")
note(f"active {subprocess.run(['systemctl', 'is-active', '--quiet', 'saver']).returncode}")
print("x" * 65_535, flush=True)
print("whole", flush=True)
note("a line of 64 KiB with its end is fine")
try:
    print("x" * 70_000, flush=True)
    while True:
        time.sleep(0.05)
        print("after", flush=True)
except BrokenPipeError:
    note("a longer one breaks the pipe")
open("/dev/console", "w").write("script up")
time.sleep(600)
"""
SEEN = [
    "HOME None", "systemd-run 0", "systemd-run 1", "active 0", "a line of 64 KiB with its end is fine",
    "a longer one breaks the pipe", "the unit saved", "the script heard", "",
]  # fmt: skip

Booted = Callable[[str], Cloud]


@pytest.fixture
def booted() -> Iterator[Booted]:
    """Starts a cloud whose virtual machines boot an image, or stand in for it."""
    clouds: list[Cloud] = []

    def start(userland: str) -> Cloud:
        clouds.append(cloud := gputrain_emulator.start(wall_clock=True))
        cloud.attach(LiveMode(cloud.world, userland=userland))
        quick = cloud.compute.settings
        quick.provision_s = quick.staging_s = quick.delete_s = quick.quick_s = quick.rollback_s = 0.05
        return cloud

    yield start
    for cloud in clouds:
        cloud.close()
        assert not cloud.dispatcher.failures


@needs_walls
@pytest.mark.parametrize("userland", ["", pytest.param(USERLAND, marks=needs_userland)])
def test_a_script_and_a_unit_live_to_see_the_same(booted: Booted, userland: str) -> None:
    cloud = booted(userland)
    client = boot(cloud, "vm-1", STORY)
    assert says(cloud, "vm-1", "unit up")
    assert says(cloud, "vm-1", "script up")
    assert says(cloud, "vm-1", "startup-script: whole")
    broken = 'error while communicating with "startup-script" script: bufio.Scanner: token too long'
    assert says(cloud, "vm-1", broken)
    names = {"project": cloud.project, "zone": ZONE, "instance": "vm-1", "timeout": PATIENCE_S, "retry": None}
    client.stop_unary(**names)
    assert until(cloud, lambda: status_of(cloud) == "TERMINATED")
    client.start_unary(**names)
    assert says(cloud, "vm-1", "startup-script: seen ")
    (told,) = [line for line in serial(cloud, "vm-1").splitlines() if "startup-script: seen " in line]
    assert told.partition("seen ")[2].strip().split(";") == SEEN


def status_of(cloud: Cloud) -> str:
    """The state of the one machine, for a claim that is looked at under the world's lock."""
    return cloud.compute.find_vm("vm-1").status


@needs_userland
def test_a_userland_reboots_powers_off_and_is_reset_on_the_same_disk(booted: Booted) -> None:
    cloud = booted(USERLAND)
    script = (  # a word to logind gets lost while the guest agent restarts it: it is said until it is heard
        "say() { while sleep 2; do systemctl $1; done; }; echo x >> /kept; echo boot $(wc -l < /kept);"
        " case $(wc -l < /kept) in 1) say reboot;; 2) sleep 600;; 3) say poweroff;; esac\n"
    )
    client = boot(cloud, "vm-1", script)
    assert says(cloud, "vm-1", "startup-script: boot 2")
    assert status(cloud, "vm-1") == "RUNNING"
    client.reset_unary(project=cloud.project, zone=ZONE, instance="vm-1", timeout=PATIENCE_S, retry=None)
    assert says(cloud, "vm-1", "startup-script: boot 3")
    assert until(cloud, lambda: status_of(cloud) == "TERMINATED")
    kinds = [operation.document["operationType"] for operation in cloud.compute.operations.values()]
    assert "compute.instances.guestTerminate" in kinds


@needs_userland
def test_machines_with_a_userland_reach_each_other_the_cloud_and_nobody_else(
    booted: Booted, tmp_path: Path
) -> None:
    cloud = booted(USERLAND)
    serve = """#!/usr/bin/env python3
import socket
with socket.create_server(("", 2222)) as server:
    print("listening", flush=True)
    server.accept()[0].sendall(b"hello")
"""
    ask = """#!/opt/conda/bin/python3
import json, os, socket, urllib.request
def read(path):
    ask = urllib.request.Request("http://metadata.google.internal/computeMetadata/v1/" + path)
    ask.add_header("Metadata-Flavor", "Google")
    return urllib.request.urlopen(ask, timeout=60).read().decode()
interface = json.loads(read("instance/network-interfaces/0/?recursive=true"))
own = socket.gethostbyname(socket.gethostname())
print("same address", own == interface["ip"], flush=True)
with open("/sys/class/net/eth0/address") as file:
    print("same interface", file.read().strip() == interface["mac"], flush=True)
name = "vm-1.%s.c.my-project.internal" % read("instance/zone").rpartition("/")[2]
print("other says", socket.create_connection((name, 2222), 60).recv(99).decode(), flush=True)
url = os.environ["STORAGE_EMULATOR_HOST"] + "/storage/v1/b?project=my-project"
print("cloud says", json.loads(urllib.request.urlopen(url, timeout=60).read())["kind"], flush=True)
import torch
print("torch", torch.ones(2).sum().item(), flush=True)
try:
    socket.create_connection(("192.0.2.1", 80), 1)
except OSError as error:
    print("nobody else", flush=True)
"""
    boot(cloud, "vm-1", serve)
    assert says(cloud, "vm-1", "startup-script: listening")
    boot(cloud, "vm-2", ask)
    for words in ("same address True", "same interface True", "other says hello", "torch 2.0", "nobody else"):
        assert says(cloud, "vm-2", words), serial(cloud, "vm-2")[-2000:]
    assert says(cloud, "vm-2", "cloud says storage#buckets")


@needs_userland
def test_closing_a_cloud_leaves_no_userland_behind(booted: Booted) -> None:
    cloud = booted(USERLAND)
    boot(cloud, "vm-1", "sleep 600\n")
    assert says(cloud, "vm-1", "Found startup-script")
    cloud.close()
    listed = subprocess.run(["podman", "ps", "--all"], capture_output=True, text=True, check=True).stdout
    assert f"gputrain-emulator-{os.getpid()}" not in listed


@needs_userland
def test_a_unit_is_over_with_its_last_process_whoevers_child_that_is(booted: Booted) -> None:
    cloud = booted(USERLAND)
    script = (
        "systemd-run --unit=late -p TimeoutStopSec=infinity sleep 600\n"
        "group=$(systemctl show --property=ControlGroup --value late)\n"
        "bash -c \"trap 'sleep 1; exit' TERM; echo slow; while :; do sleep 0.1; done\" & sleep 1\n"
        "for kind in '' /systemd; do echo $! > /sys/fs/cgroup$kind$group/cgroup.procs; done\n"
        "systemctl stop late; echo it is over\n"
    )
    boot(cloud, "vm-1", script)
    assert says(cloud, "vm-1", "startup-script: it is over"), serial(cloud, "vm-1")[-3000:]


def test_an_image_that_is_not_there_is_said_at_once() -> None:
    with gputrain_emulator.start(wall_clock=True) as cloud, pytest.raises(ValueError, match="no/such:1"):
        LiveMode(cloud.world, userland="no/such:1")


def test_the_script_that_makes_the_image_gives_it_the_name_that_is_looked_for() -> None:
    script = Path(__file__).parents[2] / "scripts" / "userland"
    assert f"name=${{NAME:-{USERLAND}}}\n" in script.read_text()
