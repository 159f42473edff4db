"""Guests: processes within walls. What happens inside must stay inside, and end with the guest."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.tests.live_guests import PATIENCE_S, nap, running
from gputrain_emulator.live import standins, why_no_walls
from gputrain_emulator.live.guest_process import PATH, Guest, Setup

REASON = why_no_walls()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no live guests here: {REASON}")

Start = Callable[..., Guest]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts guests on one disk, and pulls their plugs at the end."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n127.99.1.2 other-vm\n")
    disk = tmp_path / "disk"
    disk.mkdir()
    guests: list[Guest] = []

    def begin(**changes: Any) -> Guest:
        gpus = [{"name": "NVIDIA L4", "memory_mib": 23034}] * 2
        settings = {
            "kind": "vm",
            "disk": disk,
            "hostname": "vm-1",
            "hosts": hosts,
            "environment": {"PATH": f"{standins.INSIDE}:{PATH}"},
            "replaced": standins.write(tmp_path / "standins", gpus=gpus),
            "stop_grace_s": 0.3,
            **changes,
        }
        guests.append(Guest(Setup(**settings)))
        return guests[-1]

    yield begin
    for guest in guests:
        guest.pull_the_plug()
        guest.wait(PATIENCE_S)


def serial(guest: Guest) -> str:
    """Everything it prints until it is off."""
    return guest.stdout.read().decode()


def test_every_power_command_switches_off_the_guest_that_said_it(start: Start) -> None:
    for command in ("poweroff", "halt", "shutdown -h now", "systemctl poweroff", "init 0", "/sbin/poweroff"):
        guest = start(startup_script=f"{command}\nexec sleep 60")
        assert guest.wait(PATIENCE_S) == 0, command


def test_the_real_power_commands_cannot_be_seen_by_any_path(start: Start) -> None:
    paths = [
        f"{folder}/{name}"
        for folder in ("/sbin", "/usr/sbin", "/bin", "/usr/bin")
        for name in standins.POWER_COMMANDS
        if os.path.exists(f"{folder}/{name}")
    ]
    look = "; ".join(f"cmp -s {path} {standins.INSIDE}/poweroff || echo REAL {path}" for path in paths)
    said = serial(start(kind="vm", startup_script=f"{look}\necho looked at {len(paths)}\npoweroff"))
    assert f"looked at {len(paths)}" in said
    assert "REAL" not in said


def test_no_capability_to_power_off_mount_or_load_is_left(start: Start) -> None:
    script = "grep -h Cap /proc/self/status; mount -t tmpfs x /mnt && echo MOUNTED"
    said = serial(start(startup_script=f"{script}\npoweroff"))
    effective = next(line for line in said.splitlines() if "CapEff" in line).split()[-1]
    forbidden = {"net_admin": 12, "sys_module": 16, "sys_rawio": 17, "sys_admin": 21, "sys_boot": 22, "sys_time": 25}  # fmt: skip  # noqa: E501
    assert [name for name, bit in forbidden.items() if int(effective, 16) >> bit & 1] == []
    assert "MOUNTED" not in said


def test_killing_everything_inside_leaves_this_computers_processes_alone(start: Start) -> None:
    with subprocess.Popen(["sleep", "60"]) as sentinel:
        try:
            said = serial(start(startup_script="ps -A -o comm=; kill -9 -1; poweroff"))
        finally:
            alive = sentinel.poll() is None
            sentinel.kill()
    assert alive
    assert "pytest" not in said


def test_a_unit_whose_failure_powers_off_does_so_and_a_clean_end_does_not(start: Start) -> None:
    run = "systemd-run --collect -p FailureAction=poweroff"
    ends = f"{run} --unit=a true; {run} --unit=b bash -c 'kill -TERM $$'; sleep 0.5; echo still up"
    said = serial(start(startup_script=f"{ends}; {run} --unit=c bash -c 'kill -KILL $$'; exec sleep 60"))
    assert "still up" in said
    assert "Powering down: poweroff." in said


@pytest.mark.parametrize("words", ["-p Slice=a.slice", "--user", "--scope", "-p ExecStop=/bin/true"])
def test_a_unit_of_more_than_we_know_is_refused_by_name(start: Start, words: str) -> None:
    said = serial(start(startup_script=f"systemd-run --unit=a {words} true; echo status $?; poweroff"))
    assert "an emulated machine does not know systemd-run " + words.partition("=")[0] in said
    assert "status 1" in said


def test_what_ignores_sigterm_is_killed_after_the_grace(start: Start) -> None:
    guest = start(startup_script="trap '' TERM; (setsid sleep 60 &); poweroff; sleep 60", stop_grace_s=0.2)
    assert guest.wait(PATIENCE_S) == 0


def test_a_guest_ends_when_its_emulator_is_killed(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    (tmp_path / "disk").mkdir()
    program = f"""
import time
from pathlib import Path
from gputrain_emulator.live.guest_process import PATH, Guest, Setup
folder = Path({str(tmp_path)!r})
guest = Guest(Setup(kind="vm", disk=folder / "disk", hostname="vm", hosts=folder / "hosts",
                    environment={{"PATH": PATH}}, startup_script={nap(64)!r}))
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program]) as emulator:
        assert _wait_until(lambda: bool(running(nap(64))))
        emulator.kill()
    assert _wait_until(lambda: not running(nap(64)))


def _wait_until(claim: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not claim() and time.monotonic() < deadline:
        time.sleep(0.01)
    return claim()


def test_a_container_has_no_machine_to_switch_off(start: Start) -> None:
    guest = start(kind="container", argv=["/bin/sh", "-c", "poweroff; /sbin/reboot; exit 7"])
    assert guest.wait(PATIENCE_S) == 7
    assert "System has not been booted with systemd" in guest.stderr.read().decode()
