"""The container engine of this VM: docker and NVIDIA's toolkit, which Google's boot images do not bring.

What the engine keeps, images above all, lies where the job's data does where that is on local SSD.
"""

from __future__ import annotations

import os
import shutil
import urllib.request

from .install import install
from .keeper import Failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, Sequence

    from .install import Call

DOCKER, TOOLKIT = "docker.io", "nvidia-container-toolkit"
KEEPS = "/var/lib/docker", "/var/lib/containerd"
UNITS = "docker.socket", "docker", "containerd"
KEY_URL = "https://nvidia.github.io/libnvidia-container/gpgkey"
KEY = "/usr/share/keyrings/nvidia-container-toolkit.asc"
SOURCE = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
SOURCE_LINE = "deb [signed-by=%s] https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /\n" % KEY
"""Source: "Installing the NVIDIA Container Toolkit", read 2026-11-22."""

HINT = (
    "take a boot image that has docker and NVIDIA's toolkit, or give VMs a way out: Cloud NAT, external_ip="
)


def prepare(call: Call, data: Optional[str], say: Callable[..., Any]) -> None:
    """Have a docker that gives GPUs to containers. Raises Failed, and as ``call``.

    Args:
        data: a folder on local SSD; None where there is none.
    """
    has_docker = shutil.which("docker") is not None
    if data is not None:
        _move(call, os.path.join(data, "engine"), has_docker)
    if not has_docker:
        say("this boot image has no docker: it is installed")
        _install(call, DOCKER)
    if shutil.which("nvidia-ctk") is None:
        say("this boot image has no container toolkit of NVIDIA's: it is installed")
        if install(call, TOOLKIT) is not None:
            _know_nvidias_packages()
            _install(call, TOOLKIT)
        has_docker = False
    if not has_docker:
        _run(call, ["nvidia-ctk", "runtime", "configure", "--runtime=docker"])
        _run(call, ["systemctl", "restart", "docker"])


def _move(call: Call, folder: str, has_docker: bool) -> None:
    """Let the engine keep what it keeps in a folder; what it has kept so far is of no job's."""
    if has_docker:
        call(["systemctl", "stop", *UNITS])  # those that there are
    for path in KEEPS:
        inside = os.path.join(folder, os.path.basename(path))
        os.makedirs(inside, exist_ok=True)
        os.makedirs(path, exist_ok=True)
        _run(call, ["mount", "--bind", inside, path])
    if has_docker:
        _run(call, ["systemctl", "start", "docker"])


def _know_nvidias_packages() -> None:
    try:
        with urllib.request.urlopen(KEY_URL, timeout=60) as reply:
            key = reply.read()
    except OSError as error:
        raise Failed(
            f"{TOOLKIT} cannot be installed, as {KEY_URL} is out of reach ({error}): {HINT}"
        ) from None
    for path, content in ((KEY, key), (SOURCE, SOURCE_LINE.encode())):
        with open(path, "wb") as file:
            file.write(content)


def _install(call: Call, name: str) -> None:
    fault = install(call, name)
    if fault is not None:
        raise Failed(f"{name} cannot be installed: {fault}\n{HINT}")


def _run(call: Call, command: Sequence[str]) -> None:
    code, said = call(command)
    if code:
        raise Failed("{} failed: {}\n{}".format(" ".join(command), said[-1500:], HINT))
