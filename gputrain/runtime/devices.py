"""What a VM needs before its job: packages, local SSD, GPUs that answer.

Google attaches local SSDs empty. They are striped into one file system; where that fails the job runs on the
boot disk, and the log says so. The driver lists GPUs before the fabric manager has joined them by NVSwitch;
CUDA then fails with error 802, so a job waits for both.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .supervisor import Failed, Supervisor

Call = Callable[..., tuple[int, str]]
"""As `Supervisor.call`: command, environment, standard input."""


_APT = ("timeout", "-s", "KILL", "600", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300")
"""A boot image that updates itself holds the lock meanwhile."""


def install(call: Call, *names: str) -> str | None:
    """Install packages; None, or what went wrong. Raises as ``call``."""
    if shutil.which("apt-get") is None:
        return "this boot image has no apt-get to install {} with".format(" ".join(names))
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    call([*_APT, "update"], env)  # where that fails, what is known already may be enough
    return fault_of(call, [*_APT, "install", "-y", "--no-install-recommends", *names], env)


def need(call: Call, name: str, hint: str) -> None:
    """Install a package. Raises Failed, and as ``call``."""
    fault = install(call, name)
    if fault is not None:
        raise Failed(f"{name} cannot be installed: {fault}\n{hint}")


def run(
    call: Call, words: Sequence[str], what: str, hint: str = "", *,
    env: Mapping[str, str] = os.environ, given: bytes = b"",
) -> None:  # fmt: skip
    """Run a program that has to succeed; ``what`` says what has failed. Raises Failed, and as ``call``."""
    fault = fault_of(call, words, env, given)
    if fault is not None:
        raise Failed(f"{what}: {fault}\n{hint}".rstrip())


LOCAL_SSDS = "/dev/disk/by-id/google-local-nvme-ssd-*", "/dev/disk/by-id/google-local-ssd-*"
"""How Google's images name them, by interface; the boot disk of some machines is /dev/nvme0n1 itself.
Source: "Add local SSD disks to your VM" and cluster-toolkit's setup-raid.yml, read 2026-11-22."""

_DISK = re.compile(r"-[0-9]+\Z")
"""A disk by its number; one that was partitioned has partitions beside it, ``-part1``."""

ARRAY = "/dev/md/gputrain"
_PATIENT = ("timeout", "-s", "KILL", "300")


def mount_local_ssds(call: Call, folder: str, say: Callable[..., Any]) -> bool:
    """Mount the local SSDs at a folder; whether there were any. What lies on an unused one is no job's."""
    named = [path for name in LOCAL_SSDS for path in glob.glob(name)]
    found = sorted(filter(_DISK.search, named), key=lambda path: int(path.rpartition("-")[2]))
    free = [path for path in found if _is_free(path)]
    if len(free) < len(found):
        say(f"{len(found) - len(free)} local SSDs are in use by this boot image, and stay as they are")
    if not free:
        return False
    device = _striped(call, free, say) if len(free) > 1 else free[0]
    fault = fault_of(call, [*_PATIENT, "mkfs.ext4", "-q", "-F", "-m", "0", device])
    os.makedirs(folder, exist_ok=True)
    fault = fault or fault_of(
        call, [*_PATIENT, "mount", "-t", "ext4", "-o", "discard,noatime", device, folder]
    )
    if fault:
        say(f"the local SSDs cannot be mounted, and all lies on the boot disk: {fault}", "WARNING")
        return False
    size = shutil.disk_usage(folder).total / 2**30
    say(f"{size:.1f} GiB of local SSD at {folder}: code, checkpoints, outputs, images and caches")
    return True


def _striped(call: Call, disks: list[str], say: Callable[..., Any]) -> str:
    """One device of all of them, or the first where this boot image cannot stripe."""
    if shutil.which("mdadm") is None:
        install(call, "mdadm")
    words = [*_PATIENT, "mdadm", "--create", ARRAY, "--name=gputrain", "--homehost=any", "--run", "--level=0"]
    fault = fault_of(call, [*words, f"--raid-devices={len(disks)}", *disks])
    if not fault:
        return ARRAY
    say(f"one of {len(disks)} local SSDs is used, as they cannot be striped: {fault}", "WARNING")
    return disks[0]


def fault_of(
    call: Call, words: Sequence[str], env: Mapping[str, str] = os.environ, given: bytes = b""
) -> str | None:
    """What a program wrote that failed; None where it did what it should. Raises as ``call``."""
    code, said = call(list(words), env, given)
    return (said.strip()[-1500:] or f"{' '.join(words)} ended with {code}") if code else None


def _is_free(path: str) -> bool:
    """Whether it is neither mounted nor made a part of an array: the kernel lets one user have it alone."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


ANSWER_S = 120.0
"""How long nvidia-smi may take: the driver may hang while it comes up, and what asks it cannot be killed."""

DRIVER = ("nvidia-smi", "-L")
FABRIC = ("nvidia-smi", "--query-gpu=fabric.state,fabric.status", "--format=csv,noheader")
JOINED = ("completed, success", "n/a, n/a", "not supported, not supported")
"""What stands in a line of a GPU that can be used, without brackets: the last two where there is no NVSwitch.
Source: NVIDIA's gpu-driver-container, its readiness probe, read 2026-11-22."""

GPUS_EVERY_S = 2.0


def wait_for_gpus(supervisor: Supervisor, wanted: int, wait_s: float) -> None:
    """Wait until so many are ready. Raises Failed: they are not in time, or are others."""
    deadline = time.monotonic() + wait_s
    while True:
        lack = _lacking(supervisor, wanted)
        if not lack:
            return
        if time.monotonic() > deadline:
            raise Failed(lack.format(wait_s))
        supervisor.sleep(min(GPUS_EVERY_S, max(0.1, deadline - time.monotonic())))


def _lacking(supervisor: Supervisor, wanted: int) -> str:
    """What is still missing; empty: nothing. Raises Failed where waiting does not help."""
    code, said = supervisor.call(DRIVER, within_s=ANSWER_S)
    if code:
        return (
            "nvidia-smi is missing or does not answer after {} s:"
            " take a boot image with the NVIDIA driver (image_family=), or leave secure_boot off"
        )
    seen = sum(line.startswith("GPU ") for line in said.splitlines())
    if seen != wanted:
        raise Failed(f"nvidia-smi sees {seen} GPUs, and this machine should have {wanted}")
    code, said = supervisor.call(FABRIC, within_s=ANSWER_S)
    if code:  # a driver that does not know the question is of a time before such machines
        return ""
    states = [line.strip() for line in said.splitlines()]
    apart = [state for state in states if state.lower().replace("[", "").replace("]", "") not in JOINED]
    if not apart:
        return ""
    first = apart[0].replace("{", "").replace("}", "")
    return (
        f"NVSwitch has not joined {len(apart)} of {len(states)} GPUs after {{}} s ({first}), and CUDA would"
        " fail with error 802: take a boot image whose nvidia-fabricmanager is of its driver's version"
    )
