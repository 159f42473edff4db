"""NCCL's plugin for this VM's network: installed, its daemon running, and what ranks get to know of it.

A node does it whole or fails: with one node on sockets all would wait on GPUs that bill.
Sources of all words: slurm-gcp's prologs @13fd92b, cluster-toolkit's blueprints @1047080, Google's GKE
installers @992db81, read 2026-11-22. They were not run on such a machine.

TCPXO needs more of the kernel on an A3 Mega: a module, and its GPUs' neighbours as devices.
"""

from __future__ import annotations

import glob
import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import container, host
from .cloud import metadata
from .devices import Call, fault_of, need, run
from .supervisor import Failed, Supervisor

VOLUMES = {"gib": "/usr/local/gib:/var/lib/gib", "tcpxo": "/var/lib:/var/lib", "tcpx": "/var/lib:/var/lib"}
"""Where the image of each plugin installs to."""

HELPER = "/dev/dmabuf_import_helper"
DAEMON = "receive-datapath-manager"
DAEMONS = {
    "tcpxo": (
        ("--volume", f"{HELPER}:{HELPER}"),
        ("--num_hops=2", "--num_nics=8", "--uid=", "--alsologtostderr"),
    ),
    "tcpx": (
        ("--volume", "/run/tcpx:/run/tcpx", "--entrypoint", "/tcpgpudmarxd/build/app/tcpgpudmarxd"),
        ("--gpu_nic_preset", "a3vm", "--gpu_shmem_type", "fd", "--uds_path", "/run/tcpx",
         "--setup_param", "--verbose 128 2 0"),
    ),
}  # fmt: skip
"""What its daemon is started with: docker's words before the image, and its own after it."""
TCPX = "/run/tcpx"
READY = "Buffer manager initialization complete"
READY_S = 120.0
LINKED_S = 180.0
"""How long further interfaces may take to get their addresses: they come up after the first."""

EVERY_S = 2.0
SOURCE = "/etc/apt/sources.list.d/google-fast-socket.list"
SOURCE_LINE = "deb https://packages.cloud.google.com/apt google-fast-socket main\n"
INSTEAD = "or leave the plugin out with gpu_networking='single-nic', which is slower"


def needs_engine(fabric: Any) -> bool:
    """Whether the plugin comes in a container."""
    return bool(fabric) and fabric["networking"] in VOLUMES


def prepare(supervisor: Supervisor, fabric: Mapping[str, Any], say: Callable[..., Any]) -> dict[str, str]:
    """Have what the job document asks for; what ranks are given. Raises Failed, and as `Supervisor.call`."""
    names = _interfaces(supervisor, fabric["gvnics"])
    networking = fabric["networking"]
    if needs_engine(fabric):
        say("bringing NCCL's plugin {}: {}".format(networking, fabric["plugin"]))
        _have_devices(supervisor, networking)
        _install(supervisor, networking, fabric["plugin"])
    elif fabric["plugin"]:
        _install_package(supervisor, fabric["plugin"], fabric["libraries"])
    if fabric["daemon"]:
        _start(supervisor, networking, fabric["daemon"])
    values = {
        "control": names[0],
        "data": names[1:],
        "all_data": ",".join(names[1:]),
        "gvnics": ",".join(names),
    }
    env = {name: text.format(**values) for name, text in fabric["environment"].items()}
    if fabric["libraries"]:
        _have_libraries(fabric["libraries"])
        env["NCCL_LIB_DIR"] = fabric["libraries"]  # Google's own name for it; the agent looks there
    return env


def _interfaces(supervisor: Supervisor, count: int) -> list[str]:
    """The names of the first interfaces, in the order of the VM's; each image has names of its own."""
    wanted = [metadata(f"network-interfaces/{number}/ip").strip() for number in range(count)]
    deadline = time.monotonic() + LINKED_S
    while True:
        names = [host.interface_of(address) for address in wanted]
        if all(names):
            return names
        if time.monotonic() > deadline:
            raise Failed(
                f"{names.count('')} of {count} network interfaces have no address after {LINKED_S:g} s:"
                f" does the boot image bring them up? {INSTEAD}"
            )
        supervisor.sleep(EVERY_S)


def _have_devices(supervisor: Supervisor, networking: str) -> None:
    """What a plugin needs of the kernel."""
    if networking == "gib" and not glob.glob("/sys/class/infiniband/*"):
        raise Failed(
            "this boot image sees no RDMA interface, which gIB talks through: take one with NVIDIA's"
            f" drivers for them, such as ubuntu-accelerator-*, {INSTEAD}"
        )
    if networking == "tcpxo":
        supervisor.call(["modprobe", "import-helper"])
        if not os.path.exists(HELPER):
            raise Failed(
                f"this boot image has no {HELPER}, through which TCPXO reads a GPU's memory: take one for"
                f" A3 Mega, such as slurm-gcp's or your own with the module import-helper, {INSTEAD}"
            )
        apertures(supervisor.call)
    if networking == "tcpx":
        os.makedirs(TCPX, exist_ok=True)


def _install(supervisor: Supervisor, networking: str, plugin: str) -> None:
    container.fetch(plugin, supervisor.call)
    words = ["--rm", "--network", "host", "--volume", VOLUMES[networking], plugin]
    what, hint = f"the plugin {plugin} cannot be installed", f"Take another with nccl_plugin=, {INSTEAD}"
    run(supervisor.call, ["docker", "run", *words, "install", "--install-nccl"], what, hint)


def _install_package(supervisor: Supervisor, package: str, folder: str) -> None:
    """A package has its library where the loader looks first; ranks and containers look into a folder."""
    with open(SOURCE, "w") as file:
        file.write(SOURCE_LINE)
    need(supervisor.call, package, INSTEAD)
    _, listed = supervisor.call(["dpkg", "-L", package])
    os.makedirs(folder, exist_ok=True)
    for path in listed.splitlines():
        if os.path.basename(path).startswith("libnccl-net"):
            shutil.copy(path, folder)


def _start(supervisor: Supervisor, networking: str, image: str) -> None:
    """Start the daemon, and wait until it serves: it may end with 0 where it cannot."""
    container.fetch(image, supervisor.call)
    before, after = DAEMONS[networking]
    command = [
        *["docker", "run", "--detach", "--name", DAEMON, "--privileged", "--cap-add", "NET_ADMIN"],
        *["--network", "host", "--gpus", "all", "--env", "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu"],
        *[*before, image, *after],
    ]
    said = fault_of(supervisor.call, command)
    deadline = time.monotonic() + READY_S
    while said is None:
        _, lives = supervisor.call(["docker", "inspect", "--format", "{{.State.Running}}", DAEMON])
        _, output = supervisor.call(["docker", "logs", "--tail", "200", DAEMON])
        if lives.strip() != "true":
            said = "it ended by itself: " + output[-1500:]
        elif READY in output or (networking == "tcpx" and os.listdir(TCPX)):
            return
        elif time.monotonic() > deadline:
            said = f"it is not ready after {READY_S:g} s: {output[-1500:]}"
        else:
            supervisor.sleep(EVERY_S)
    hint = f"does it suit the driver and the kernel? Take another with nccl_daemon=, {INSTEAD}"
    raise Failed(f"the daemon {image} does not serve: {said}\n{hint}")


def _have_libraries(folder: str) -> None:
    if not glob.glob(os.path.join(folder, "libnccl-net*.so*")):
        raise Failed(f"the plugin left no libnccl-net in {folder}: take another with nccl_plugin=, {INSTEAD}")


APERTURE = "0x1ae0", "0x0084"
"""Vendor and device of what lets a network interface write into a GPU."""
APERTURES = "/dev/aperture_devices"


def apertures(call: Call) -> None:
    """Show the apertures of the GPUs where the plugin looks for them. Raises Failed, and as ``call``."""
    found = [path for path in sorted(glob.glob("/sys/bus/pci/devices/*")) if _is_aperture(path)]
    if not found:
        raise Failed("TCPXO needs the aperture devices of an A3 Mega, and this VM shows none")
    for path in found:
        target = os.path.join(APERTURES, os.path.basename(path))
        if os.path.isdir(target):
            continue
        os.makedirs(target)
        run(call, ["mount", "--bind", os.path.realpath(path), target], f"{target} cannot be mounted")
        for resource in glob.glob(os.path.join(target, "resource*")):
            os.chmod(resource, 0o666)  # noqa: S103  # as Google does: ranks need not be root


def _is_aperture(path: str) -> bool:
    try:
        with open(os.path.join(path, "vendor")) as vendor, open(os.path.join(path, "device")) as device:
            return (vendor.read().strip(), device.read().strip()) == APERTURE
    except OSError:
        return False
