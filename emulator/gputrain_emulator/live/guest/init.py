"""The first process of an emulated machine: starts what runs in it, reaps, and shuts down in order.

Two processes: the outer one stays in this computer's namespaces and listens on standard input, the inner one
is process 1 of the machine. Standard input carries `button` (someone presses the power button); its end means
that the emulator is gone or has pulled the plug, and the kernel ends every process of the machine with
process 1.
"""

from __future__ import annotations

import json
import os
import select
import signal
from typing import Any

from . import kernel, walls
from .boot import Container, Machine, descendants, send


def main(path: str) -> None:
    """Run the machine that the JSON file at `path` describes; never returns."""
    with open(path) as file:
        config = json.load(file)
    failed = os.fdopen(
        config["failed_fd"], "w", closefd=True
    )  # read by the emulator: empty and closed is success
    os.set_inheritable(failed.fileno(), False)
    try:
        if config["walls"]:
            walls.enter()
    except OSError as error:
        failed.write(str(error))
        failed.close()
        os._exit(1)
    wake = _wakeups()
    child = os.fork()
    if child == 0:
        _inner(config, failed)
    failed.close()
    os._exit(_outer(child, wake, walls_stand=config["walls"]))


def _inner(config: dict[str, Any], failed: Any) -> None:
    kernel.die_with_parent(signal.SIGKILL)
    try:
        os.setsid()
        if config["walls"]:
            walls.build(config)
            kernel.drop_capabilities()
        else:
            kernel.adopt_orphans()
        machine = Machine(config) if config["kind"] == "vm" else Container(config)
    except OSError as error:
        failed.write(str(error))
        failed.close()
        os._exit(1)
    quiet = os.open("/dev/null", os.O_RDONLY)
    os.dup2(quiet, 0)  # the control channel is the outer process's alone
    wake = _wakeups()
    failed.close()  # from here on the power button may be pressed
    os._exit(machine.run(wake))


def _outer(child: int, wake: int, walls_stand: bool) -> int:
    """Listen until the machine is down; its status."""
    listening = [0, wake]
    while True:
        ready, _, _ = select.select(listening, [], [])
        if wake in ready:
            os.read(wake, 4096)
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return max(os.waitstatus_to_exitcode(status), 0) if os.WIFEXITED(status) else 137
        if 0 in ready:
            text = os.read(0, 4096)
            if text:
                send(child, signal.SIGTERM)
            else:
                listening = [wake]
                _pull_the_plug(child, walls_stand)


def _pull_the_plug(child: int, walls_stand: bool) -> None:
    if not walls_stand:  # with them, the kernel ends every process of the namespace with its first
        while below := descendants(child):
            for pid in below:
                send(pid, signal.SIGKILL)
    send(child, signal.SIGKILL)


def _wakeups() -> int:
    """A descriptor that becomes readable when a signal that the first process cares about arrives."""
    read, write = os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _noted)
    return read


def _noted(number: int, _frame: object) -> None:
    """Signals are read from the wakeup descriptor."""
