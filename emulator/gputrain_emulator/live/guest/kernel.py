"""The few Linux system calls that Python 3.10 lacks, each raising OSError that names what was tried."""

from __future__ import annotations

import ctypes
import os
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36

AT_FDCWD = -100
AT_RECURSIVE = 0x8000
MOUNT_ATTR_RDONLY = 0x1
# System call numbers: include/uapi/asm-generic/unistd.h and arch/x86/entry/syscalls of Linux 5.12.
SYS_MOUNT_SETATTR = 442
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
LINUX_CAPABILITY_VERSION_3 = 0x20080522

# What is left to root inside, by number in include/uapi/linux/capability.h: chown, dac_override, fowner,
# fsetid, kill, setgid, setuid, setpcap, net_bind_service, sys_chroot, audit_write, setfcap. Gone with the
# rest: sys_boot, sys_admin, sys_module, sys_time, net_admin. It is what a container engine grants, less
# mknod and net_raw.
KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 29, 31})

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process (its later children, for the pid namespace) into new namespaces."""
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    done = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, flags, options.encode() or None
    )
    _check(done, f"mount {kind or 'bind'} {source} on {target}")


def make_read_only(target: str) -> None:
    """Make a mount and everything mounted below it read-only (mount_setattr, Linux 5.12)."""
    attributes = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY, 0, 0, 0)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    done = _libc.syscall(
        SYS_MOUNT_SETATTR, AT_FDCWD, target.encode(), AT_RECURSIVE, buffer, ctypes.c_size_t(len(attributes))
    )
    _check(done, f"make {target} read-only")


def pivot_root(new_root: str) -> str:
    """Make `new_root` the root of this mount namespace; where the old one is seen until `detach`."""
    os.chdir(new_root)
    os.makedirs(".old", exist_ok=True)
    _check(_libc.syscall(SYS_PIVOT_ROOT[os.uname().machine], b".", b".old"), "pivot_root")
    os.chdir("/")
    return "/.old"


def detach(target: str) -> None:
    """Unmount `target` with everything below it, at once for new uses."""
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount {target}")
    os.rmdir(target)


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send `signal_number` to this process when its parent ends."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def adopt_orphans() -> None:
    """Become the parent of every process below this one that loses its own."""
    _check(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def drop_capabilities() -> None:
    """Give up, for this process and all it starts, every capability outside `KEPT_CAPABILITIES`.

    What this process has not got it cannot keep: one that the kernel refuses is left out as well.
    """
    keep = KEPT_CAPABILITIES & _permitted()
    for number in range(64):
        if number not in keep:
            _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # EINVAL beyond the kernel's last one
    kept = sum(1 << number for number in keep)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    header = ctypes.create_string_buffer(struct.pack("=Ii", LINUX_CAPABILITY_VERSION_3, 0))
    data = ctypes.create_string_buffer(struct.pack("=IIIIII", low, low, low, high, high, high))
    _check(_libc.syscall(SYS_CAPSET[os.uname().machine], header, data), "capset")


def _permitted() -> frozenset[int]:
    with open("/proc/self/status") as file:
        bits = next(int(line.split()[1], 16) for line in file if line.startswith("CapPrm:"))
    return frozenset(number for number in range(64) if bits >> number & 1)
