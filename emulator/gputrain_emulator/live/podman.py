"""The container engine of virtual machines: this computer's Podman, run by each machine for itself.

What works (Debian 12: podman 4.3.1, runc 1.1.5, 2026-11-21) is written below: runc, as crun refuses computers
with both kinds of control groups; and control groups by hand, as there is no systemd.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gputrain_emulator.live.guest_process import PATH, why_no_walls

INSIDE = "/run/emulated-machine/engine"  # where a machine sees its engine's configuration
STORAGE = "/var/lib/containers"
SOCKET = "/run/docker.sock"
NEEDED = ("podman", "runc", "conmon", "catatonit", "netavark")
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP",
    "SETUID", "SYS_CHROOT",
)  # fmt: skip
"""Of a container's root: Debian's list, which is Docker's without raw sockets and devices of its own."""

PLACES = f"{PATH}:/usr/libexec/podman:/usr/lib/podman"


@cache
def why_no_engine() -> str | None:
    """Why virtual machines cannot run containers here; None where they can."""
    refusal = why_no_walls()
    if refusal is not None:
        return refusal
    if os.geteuid() != 0:
        return "containers in live virtual machines need root's rights"
    missing = [name for name in NEEDED if program(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (`make engine` installs them on Debian)"
    return None


def program(name: str) -> str | None:
    """Where a program of the engine lies; some are on nobody's PATH."""
    return shutil.which(name, path=PLACES)


def write(folder: Path, images: Path, *, volumes: Sequence[str]) -> dict[str, str]:
    """Write a machine's configuration into `folder`; which paths inside it and `images` stand at.

    images: an empty folder that keeps what the machine pulls; of a file system that carries overlays.
    volumes: of every container, as podman's ``--volume`` takes them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    images.mkdir(parents=True, exist_ok=True)
    for name, text in _files(volumes).items():
        (folder / name).write_text(text, encoding="utf-8")
    return {INSIDE: str(folder), STORAGE: str(images)}


def settings(cgroup: str) -> dict[str, Any]:
    """What the machine's first process needs to know to start the engine."""
    return {
        "program": program("podman"),
        "socket": SOCKET,
        "cgroup": cgroup,
        "environment": environment(INSIDE),
    }


def cgroup_of(machine: str) -> str:
    """The control group above all containers of a machine."""
    return f"gputrain-emulator-{os.getpid()}-{machine}"


def environment(folder: str) -> dict[str, str]:
    """Where the engine and its client find their configuration, which lies in `folder`."""
    return {
        "PATH": PATH,
        "HOME": "/root",
        "CONTAINERS_CONF": f"{folder}/containers.conf",
        "CONTAINERS_STORAGE_CONF": f"{folder}/storage.conf",
        "CONTAINERS_REGISTRIES_CONF": f"{folder}/registries.conf",
    }


def client(
    cgroup: str, *, gpus: int, socket: str = SOCKET, configuration: str = INSIDE, refusal: str | None = None
) -> str:
    """The text of the program `docker` of a machine with that many GPUs.

    refusal: why there is no engine; the program then says so.
    """
    text = Path(__file__).with_name("docker.py").read_text(encoding="utf-8")
    own = {
        "program": program("podman"),
        "socket": socket,
        "cgroup": cgroup,
        "environment": environment(configuration),
        "gpus": gpus,
        "refusal": refusal,
    }
    return f"#!{sys.executable} -IS\n{text}\n\nmain({own!r}, sys.argv[1:])\n"


def _files(volumes: Sequence[str]) -> Mapping[str, str]:
    return {
        "containers.conf": f"""[containers]
cgroups = "no-conmon"
default_capabilities = {json.dumps(CAPABILITIES)}
log_driver = "k8s-file"
volumes = {json.dumps(list(volumes))}
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
""",
        "storage.conf": f"""[storage]
driver = "overlay"
graphroot = "{STORAGE}/storage"
runroot = "/run/containers/storage"
""",
        "registries.conf": "unqualified-search-registries = []\n",
    }
