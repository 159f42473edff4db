"""A virtual machine that boots for real: the userland of an image under systemd, in Podman.

The image holds what a boot image of Compute Engine does: systemd, and Google's own guest agent and script
runner. The machine is created once and started at every boot, so its disk outlives stops and resets. Its
power button is a signal to its own systemd; it has no right to reach further (no `CAP_SYS_BOOT`).
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from gputrain_emulator.live import podman, standins
from gputrain_emulator.live.gpus import gpus
from gputrain_emulator.live.guest_process import EXIT_REBOOT, FOLDER, GuestError
from gputrain_emulator.live.network import METADATA, PLACES, Network, Plug
from gputrain_emulator.metadata import Metadata, MetadataServer

if TYPE_CHECKING:
    from gputrain_emulator.compute.state import Vm

USERLAND = "local/gce-vm:1"
"""The image that `make engine` makes of Debian's packages."""

POWER_BUTTON = signal.SIGRTMIN + 4  # systemd(1): start poweroff.target
AGAIN_S = 1.0
START_S = 60.0
PYTHON = "/opt/conda/bin"
"""Where a machine has this computer's Python, with its packages: as Google's images had conda's."""

CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "SYS_NICE", "SYS_RESOURCE", "IPC_LOCK")
"""Beside a container's usual ones. The guest agent says "ready" in its parent's name, which wants SYS_ADMIN;
root mounts disks; the rest is every root's. Without SYS_BOOT, SYS_MODULE, SYS_TIME, SYS_RAWIO."""

_SETTINGS = """[containers]
log_driver = "k8s-file"
log_size_max = 4194304
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
"""
# As the rsyslog rule of Google's images does: what daemons say is seen on the serial port.
_JOURNAL = "[Journal]\nForwardToConsole=yes\nMaxLevelConsole=info\nRateLimitIntervalSec=0\n"


@cache
def why_no_userland(image: str) -> str | None:
    """Why virtual machines cannot boot `image` here; None where they can."""
    refusal = podman.why_no_engine()
    if refusal is not None:
        return refusal
    if shutil.which("ip", path=PLACES) is None:
        return "not installed: iproute2 (`make engine` installs it on Debian)"
    done = subprocess.run(
        [str(podman.program("podman")), "image", "exists", image], capture_output=True, check=False
    )
    return None if done.returncode == 0 else f"there is no image {image} here (`make engine` makes it)"


class Userland:
    """The computer behind one instance.

    Args:
        image: what it boots, an image of this computer's Podman.
        folder: its own, of this computer.
        base_url: where the emulated services listen on this computer, and are found inside.
        environment: what every unit sees.
    """

    metadata_address = METADATA

    def __init__(
        self,
        vm: Vm,
        *,
        image: str,
        folder: Path,
        hosts: Path,
        metadata: Metadata,
        network: Network,
        base_url: str,
        environment: Mapping[str, str],
    ) -> None:
        self.vm = vm
        self.name = podman.cgroup_of(str(vm.resource["id"]))
        self._image, self._folder, self._hosts = image, folder, hosts
        self._metadata, self._network, self._base_url = metadata, network, base_url
        self._environment = environment
        self._plug: Plug | None = None
        self._server: MetadataServer | None = None
        self._undertaker: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """That of its first interface."""
        return str(self.vm.resource["networkInterfaces"][0]["networkIP"])

    def power_on(self) -> None:
        """Nothing before it boots."""

    def boot(self) -> Boot:
        """Start it. Raises GuestError where the engine refuses."""
        if self._undertaker is None:
            self._create()
        return Boot(self.name, self._folder / "pid", self._command("start", "--attach", self.name))

    def close(self) -> None:
        """Remove it with its disk; it is off."""
        if self._undertaker is not None:
            self._undertaker.communicate()
        if self._server is not None:
            self._server.close()
        if self._plug is not None:
            self._plug.close()
        self._undertaker = self._server = self._plug = None

    def _create(self) -> None:
        self._plug = plug = self._network.plug_in(self.address)
        self._server = plug.listening(lambda: MetadataServer(self._metadata, METADATA, 80))
        url = urlsplit(self._base_url)
        plug.show(str(url.hostname), int(url.port or 80))
        words = [f"--volume={source}:{target}:ro" for target, source in self._volumes().items()]
        words += [f"--cap-add={one}" for one in CAPABILITIES]
        done = subprocess.run(
            [
                *self._command("create", "--pull=never", "--tty", "--systemd=always", "--cgroupns=private"),
                *[f"--name={self.name}", f"--hostname={self.vm.name}", f"--network=ns:{plug.path}"],
                *_limits(),
                *[
                    f"--pidfile={self._folder / 'pid'}",
                    "--no-hosts",
                    "--dns=none",
                    *words,
                    self._image,
                    "/sbin/init",
                ],
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise GuestError(done.stderr.strip())
        # a process of its own, as the machine must not outlive this one, however this one ends
        remove = 'read -r _; exec "$@"'
        self._undertaker = subprocess.Popen(
            ["sh", "-c", remove, "sh", *self._command("rm", "--force", "--time=0", self.name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _command(self, *words: str) -> list[str]:
        configuration = self._folder / "containers.conf"
        configuration.write_text(_SETTINGS)
        return ["env", f"CONTAINERS_CONF={configuration}", str(podman.program("podman")), *words]

    def _volumes(self) -> dict[str, str]:
        """Path inside -> path of this computer: names, settings, Python and torch, nvidia-smi."""
        own = self._folder / "own"
        programs = standins.write(own / "bin", gpus=gpus(self.vm.accelerator, self.vm.gpus))
        (own / "python").mkdir(parents=True, exist_ok=True)
        python = own / "python" / "python3"
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)
        pairs = " ".join(shlex.quote(f"{key}={value}") for key, value in self._environment.items())
        (own / "system.conf").write_text(f"[Manager]\nDefaultEnvironment={pairs}\n".replace("%", "%%"))
        (own / "journald.conf").write_text(_JOURNAL)
        return {
            **{path: path for path in visible()},
            PYTHON: str(python.parent),
            "/usr/bin/nvidia-smi": str(Path(programs[standins.INSIDE]) / "nvidia-smi"),
            "/etc/hosts": str(self._hosts),
            "/etc/systemd/system.conf.d/emulator.conf": str(own / "system.conf"),
            "/etc/systemd/journald.conf.d/console.conf": str(own / "journald.conf"),
        }


class Boot:
    """From power on to power off; its processes end with `pull_the_plug`."""

    def __init__(self, name: str, pidfile: Path, command: list[str]) -> None:
        pidfile.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        patience = time.monotonic() + START_S
        while not pidfile.exists() or not pidfile.read_text():
            if self._process.poll() is not None or time.monotonic() > patience:
                self._process.kill()
                said = self._process.communicate()[0].decode("utf-8", "replace").strip()
                raise GuestError(f"{name} does not start: {said}")
            time.sleep(0.01)
        self.pid = int(pidfile.read_text())
        self._first = os.pidfd_open(self.pid)
        self._pressed: threading.Thread | None = None
        self.stdout = _Console(cast(io.BufferedReader, self._process.stdout))

    def press_power_button(self) -> None:
        """ACPI G2; a machine that has not come so far as to hear it hears it later."""
        if self._pressed is None:
            self._pressed = threading.Thread(target=self._press, name="power button", daemon=True)
            self._pressed.start()

    def pull_the_plug(self) -> None:
        """Every process of it is killed now, with the first one."""
        self._signal(signal.SIGKILL)

    def wait(self) -> int:
        """How it went down: EXIT_REBOOT, or 0."""
        self._process.wait()
        return EXIT_REBOOT if b"Rebooting." in self.stdout.last else 0

    def close(self) -> None:
        """Let go of its console, once it has ended."""
        self.pull_the_plug()
        self._process.wait()
        if self._pressed is not None:
            self._pressed.join()
        self.stdout.close()
        os.close(self._first)

    def _press(self) -> None:
        while self._process.poll() is None:
            self._signal(POWER_BUTTON)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(AGAIN_S)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(OSError):  # it is off
            signal.pidfd_send_signal(self._first, number)


class _Console:
    """What the machine writes on its console, and the last of it, where systemd says how it goes down."""

    def __init__(self, pipe: io.BufferedReader) -> None:
        self._pipe = pipe
        self.last = b""

    def read1(self, size: int) -> bytes:
        data = self._pipe.read1(size)
        self.last = (self.last + data)[-200:]
        return data

    def close(self) -> None:
        self._pipe.close()


def visible() -> list[str]:
    """The folders of this Python and its packages, where they are not those of the image."""
    packages = [path for path in sys.path if path.endswith("-packages") and os.path.isdir(path)]
    wanted = {sys.prefix, sys.base_prefix, *packages, str(FOLDER.parents[2])} - {"/usr", "/usr/local"}
    return sorted(one for one in wanted if not any(one.startswith(other + "/") for other in wanted))


def _limits() -> list[str]:
    """1024 open files, which a unit may raise; runc's own numbers are above what this computer allows.

    Podman 4.3 gives up rights to processes beyond the number of open files.
    """
    kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    known = [most for _, most in map(resource.getrlimit, kinds) if most != resource.RLIM_INFINITY]
    most = min([1 << 20, *known])
    return ["--pids-limit=-1", f"--ulimit=nofile=1024:{most}", f"--ulimit=nproc={most}:{most}"]
