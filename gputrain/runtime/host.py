"""Facts about the machine or container the agent runs in, by the kernel's files, and notices of its end."""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

SMALL_SHM = 1 << 30
"""Containers get 64 MiB of /dev/shm by default; DataLoader workers and NCCL want far more."""

FULL_BYTES = 1 << 20
"""A disk with less room than this is full."""

_HAS_PROC = os.path.isdir("/proc/self")
_SIOCGIFADDR = 0x8915
"""Of Linux (netdevice(7)); elsewhere it fails."""


def gpu_count(environ: Mapping[str, str]) -> int:
    """How many GPUs a rank of this node may use, without asking CUDA."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        usable = (entry.strip() not in ("", "-1", "NoDevFiles", "none") for entry in visible.split(","))
        return len(list(itertools.takewhile(bool, usable)))
    return len(glob.glob("/proc/driver/nvidia/gpus/*")) or len(glob.glob("/dev/nvidia[0-9]*"))


def cpu_count() -> int:
    """How many CPUs this process may use, in whole numbers."""
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    limit = read_text("/sys/fs/cgroup/cpu.max").split() or [
        read_text(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period")
    ]
    is_limited = len(limit) == 2 and all(one.isdecimal() and int(one) for one in limit)
    return max(1, min(cpus, int(limit[0]) // int(limit[1]))) if is_limited else cpus


def shared_memory_advice(path: str = "/dev/shm") -> str:  # noqa: S108  # the mount itself, nothing is written
    """What to say about /dev/shm where it is small."""
    try:
        status = os.statvfs(path)
    except OSError as error:  # as on macOS, whose shared memory is no folder
        return f"{path} cannot be read ({error}): DataLoader workers need it" if _HAS_PROC else ""
    size = status.f_blocks * status.f_frsize
    if size >= SMALL_SHM:
        return ""
    return (
        f"{path} has only {size >> 20} MiB: DataLoader workers and NCCL may die of it (bus error). "
        "Start the container with --ipc=host or --shm-size=8g; where that cannot be set, use num_workers=0 "
        "or torch.multiprocessing.set_sharing_strategy('file_system')"
    )


def full_disk(paths: Iterable[str]) -> str:
    """The first of these folders whose disk has no room left; empty: none."""
    for path in paths:
        with contextlib.suppress(OSError):
            status = os.statvfs(path)
            if status.f_bavail * status.f_frsize < FULL_BYTES:
                return path
    return ""


def oom_kills(root: str = "/sys/fs/cgroup", proc: str = "/proc") -> int | None:
    """How often the kernel has killed for memory, in this container or else on this machine."""
    files = [f"{root}/memory.events", f"{root}/memory/memory.oom_control", f"{proc}/vmstat"]
    for line in read_text(f"{proc}/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" and path != "/":
            files.insert(0, f"{root}{path}/memory.events")
        if controllers == "memory" and path != "/":
            files.insert(0, f"{root}/memory{path}/memory.oom_control")
    found = (re.search(r"^oom_kill (\d+)", read_text(path), re.MULTILINE) for path in files)
    return next((int(one[1]) for one in found if one), None)


def is_on_google(environ: Mapping[str, str], product: str = "/sys/class/dmi/id/product_name") -> bool:
    """Whether a metadata server is worth asking."""
    return bool(environ.get("GCE_METADATA_HOST")) or read_text(product).startswith("Google")


POLL_S = 300
"""How long one question stays open."""

RETRY_S = 5.0
"""Pause after a question that failed."""

_NOTICES = (
    ("preempted", "TRUE", "preempted"),
    ("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE", "maintenance"),
)
"""Key under instance/, the value that announces the end, and the reason of the stop. Source: Compute Engine's
documentation, read 2026-11-20."""


def watch_notices(tell: Callable[[str], None]) -> None:
    """Have `tell` called with the reason, from another thread, when this machine's end is near: preempted, or
    host maintenance. The metadata server answers a long poll when a value changes, never through a proxy."""
    for notice in _NOTICES:
        threading.Thread(target=_watch_notice, args=(*notice, tell), daemon=True).start()


def _watch_notice(key: str, announces: str, reason: str, tell: Callable[[str], None]) -> None:
    from http.client import HTTPException  # heavy, and elsewhere there is no such server

    from .cloud import DIRECT, metadata_request

    etag, last = "0", ""
    while True:
        wanted = f"{key}?timeout_sec={POLL_S}&last_etag={etag}&wait_for_change=true"
        try:
            with DIRECT.open(metadata_request(wanted), timeout=POLL_S + 30) as answer:
                value = answer.read(4096).decode("utf-8", "replace").strip()
                etag = answer.headers["ETag"] or "0"
        except (OSError, HTTPException) as error:
            if getattr(error, "code", 0) == 404:  # a server that knows no such key, as inside GKE
                return
            etag = "0"
            time.sleep(RETRY_S)
            continue
        if value == announces:
            tell(reason)
            return
        if value == last:  # of a server that does not hold the question open
            time.sleep(1.0)
        last = value


def children_of(parent: int) -> list[int]:
    """The direct children of a process that are alive, zombies left out."""
    return [pid for pid, above, state in _process_table() if above == parent and not state.startswith("Z")]


def _process_table() -> Iterator[tuple[int, int, str]]:
    """Number, parent and state of every process."""
    if _HAS_PROC:
        for pid in _processes():
            state, *rest = _stat(pid)
            if rest:
                yield pid, int(rest[0]), state
        return
    import subprocess  # seldom needed

    words = ["ps", "-A", "-o", "pid=", "-o", "ppid=", "-o", "stat="]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as ps:
        text, _ = ps.communicate()
    for number, above, state in (line.split() for line in text.decode().splitlines()):
        if int(number) != ps.pid:
            yield int(number), int(above), state


def usage_of(sessions: Sequence[int]) -> tuple[int, int]:
    """Clock ticks of CPU and pages of memory of all processes of some sessions, alive now."""
    wanted = {str(one) for one in sessions}
    ticks = pages = 0
    for pid in _processes() if wanted else ():
        stat = _stat(pid)
        if stat[3:4] and stat[3] in wanted:  # of proc(5): utime 14, stime 15, rss 24, the state being 3
            ticks += int(stat[11]) + int(stat[12])
            pages += int(stat[21])
    return ticks, pages


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()] if _HAS_PROC else []


def _stat(pid: int) -> list[str]:
    """State, parent, process group, session and the rest of what the kernel tells of a process."""
    return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split() or [""]


def state_of(pid: int) -> str:
    """One letter of proc(5): T is stopped, D in the kernel, Z a zombie; empty: gone, or not known here."""
    return _stat(pid)[0]


def began(pid: int) -> str:
    """When a process began, in ticks since the boot, as pids come again. Empty: it is gone, or not known."""
    return (_stat(pid) + [""] * 20)[19]


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    found = re.search(r"^SigCgt:\s*([0-9a-f]+)", read_text(f"/proc/{pid}/status"), re.MULTILINE)
    return bool(found and int(found.group(1), 16) >> (number - 1) & 1)


def interface_of(address: str) -> str:
    """The interface that has a numeric address; empty where there is none."""
    if ":" in address:
        wanted = socket.inet_pton(socket.AF_INET6, address.partition("%")[0]).hex()
        with contextlib.suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as file:
            return next((line.split()[-1] for line in file if line.split()[0] == wanted), "")
        return ""
    address = "127.0.0.1" if address.startswith("127.") else address
    with contextlib.suppress(ImportError, OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        import fcntl

        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                row = fcntl.ioctl(sock, _SIOCGIFADDR, name.encode().ljust(40, b"\0"))
                if socket.inet_ntoa(row[20:24]) == address:
                    return name
    return ""


def uses_torch(pid: int) -> bool:
    """Whether a process has loaded torch; never on macOS."""
    return "libtorch" in read_text(f"/proc/{pid}/maps")


def program_of(pid: int) -> str:
    """The name of the program that a process runs; empty where that is not known."""
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return ""


def put(path: str, content: str | bytes, mode: int = 0o666) -> None:
    """Write a file that appears whole or not at all."""
    folder, name = os.path.split(path)
    fresh = os.path.join(folder, f".{name}.{os.urandom(6).hex()}")  # threads, too, may write the same
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise


def read_json(path: str) -> dict[str, Any] | None:
    """The JSON object in a file; None where there is none that can be read."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return json_object(file.read())
    return None


def json_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object that some bytes are; None for any others."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def read_text(path: str) -> str:
    """A file of the kernel's; empty where there is none."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()
    return ""
