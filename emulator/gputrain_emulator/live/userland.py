"""A virtual machine that boots for real: the userland of an image under systemd, in Podman.

The image holds what a boot image of Compute Engine does: systemd, and Google's own guest agent and script
runner. The machine is created once and started at every boot, so its disk outlives stops and resets. Its
power button is a signal to its own systemd; it has no right to reach further (no `CAP_SYS_BOOT`).
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gputrain_emulator.live import gcsfuse, podman, standins
from gputrain_emulator.live.gpus import gpus
from gputrain_emulator.live.guest_process import FOLDER, GuestError
from gputrain_emulator.live.local_ssd import LocalSsds
from gputrain_emulator.live.machine_boot import Boot
from gputrain_emulator.live.network import METADATA, PLACES, Network, Plug
from gputrain_emulator.live.vm import LiveVm
from gputrain_emulator.metadata import MetadataServer

USERLAND = "local/gce-vm:1"
"""The image that `make engine` makes of Debian's packages."""

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


class Userland(LiveVm):
    """The machine behind one instance, in a container.

    Args:
        image: what it boots, an image of this computer's Podman.
        shown: addresses and ports of this computer that are found inside too: the emulated services.
    """

    metadata_address = METADATA
    _plug: Plug | None = None
    _server: MetadataServer | None = None
    _undertaker: subprocess.Popen[bytes] | None = None
    _disks: LocalSsds | None = None

    def __init__(self, *, image: str, network: Network, shown: Sequence[str], **shared: Any) -> None:
        super().__init__(**shared)
        self.image, self.network, self.shown = image, network, shown
        self.name = f"gputrain-emulator-{os.getpid()}-{self.vm.resource['id']}"

    @property
    def address(self) -> str:
        return str(self.vm.resource["networkInterfaces"][0]["networkIP"])

    def boot(self) -> Boot:
        if self._undertaker is None:
            self.release()  # what an attempt before this one has left
            self._create()
        return Boot(self.name, self.folder / "pid", self._command("start", "--attach", self.name))

    def release(self) -> None:
        """Remove it with its disk."""
        if self._undertaker is not None:
            self._undertaker.communicate()
        if self._server is not None:
            self._server.close()
        if self._plug is not None:
            self._plug.close()
        if self._disks is not None:
            self._disks.close()
        self._undertaker = self._server = self._plug = self._disks = None

    def _create(self) -> None:
        self._plug = plug = self.network.plug_in(self.address)
        self._server = plug.listening(lambda: MetadataServer(self.metadata, METADATA, 80))
        for address in self.shown:
            host, _, port = address.rpartition(":")
            plug.show(host.strip("[]"), int(port))
        machine = str(self.vm.resource["machineType"]).rpartition("/")[2]
        self._disks = disks = LocalSsds(self.folder / "disks", machine)
        done = subprocess.run(
            self._command("create", *disks.words, *self._words(plug)),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise GuestError(done.stderr.strip())
        # a process of its own, as the machine must not outlive this one, however this one ends
        remove = f'read -r _; "$@"; {disks.detach}'
        self._undertaker = subprocess.Popen(
            ["sh", "-c", remove, "sh", *self._command("rm", "--force", "--time=0", self.name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _words(self, plug: Plug) -> list[str]:
        return [
            *["--pull=never", "--tty", "--systemd=always", "--no-hosts", "--dns=none"],
            *[f"--name={self.name}", f"--hostname={self.vm.name}", f"--network=ns:{plug.path}"],
            *[f"--pidfile={self.folder / 'pid'}", *_limits()],
            *[f"--cap-add={one}" for one in CAPABILITIES],
            *[f"--volume={source}:{target}:ro" for target, source in self._volumes().items()],
            f"--volume={self.buckets.path}:{gcsfuse.BUCKETS}",
            *[self.image, "/sbin/init", *_hierarchy()],
        ]

    def _command(self, *words: str) -> list[str]:
        configuration = self.folder / "containers.conf"
        configuration.write_text(_SETTINGS)
        return ["env", f"CONTAINERS_CONF={configuration}", str(podman.program("podman")), *words]

    def _volumes(self) -> dict[str, str]:
        """Path inside -> path of this computer: names, settings, Python and torch, nvidia-smi."""
        own = self.folder / "own"
        standins.write(own / "bin", gpus=gpus(self.vm.accelerator, self.vm.gpus))
        (own / "python").mkdir(parents=True, exist_ok=True)
        python = own / "python" / "python3"
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)
        known = {"GCE_METADATA_HOST": METADATA, **self.environment}  # the firmware here is not Google's
        pairs = " ".join(shlex.quote(f"{key}={value}") for key, value in known.items())
        (own / "system.conf").write_text(f"[Manager]\nDefaultEnvironment={pairs}\n".replace("%", "%%"))
        (own / "journald.conf").write_text(_JOURNAL)
        (own / "resolv.conf").write_text(
            f"nameserver {METADATA}\n"
        )  # where nobody listens: it refuses at once
        return {
            **{path: path for path in visible()},
            PYTHON: str(python.parent),
            **{f"/usr/bin/{name}": str(own / "bin" / name) for name in ("nvidia-smi", "gcsfuse")},
            "/etc/hosts": str(self.hosts),
            "/etc/resolv.conf": str(own / "resolv.conf"),
            "/etc/systemd/system.conf.d/emulator.conf": str(own / "system.conf"),
            "/etc/systemd/journald.conf.d/console.conf": str(own / "journald.conf"),
        }


def visible() -> list[str]:
    """The folders of this Python and its packages, where they are not those of the image."""
    packages = [path for path in sys.path if path.endswith("-packages") and os.path.isdir(path)]
    wanted = {sys.prefix, sys.base_prefix, *packages, str(FOLDER.parents[2])} - {"/usr", "/usr/local"}
    return sorted(one for one in wanted if not any(one.startswith(other + "/") for other in wanted))


def _hierarchy() -> list[str]:
    """Words for systemd, which reads them as a kernel's.

    Where this computer has control groups of both kinds, Podman shows the machine where it is in those of the
    first kind alone; in the second its systemd would take this computer's root for its own.
    """
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return []
    return ["systemd.unified_cgroup_hierarchy=0", "systemd.legacy_systemd_cgroup_controller=1"]


def _limits() -> list[str]:
    """What a VM has: 1024 open files, which a unit may raise, and shared memory.

    runc's own numbers are above what this computer allows, and Podman 4.3 gives up rights to processes beyond
    the number of open files.
    """
    kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    known = [most for _, most in map(resource.getrlimit, kinds) if most != resource.RLIM_INFINITY]
    most = min([1 << 20, *known])
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2  # of the memory, as Linux shares it
    return [
        f"--shm-size={half}",
        "--pids-limit=-1",
        f"--ulimit=nofile=1024:{most}",
        f"--ulimit=nproc={most}:{most}",
    ]
