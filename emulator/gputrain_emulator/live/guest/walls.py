"""An emulated machine's own file system and namespaces.

The machine sees this computer's files, and what it writes lands in a folder of its own: every top directory
is an overlay whose upper layer is the machine's disk. So two machines may write the same path, a reboot
keeps what was written, and this computer's own files stay as they are.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterable, Sequence
from typing import Any

from . import kernel

SPECIAL = frozenset({"proc", "sys", "dev", "run", "tmp", "lost+found"})
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# Writable by root whatever its capabilities, and about the whole computer; Docker freezes the same ones.
FROZEN_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
PSEUDO_FILE_SYSTEMS = frozenset(
    {"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "overlay"}
)


def enter() -> None:
    """Leave this computer's namespaces; the next child of this process is the machine's first process."""
    spaces = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC
    if os.geteuid() == 0:
        kernel.unshare(spaces)
        return
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER | spaces)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def build(config: dict[str, Any]) -> None:
    """Lay out the machine's root on its disk, and move into it.

    Called in the machine's first process, which then gives up what could reach beyond. config: `disk` (its
    folder), `hostname`, `hosts` (a file that becomes /etc/hosts), `replaced` (paths inside that are other
    files than this computer's), `visible` (paths to be seen although they lie under /tmp or /run).
    """
    disk = config["disk"]
    root = os.path.join(disk, "root")
    nested = _nested_mounts()
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    os.makedirs(root, exist_ok=True)
    kernel.mount(root, root, flags=kernel.MS_BIND | kernel.MS_REC)
    for name in sorted(os.listdir("/")):
        _top(disk, root, name)
    for path in nested:
        _show(path, root)
    _temporary(disk, root, config["visible"])
    _devices(root)
    _proc_and_sys(root)
    old = kernel.pivot_root(root)
    for inside, source in {"/etc/hosts": config["hosts"], **config["replaced"]}.items():
        _bind(old + source, inside)  # only now, when a link such as poweroff -> /bin/systemctl ends inside
    kernel.detach(old)
    socket.sethostname(config["hostname"])


def _top(disk: str, root: str, name: str) -> None:
    source, target = "/" + name, os.path.join(root, name)
    if os.path.islink(source):
        if not os.path.lexists(target):
            os.symlink(os.readlink(source), target)
        return
    if name in SPECIAL or not os.path.isdir(source):
        return
    upper, work = os.path.join(disk, "upper", name), os.path.join(disk, "work", name)
    for folder in (upper, work, target):
        os.makedirs(folder, exist_ok=True)
    with contextlib.suppress(OSError):  # an unprivileged user owns nothing but his own
        os.chmod(upper, stat.S_IMODE(os.stat(source).st_mode))
    try:
        kernel.mount("overlay", target, "overlay", options=_overlay_options(source, upper, work))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _show(
            source, root
        )  # without root's rights a folder that carries mounts of its own can be seen, not written


def _overlay_options(lower: str, upper: str, work: str) -> str:
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    return options if os.geteuid() == 0 and _owns_host() else options + ",userxattr"


def _owns_host() -> bool:
    with open("/proc/self/uid_map") as file:
        return file.read().split() == ["0", "0", "4294967295"]


def _nested_mounts() -> list[str]:
    """Mount points of real file systems below a top directory; an overlay does not carry them along."""
    found = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            path = before.split()[4].encode().decode("unicode_escape")
            inside = path.count("/") > 1 and path.split("/")[1] not in SPECIAL
            if inside and after.split()[0] not in PSEUDO_FILE_SYSTEMS:
                found.append(path)
    return found


def _show(path: str, root: str) -> None:
    """Show a path of this computer inside, read-only."""
    target = root + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        _bind(path, target)
        return
    kernel.mount(path, target, flags=kernel.MS_BIND | kernel.MS_REC)
    kernel.make_read_only(target)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "x"):
            pass
    kernel.mount(source, target, flags=kernel.MS_BIND)


def _temporary(disk: str, root: str, visible: Iterable[str]) -> None:
    """An own /tmp on the disk, an own /run in memory; what must be seen of this computer's shows through."""
    own_tmp = os.path.join(disk, "tmp")
    for folder in (own_tmp, os.path.join(root, "tmp"), os.path.join(root, "run")):
        os.makedirs(folder, exist_ok=True)
    os.chmod(own_tmp, 0o1777)  # noqa: S103 - as every /tmp
    kernel.mount(own_tmp, os.path.join(root, "tmp"), flags=kernel.MS_BIND)
    kernel.mount("tmpfs", root + "/run", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755")
    os.makedirs(root + "/run/lock")
    for path in visible:
        if path.split("/")[1] in ("tmp", "run"):
            _show(path, root)


def _devices(root: str) -> None:
    dev = root + "/dev"
    os.makedirs(dev, exist_ok=True)
    kernel.mount("tmpfs", dev, "tmpfs", kernel.MS_NOSUID, "mode=755")
    for name in (*DEVICES, *_gpu_devices()):
        if os.path.exists("/dev/" + name):
            _bind("/dev/" + name, f"{dev}/{name}")
    os.makedirs(dev + "/shm")
    kernel.mount("tmpfs", dev + "/shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=1777")
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"{dev}/{name}")


def _gpu_devices() -> Sequence[str]:
    return [name for name in os.listdir("/dev") if name.startswith("nvidia")]


def _proc_and_sys(root: str) -> None:
    for name in ("proc", "sys"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    kernel.mount("proc", root + "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    for name in FROZEN_PROC:
        path = f"{root}/proc/{name}"
        if os.path.exists(path):
            kernel.mount(path, path, flags=kernel.MS_BIND | kernel.MS_REC)
            kernel.make_read_only(path)
    kernel.mount("/sys", root + "/sys", flags=kernel.MS_BIND | kernel.MS_REC)
    kernel.make_read_only(root + "/sys")
